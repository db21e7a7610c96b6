"""A physics step on a GPU as chains of kernels side by side, where mujoco_warp has one long one.

joints ─> poses ┬─> contacts ──────────────┬─> constraint rows ──┐
                └─> centres of mass ┬──────┘                     ├─> solver ─> next state
                                    ├─> inertia ─────────────────┤
                                    └─> velocities ─> forces ────┘

At some thousand worlds a kernel is over before the device is full: what counts is how many stand one behind the
other. The kernels are mujoco_warp's own and do the same work; only their order is looser, on streams that wait for
what they need.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import mujoco
import mujoco_warp as mjw
import warp as wp

from twinproof.sim.worlds_kernels import INTEGRATE

LANES = 2  # beside the stream that everything begins and ends on
NEEDS_ORDER = mujoco.mjtEnableBit.mjENBL_SLEEP | mujoco.mjtEnableBit.mjENBL_ENERGY


def loosens(host: Any) -> bool:
    """Whether a model's step may be taken apart: equalities, tendons, soft bodies and suction need what several chains
    find."""
    ordered = host.neq or host.ntendon or host.nflex or host.opt.enableflags & NEEDS_ORDER
    sucks = (host.actuator_trntype == mujoco.mjtTrn.mjTRN_BODY).any()  # by its contacts
    return not (ordered or sucks) and int(host.opt.integrator) != int(mujoco.mjtIntegrator.mjINT_RK4)


class Lanes:
    """Streams of a device. On a device without streams work is done in the order in which it is written."""

    def __init__(self, device: Any) -> None:
        self._device = device
        self._streams = [wp.Stream(device) for _ in range(LANES)] if device.is_cuda else []

    def mark(self) -> Any:
        """What a lane can wait for: all that the main stream was given so far."""
        return self._device.stream.record_event() if self._streams else None

    @contextmanager
    def beside(self, lane: int, after: Any) -> Iterator[list[Any]]:
        """Work on a lane that begins when `after` is done. Gives a list that holds, in the end, its own mark."""
        done: list[Any] = []
        if not self._streams:
            yield done
            return
        stream = self._streams[lane]
        stream.wait_event(after)
        with wp.ScopedStream(stream, sync_enter=False):
            yield done
        done.append(stream.record_event())

    def join(self, *marks: list[Any]) -> None:
        """The main stream goes on when these are done."""
        for mark in marks:
            for event in mark:
                self._device.stream.wait_event(event)


def describe(m: Any, d: Any, lanes: Lanes | None, read: bool) -> None:
    """Everything that follows from positions and velocities: poses, contacts, inertia, rows, velocities, sensors. One
    long chain where there are no lanes."""
    if lanes is None:
        mjw.fwd_position(m, d, factorize=False)
        mjw.fwd_velocity(m, d)
    else:
        _side_by_side(m, d, lanes)
    if read:
        d.sensordata.zero_()
        mjw.sensor_pos(m, d)
        mjw.sensor_vel(m, d)


def integrate(m: Any, d: Any, read: bool) -> None:
    """From forces to the next positions and velocities."""
    mjw.fwd_actuation(m, d)
    mjw.fwd_acceleration(m, d, factorize=True)
    mjw.solve(m, d)
    if m.opt.run_rne_postconstraint or (read and m.sensor_rne_postconstraint):
        mjw.rne_postconstraint(m, d)
    mjw.sensor_acc(m, d, skip_rne_postconstraint=True)
    INTEGRATE[m.opt.integrator](m, d)


def _side_by_side(m: Any, d: Any, lanes: Lanes) -> None:
    mjw.kinematics(m, d)
    with lanes.beside(0, lanes.mark()):
        mjw.collision(m, d)
    mjw.com_pos(m, d)
    centred = lanes.mark()
    with lanes.beside(0, centred) as touching:
        mjw.camlight(m, d)
        mjw.make_constraint(m, d)
    with lanes.beside(1, centred) as inertia:
        mjw.crb(m, d)
    mjw.transmission(m, d)
    mjw.fwd_velocity(m, d)
    lanes.join(touching, inertia)
