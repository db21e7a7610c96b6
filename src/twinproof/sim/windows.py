"""Where rollouts begin and what they are sent: measured states, recorded commands, windows cut from an episode."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from twinproof.nouns.errors import SimError
from twinproof.sim.tangent import differentiate_pos

if TYPE_CHECKING:
    from jaxtyping import Float, Int


@dataclass(frozen=True, eq=False)
class Start:
    """States that windows begin with; axes in front of the last are (windows,) or (thetas, windows).

    `past` are the commands of the physics steps before, newest last: what a delayed actuator still has to carry out.
    Without them the first command counts as having been sent all along. With `encoders` the positions are what the
    robot's encoders showed: each Theta's joint offsets are taken off them.
    """

    qpos: Float[np.ndarray, "*rows nq"]
    qvel: Float[np.ndarray, "*rows nv"]
    act: Float[np.ndarray, "*rows na"] | None = None
    past: Float[np.ndarray, "*rows steps nu"] | None = None
    encoders: bool = False

    def rows(self, thetas: int, windows: int) -> Start:
        """The same with both axes, flat: one row for each Theta and window."""

        def flat(name: str, tail: int) -> Any:
            value = getattr(self, name)
            if value is None:
                return None
            value = np.asarray(value, dtype=np.float64)
            end = value.shape[value.ndim - tail :]
            if value.shape[: value.ndim - tail] not in ((), (windows,), (thetas, windows)):
                raise SimError(
                    f"the start's {name} has the shape {value.shape}; with {thetas} Thetas and {windows} windows it "
                    f"begins with ({windows},) or ({thetas}, {windows})."
                )
            return np.broadcast_to(value, (thetas, windows, *end)).reshape(thetas * windows, *end)

        return Start(flat("qpos", 1), flat("qvel", 1), flat("act", 1), flat("past", 2), self.encoders)

    def check(self, model: Any) -> None:
        """Widths and numbers fit the model, or a SimError says which does not."""
        for name, width in (("qpos", model.nq), ("qvel", model.nv), ("act", model.na), ("past", model.nu)):
            value = getattr(self, name)
            if value is None:
                continue
            if value.shape[-1] != width:
                raise SimError(f"the start's {name} is {value.shape[-1]} wide, the model's is {width}.")
            if not np.isfinite(value).all():
                row = int(np.argwhere(~np.isfinite(value))[0][0])
                raise SimError(f"the start's {name} of row {row} has a number that is not finite. Leave that row out.")


@dataclass(frozen=True, eq=False)
class Held:
    """Commands on their own clock: each holds from its time until the next one's. Times count from the window's start.

    The first time is at or before zero. One clock serves all windows, or each has its own.
    """

    time_s: Float[np.ndarray, "*windows commands"]
    value: Float[np.ndarray, "*windows commands nu"]

    def __post_init__(self) -> None:
        time_s = np.asarray(self.time_s, dtype=np.float64)
        if time_s.shape != np.shape(self.value)[:-1] and time_s.shape != np.shape(self.value)[-2:-1]:
            raise SimError(f"{time_s.shape} command times do not fit commands of the shape {np.shape(self.value)}.")
        if time_s.ndim == 0 or not time_s.shape[-1]:
            raise SimError("held commands have no times. Give at least the command that holds from 0 s on.")
        if not (np.diff(time_s, axis=-1) > 0).all():
            raise SimError("the times of held commands must increase. Sort or re-stamp them.")
        if not (time_s[..., 0] <= 0).all():
            raise SimError(
                f"the first command begins at {float(time_s[..., 0].max()):.6g} s; nothing is known from 0 s until "
                "then. Give the command that held before."
            )

    def steps(self, times_s: np.ndarray) -> Int[np.ndarray, "*windows steps"]:
        """Which command holds at each of the times."""
        # a step that begins at a command's time, up to rounding, obeys that command
        late = np.asarray(times_s) + 1e-9
        clocks = np.atleast_2d(np.asarray(self.time_s))
        places = np.stack([np.searchsorted(clock, late, side="right") - 1 for clock in clocks])
        return places if np.ndim(self.time_s) > 1 else places[0]


@dataclass(frozen=True, eq=False)
class Commands:
    """What each row is sent at each physics step, without a copy for every row: row r obeys value[row[r], step].

    Where a start has no past, the first command of row `before[r]` counts as row r's; None is each row's own.
    """

    value: Float[np.ndarray, "sequences commands nu"]
    row: Int[np.ndarray, "rows"]
    step: Int[np.ndarray, "*sequences steps"]
    before: Int[np.ndarray, "rows"] | None = None

    def between(self, rows: np.ndarray, begin: int, end: int) -> Float[np.ndarray, "some steps nu"]:
        """The commands of some rows for a run of physics steps; the last one holds for ever."""
        steps = np.minimum(np.arange(begin, end), self.step.shape[-1] - 1)
        sequence = self.row[rows][:, np.newaxis]
        step = self.step[steps] if self.step.ndim == 1 else self.step[sequence, steps]
        return np.asarray(self.value[sequence, step])

    def check(self, actuators: Sequence[str]) -> None:
        """Width and numbers fit the actuators, or a SimError names window and actuator."""
        if self.value.shape[-1] != len(actuators):
            raise SimError(
                f"the controls are {self.value.shape[-1]} wide; the model has {len(actuators)} actuators: "
                f"{', '.join(actuators) or 'none'}."
            )
        bad = np.argwhere(~np.isfinite(self.value))
        if bad.size:
            window, sample, actuator = bad[0]
            raise SimError(
                f"the control of actuator {actuators[actuator]!r} in window {window}, sample {sample}, is not finite. "
                "Leave the window out, or mend the recording."
            )


def past_of(start: Start, commands: Commands, steps: int) -> Float[np.ndarray, "rows steps nu"]:
    """The last commands before the start, one a physics step; where there are too few, the oldest counts as held."""
    rows = np.arange(len(commands.row))
    if start.past is not None and start.past.shape[1]:
        have = start.past.shape[1]
        return np.asarray(start.past[:, np.maximum(np.arange(have - steps, have), 0)])
    first = commands.between(rows, 0, 1)
    return np.repeat(first if commands.before is None else first[commands.before], steps, axis=1)


def arriving(start: Start, commands: Commands, late_steps: Float[np.ndarray, "rows nu"]) -> tuple[Start, Commands]:
    """Commands as they arrive so many physics steps late, and those before them; parts of a step are blended."""
    if not late_steps.any():
        return start, commands
    rows, whole = np.arange(len(commands.row)), np.floor(late_steps + 1e-9)
    part = np.maximum(late_steps - whole, 0.0)[:, np.newaxis]
    longest, count = int(whole.max()) + 1, commands.step.shape[-1]
    kept = 0 if start.past is None else start.past.shape[1]
    line = np.concatenate([past_of(start, commands, kept + longest), commands.between(rows, 0, count)], axis=1)
    newest = np.arange(longest, line.shape[1])[:, np.newaxis] - whole[:, np.newaxis].astype(np.int64)
    found = (1 - part) * np.take_along_axis(line, newest, 1) + part * np.take_along_axis(line, newest - 1, 1)
    before = line[:, :1] if not kept else found[:, :kept]
    return replace(start, past=before), Commands(found[:, kept:], rows, np.arange(count))


@dataclass(frozen=True, eq=False)
class Windows:
    """Windows cut from one episode: where each begins, its commands, and its first sample in the episode."""

    start: Start
    controls: Float[np.ndarray, "windows samples nu"]
    first: Int[np.ndarray, "windows"]

    @property
    def length(self) -> int:
        """Control samples of a window."""
        return int(self.controls.shape[1])

    @property
    def reach(self) -> Int[np.ndarray, "seams"]:
        """For each window but the last, after how many samples the next one begins."""
        return np.diff(self.first)

    def seams(self, model: Any, qpos: np.ndarray, qvel: np.ndarray) -> Float[np.ndarray, "thetas seams 2nv"]:
        """How far each window, when the next begins, is from where the next begins: zero for one smooth trajectory.

        `qpos` and `qvel` (thetas, windows, samples, …) are what the rollout of these windows gave.
        """
        index = np.arange(len(self.reach))
        if (self.reach > self.length).any():
            raise SimError(
                f"the windows are {self.length} samples long and begin {int(self.reach.max())} apart: between them "
                "nothing is simulated. Cut them with a stride of at most their length."
            )
        end_q, end_v = qpos[:, index, self.reach - 1], qvel[:, index, self.reach - 1]
        begin_q, begin_v = (np.asarray(value)[..., 1:, :] for value in (self.start.qpos, self.start.qvel))
        return np.concatenate([differentiate_pos(model, begin_q, end_q), end_v - begin_v], axis=-1)


def cut(
    qpos: Float[np.ndarray, "T nq"],
    qvel: Float[np.ndarray, "T nv"],
    controls: Float[np.ndarray, "T nu"],
    length: int,
    stride: int | None = None,
) -> Windows:
    """Windows of `length` control samples that begin every `stride` (default: where the last one ends).

    Sample i of the states is measured when command i is sent, so a window that begins at i predicts i+1 … i+length.
    A length of 1 with a stride of 1 is the one-step mode; a length below the stride's leaves gaps, one above overlaps.
    """
    count = len(controls)
    if not 1 <= length <= count or not len(qpos) == len(qvel) == count:
        raise SimError(
            f"windows of {length} samples cannot be cut from {len(qpos)} states and {count} commands. Both have the "
            "same number of samples, and a window has at least one and at most all of them."
        )
    first = np.arange(0, count - length + 1, stride or length)
    span = first[:, None] + np.arange(length)
    return Windows(Start(np.asarray(qpos)[first], np.asarray(qvel)[first]), np.asarray(controls)[span], first)
