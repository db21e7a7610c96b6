"""The three small kernels that a rollout on a GPU adds to mujoco_warp's own, so that a whole sample is one graph."""

from __future__ import annotations

from typing import Any

import warp as wp

# No annotation below is a string at run time: warp reads them when it builds a kernel.
Count = wp.array(dtype=wp.int32)
Rows = wp.array2d(dtype=wp.float32)
Cube = wp.array3d(dtype=wp.float32)


def _take_control(table: Any, row: Any, step: Any, ctrl: Any) -> None:
    """What a world is sent at this step; the last command holds for ever."""
    world, k = wp.tid()
    ctrl[world, k] = table[row[world], wp.min(step[0], table.shape[1] - 1), k]


def _tick(step: Any) -> None:
    step[0] = step[0] + 1


def _copy_row(source: Any, step: Any, substeps: int, target: Any) -> None:
    """Writes what every world shows into the sample that the steps so far have filled."""
    world, k = wp.tid()
    target[step[0] / substeps, world, k] = source[world, k]


def _kernel(function: Any, **types: Any) -> Any:
    names = function.__code__.co_varnames[: function.__code__.co_argcount]
    function.__annotations__ = {name: types[name] for name in names}
    return wp.kernel(function, enable_backward=False)


take_control = _kernel(_take_control, table=Cube, row=Count, step=Count, ctrl=Rows)
tick = _kernel(_tick, step=Count)
copy_row = _kernel(_copy_row, source=Rows, step=Count, substeps=int, target=Cube)
