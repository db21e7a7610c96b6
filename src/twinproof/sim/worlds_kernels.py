"""What worlds on a GPU ask of mujoco_warp, and the two kernels that they add to its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import mujoco
import mujoco_warp as mjw
import warp as wp

from twinproof.nouns.errors import SimError

# No annotation below is a string at run time: warp reads them when it builds a kernel.
Row = wp.array(dtype=wp.float32)
Table = wp.array2d(dtype=wp.float32)
Count = wp.array(dtype=wp.int32)


def _guard(
    allowed: Any,
    ctrl: Any,
    nstep: int,
    time_before: Any,
    qpos_before: Any,
    qvel_before: Any,
    act_before: Any,
    history_before: Any,
    warm_before: Any,
    time: Any,
    qpos: Any,
    qvel: Any,
    act: Any,
    history: Any,
    warm: Any,
    flag: Any,
    age: Any,
) -> None:
    """Flags a world that left its limits (2) or was sent a control that is no number (1), and puts its state back."""
    world = wp.tid()
    bad = int(0)  # noqa: UP018, RUF046  a variable to warp, where 0 alone is a constant
    nq = qpos.shape[1]
    for i in range(nq):
        if not (wp.abs(qpos[world, i]) <= allowed[i]):
            bad = 2
    for i in range(qvel.shape[1]):
        if not (wp.abs(qvel[world, i]) <= allowed[nq + i]):
            bad = 2
    for i in range(ctrl.shape[1]):
        if not wp.isfinite(ctrl[world, i]):
            bad = 1
    if flag[world] == 0 and bad != 0:
        flag[world] = bad + 16 * nstep
    if flag[world] == 0:
        age[world] = age[world] + nstep
        return
    time[world] = time_before[world]
    for i in range(nq):
        qpos[world, i] = qpos_before[world, i]
    for i in range(qvel.shape[1]):
        qvel[world, i] = qvel_before[world, i]
        warm[world, i] = warm_before[world, i]
    for i in range(act.shape[1]):
        act[world, i] = act_before[world, i]
    for i in range(history.shape[1]):
        history[world, i] = history_before[world, i]


def _keep_columns(columns: Any, source: Any, keep: int, target: Any) -> None:
    """Sets some columns of `target` to those of `source`, or to zero."""
    world, k = wp.tid()
    column = columns[k]
    if keep != 0:
        target[world, column] = source[world, column]
    else:
        target[world, column] = 0.0


def _kernel(function: Any, **types: Any) -> Any:
    names = function.__code__.co_varnames[: function.__code__.co_argcount]
    function.__annotations__ = {name: types.get(name, Table) for name in names}
    return wp.kernel(function, enable_backward=False)


guard = _kernel(_guard, allowed=Row, nstep=int, time_before=Row, time=Row, flag=Count, age=Count)
keep_columns = _kernel(_keep_columns, columns=Count, keep=int)

INTEGRATE: dict[int, Callable[[Any, Any], None]] = {
    int(mjw.IntegratorType.EULER): mjw.euler,
    int(mjw.IntegratorType.RK4): mjw.rungekutta4,
    int(mjw.IntegratorType.IMPLICITFAST): mjw.implicit,
    int(mjw.IntegratorType.IMPLICIT): mjw.implicit,
}


FREE_ROWS = 64  # of a free body: a box between two fingers on a table, four rows a contact


def rows_for(host: Any) -> int:
    """Room for constraint rows in one world: all stops, friction in joints, equalities, and what free bodies touch."""
    free = int((host.jnt_type == mujoco.mjtJoint.mjJNT_FREE).sum())
    fixed = int(host.jnt_limited.sum() + host.tendon_limited.sum() + (host.dof_frictionloss > 0).sum() + 6 * host.neq)
    return 32 * -(-(fixed + FREE_ROWS * max(1, free)) // 32)


@contextmanager
def sensing(model: Any, on: bool) -> Iterator[bool]:
    """Physics steps in here read no sensors, unless `on`: between two ticks nobody looks."""
    kept = model.opt.disableflags
    model.opt.disableflags = kept if on else kept | mujoco.mjtDisableBit.mjDSBL_SENSOR
    yield on
    model.opt.disableflags = kept


def check_supported(host: Any) -> None:
    """The model's options are among those that this back end takes."""
    if host.opt.enableflags & mujoco.mjtEnableBit.mjENBL_SLEEP or int(host.opt.integrator) not in INTEGRATE:
        raise SimError(
            "worlds on the GPU take the integrators Euler, RK4, implicit and implicitfast, without sleeping bodies. "
            "Change the option in the scene, or use worlds on the CPU."
        )
