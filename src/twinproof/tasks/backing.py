"""N worlds behind the few calls that an arena makes, whichever device they run on and whichever arrays they speak.

HostBacking     sim.worlds.Worlds, in numpy arrays, or in torch tensors that share memory with them
DeviceBacking   sim.worlds_gpu.GpuWorlds, in torch tensors on the device; nothing waits for it
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np

from twinproof.nouns.errors import ConfigError, MissingExtra, SimError
from twinproof.nouns.theta import Theta
from twinproof.sim.replayed import DeviceTape, Replayed
from twinproof.sim.scene import Scene
from twinproof.sim.worlds import Worlds
from twinproof.tasks.noise import DeviceNoise, HostNoise
from twinproof.tasks.play import Play
from twinproof.tasks.sensed import Array

LOOK_EVERY = 256  # ticks


def check_room(overflow: Array) -> None:
    """No world (N,) had more contacts or constraints than there was room for: what does not fit is left out."""
    if bool((overflow != 0).any()):
        world, count = int((overflow != 0).nonzero()[0].reshape(-1)[0]), int((overflow != 0).sum())
        raise SimError(
            f"{count} worlds on the GPU, the first of them {world}, had more contacts or constraints than there was "
            "room for, and their physics is wrong. Give the arena more: Play(contacts=…, constraints=…)."
        )


class Backing(Protocol):
    """`bank` are Thetas that a restart can hand out by number. A view may go out of date with the
    next step: ask for it anew."""

    xp: Any
    model: Any  # the nominal one, with the sensors of the pairs
    noise: Any
    patient: bool  # whether reading a number back costs nothing

    def array(self, host: np.ndarray) -> Array: ...

    def view(self, name: str) -> Array: ...

    def step(self, ctrl: Array) -> None: ...

    def fill(self, bank: Sequence[Theta]) -> None: ...

    def passed(self) -> None: ...

    def restart(
        self, mask: Array, qpos: Array, ctrl: Array, number: Array | None, qvel: Array | None = None
    ) -> None: ...

    def set_thetas(self, rows: np.ndarray, thetas: Sequence[Theta]) -> None: ...

    def rest(self, rows: np.ndarray) -> None: ...

    def refresh(self) -> None: ...

    def touching(self) -> tuple[Array, Array]: ...

    def diverged(self) -> Array: ...

    def why(self, world: int) -> str: ...


class HostBacking:
    """Worlds on the CPU."""

    patient = True

    def __init__(
        self,
        scene: Scene,
        thetas: Sequence[Theta] | int,
        touch: Sequence[tuple[str, str]],
        substeps: int,
        play: Play,
        *,
        tensors: bool,
        seed: int,
    ) -> None:
        self.worlds = Worlds(
            scene, thetas, touch=touch, substeps=substeps, current=play.current, nthread=play.nthread, seed=seed
        )
        self.model: Any = self.worlds.model
        self.xp: Any = np
        self._wrap: Any = lambda array: array
        self._unwrap: Any = lambda array: array
        if tensors:
            torch = _torch()
            # torch has no read-only tensors: what MuJoCo lets nobody write is copied
            self._wrap = lambda array: torch.from_numpy(array if array.flags.writeable else array.copy())
            self.xp, self._unwrap = torch, lambda tensor: tensor.numpy()
        self.noise = HostNoise(self.worlds.count, self._wrap)

    def array(self, host: np.ndarray) -> Array:
        """Host numbers as an array of this backing, a copy."""
        return self._wrap(np.array(host))

    def view(self, name: str) -> Array:
        """The array of a field as it is now."""
        return self._wrap(self.worlds.view(name))

    def step(self, ctrl: Array) -> None:
        """One tick."""
        self.worlds.step(self._unwrap(ctrl))

    def passed(self) -> None:
        """Nothing: worlds on the CPU look at once."""

    def fill(self, bank: Sequence[Theta]) -> None:
        """The Thetas that restarts draw from."""
        self.worlds.fill_bank(bank)

    def restart(self, mask: Array, qpos: Array, ctrl: Array, number: Array | None, qvel: Array | None = None) -> None:
        """Starts the worlds of the mask in these states (N, …), at rest without a `qvel`, with the bank's Theta of each
        number."""
        rows = np.flatnonzero(self._unwrap(mask))
        if len(rows):
            bank = None if number is None else self._unwrap(number)[rows]
            moving = None if qvel is None else self._unwrap(qvel)[rows]
            state = {"qpos": self._unwrap(qpos)[rows], "qvel": moving, "ctrl": self._unwrap(ctrl)[rows]}
            self.worlds.reset(rows, bank=bank, **state)

    def set_thetas(self, rows: np.ndarray, thetas: Sequence[Theta]) -> None:
        """Gives some worlds these Thetas, applied to the nominal."""
        self.worlds.set_thetas(rows, thetas)

    def rest(self, rows: np.ndarray) -> None:
        """Some worlds stand still until they are restarted."""
        self.worlds.rest(rows)

    def refresh(self) -> None:
        """Makes poses and sensors follow a state that was written."""
        self.worlds.refresh()

    def touching(self) -> tuple[Array, Array]:
        """Whether the pairs touch, and how hard (N)."""
        contacts = self.worlds.contacts()
        return self._wrap(contacts.touching), self._wrap(contacts.force_n)

    def diverged(self) -> Array:
        """Which worlds diverged and stand still."""
        return self._wrap(self.worlds.diverged)

    def why(self, world: int) -> str:
        """What made a world diverge."""
        return str(self.worlds.why(world))


class DeviceBacking:
    """Worlds on a GPU."""

    patient = False

    def __init__(
        self,
        scene: Scene,
        thetas: Sequence[Theta] | int,
        touch: Sequence[tuple[str, str]],
        substeps: int,
        play: Play,
        *,
        device: str,
        seed: int,
    ) -> None:
        self.xp = _torch()
        if not self.xp.cuda.is_available():
            raise ConfigError(f"worlds were asked for on {device!r}, and torch sees no CUDA device. Use device='cpu'.")
        try:
            from twinproof.sim.worlds_gpu import GpuWorlds
        except ImportError as problem:
            raise MissingExtra(
                f"worlds on {device!r} need mujoco-warp ({problem}). Install it with pip install 'twinproof[gpu]'."
            ) from None
        self.worlds = GpuWorlds(
            scene, thetas, touch=touch, substeps=substeps, device=device, seed=seed, contacts=play.contacts,
            constraints=play.constraints,
        )  # fmt: skip
        self._steps = 0
        self.model: Any = self.worlds.host
        self.noise = DeviceNoise(self.worlds.count, self.worlds.qpos.device, seed)

    def array(self, host: np.ndarray) -> Array:
        """Host numbers as a tensor on the device; numbers with a point in float32."""
        host = np.asarray(host)
        kind = self.xp.float32 if host.dtype.kind == "f" else None
        return self.xp.as_tensor(host.copy(), device=self.worlds.qpos.device).to(kind)

    def view(self, name: str) -> Array:
        """The live tensor of a field."""
        return self.worlds.view(name)

    def step(self, ctrl: Array) -> None:
        """One tick."""
        self.worlds.step(ctrl)

    def passed(self) -> None:
        """A tick has passed. Now and then it looks whether there was room for all contacts."""
        self._steps += 1
        if self._steps % LOOK_EVERY == 0:
            check_room(self.worlds.overflow)

    def replayed(self, owner: object, work: Callable[[Array], None]) -> Replayed:
        """Work on a tensor that moves these worlds and keeps its state in `owner`, recorded as CUDA graphs."""
        drawn_from = (self.noise.random, *self.worlds.generators)
        return Replayed(owner, work, lambda: DeviceTape(drawn_from, (self.worlds,)))

    def fill(self, bank: Sequence[Theta]) -> None:
        """The Thetas that restarts draw from, put on the device."""
        self.worlds.fill_bank(bank)

    def restart(self, mask: Array, qpos: Array, ctrl: Array, number: Array | None, qvel: Array | None = None) -> None:
        """Starts the worlds of the mask in these states (N, …), at rest without a `qvel`, with the bank's Theta of each
        number."""
        self.worlds.reset(mask, bank=number, qpos=qpos, qvel=qvel, ctrl=ctrl)

    def set_thetas(self, rows: np.ndarray, thetas: Sequence[Theta]) -> None:
        """Gives some worlds these Thetas, applied to the nominal."""
        self.worlds.set_thetas(rows, thetas)

    def rest(self, rows: np.ndarray) -> None:
        """Worlds on a GPU run all together: nothing is saved by leaving some out."""

    def refresh(self) -> None:
        """Makes poses and sensors follow a state that was written."""
        self.worlds.refresh()

    def touching(self) -> tuple[Array, Array]:
        """Whether the pairs touch, and how hard (N)."""
        return self.worlds.contacts()

    def diverged(self) -> Array:
        """Which worlds diverged and stand still."""
        return self.worlds.diverged

    def why(self, world: int) -> str:
        """What made a world diverge. Waits for the device."""
        return str(self.worlds.why(world))


def _torch() -> Any:
    try:
        import torch
    except ImportError:
        raise MissingExtra("tensors need torch. Install it with pip install 'twinproof[learn]'.") from None
    return torch
