"""An actuator as a small network with history: for motors whose parametric model leaves residuals that are not noise.

The network sees the last commands and speeds of one motor and gives its torque. It is trained with torch on torque
labels, and runs in rollouts with numpy alone. Files are safetensors + JSON.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from twinproof.identify.whiteness import Whiteness, whiteness
from twinproof.nouns.errors import ConfigError, PosteriorError, SimError
from twinproof.sim.driven import Action, Law, Moment, Plant, Running

if TYPE_CHECKING:
    from jaxtyping import Float

    from twinproof.identify.actuator_fit import Labels, Regressed

FORMAT = "twinproof actuator net 1"


@dataclass(frozen=True, eq=False)
class ActuatorNet(Law):
    """Torques of the motors `actuators`, from `history` samples of commands and speeds that are `spacing` steps apart.

    In a rollout the model's own motor gets zero, and the network's torque acts on the joint in its place. Inputs beyond
    what training showed are held at its ends: a network is not asked to extrapolate.
    """

    actuators: tuple[str, ...]
    history: int
    spacing: int
    step_s: float
    mean: Float[np.ndarray, "motors inputs"]
    scale: Float[np.ndarray, "motors inputs"]
    low: Float[np.ndarray, "motors inputs"]
    high: Float[np.ndarray, "motors inputs"]
    layers: tuple[tuple[Float[np.ndarray, "motors a b"], Float[np.ndarray, "motors b"]], ...]
    torque_scale: Float[np.ndarray, "motors"] = field(default_factory=lambda: np.ones(1))

    @property
    def reach(self) -> int:
        """Physics steps that the network looks back."""
        return (self.history - 1) * self.spacing

    def memory(self, step_s: float) -> int:
        if abs(step_s - self.step_s) > 1e-9:
            raise SimError(
                f"the network was trained on steps of {self.step_s:g} s, the model steps {step_s:g} s. Set the model's "
                "time step to that, or train again."
            )
        return self.reach

    def torque(self, inputs: Float[np.ndarray, "motors n inputs"]) -> Float[np.ndarray, "motors n"]:
        """The torques of inputs: commands, oldest first, then speeds, oldest first."""
        x = np.clip(inputs, self.low[:, None], self.high[:, None])
        x = (x - self.mean[:, None]) / self.scale[:, None]
        for k, (weight, bias) in enumerate(self.layers):
            x = np.einsum("mna,mab->mnb", x, weight) + bias[:, None]
            x = np.tanh(x) if k < len(self.layers) - 1 else x
        return np.asarray(x[..., 0] * self.torque_scale[:, None])

    @staticmethod
    def running(laws: Sequence[ActuatorNet], which: np.ndarray, plant: Plant, begin: Moment) -> Running:
        if len({id(law) for law in laws}) > 1:
            raise ConfigError("one rollout has one actuator network. Roll others apart.")
        return _Running(laws[0], _controls(laws[0].actuators, plant), plant, begin)

    def save(self, folder: Path) -> None:
        """Arrays as safetensors, the rest as JSON."""
        from safetensors.numpy import save

        folder.mkdir(parents=True, exist_ok=True)
        arrays = {name: getattr(self, name) for name in ("mean", "scale", "low", "high", "torque_scale")}
        for k, (weight, bias) in enumerate(self.layers):
            arrays |= {f"weight{k}": weight, f"bias{k}": bias}
        (folder / "actuator_net.safetensors").write_bytes(save({k: np.ascontiguousarray(v) for k, v in arrays.items()}))
        about = {"format": FORMAT, "actuators": self.actuators, "history": self.history, "spacing": self.spacing}
        about |= {"step_s": self.step_s, "layers": len(self.layers)}
        (folder / "actuator_net.json").write_text(json.dumps(about, indent=1))

    @staticmethod
    def load(folder: Path) -> ActuatorNet:
        """What `save` wrote."""
        from safetensors.numpy import load_file

        about = json.loads((folder / "actuator_net.json").read_text())
        if about.get("format") != FORMAT:
            raise PosteriorError(f"{folder} holds {about.get('format')!r}; this version reads {FORMAT!r}.")
        a = load_file(folder / "actuator_net.safetensors")
        layers = tuple((a[f"weight{k}"], a[f"bias{k}"]) for k in range(int(about["layers"])))
        return ActuatorNet(
            tuple(about["actuators"]), int(about["history"]), int(about["spacing"]), float(about["step_s"]),
            a["mean"], a["scale"], a["low"], a["high"], layers, a["torque_scale"],
        )  # fmt: skip


class _Running(Running):
    def __init__(self, law: ActuatorNet, controls: np.ndarray, plant: Plant, begin: Moment) -> None:
        self._law, self._controls, self._dof = law, controls, plant.dof[controls]
        self._places = -1 - law.spacing * np.arange(law.history)[::-1]
        self._speeds = np.repeat(begin.qvel[:, None, self._dof], law.reach + 1, axis=1)

    def act(self, now: Moment) -> Action:
        self._speeds = np.concatenate([self._speeds[:, 1:], now.qvel[:, None, self._dof]], axis=1)
        sent = now.sent[:, self._places][:, :, self._controls]
        inputs = np.concatenate([sent, self._speeds[:, self._places]], axis=1)
        ctrl, torque = now.sent[:, -1].copy(), np.zeros(now.qvel.shape)
        ctrl[:, self._controls] = 0.0
        for dof, each in zip(self._dof, self._law.torque(np.moveaxis(inputs, 2, 0)), strict=True):
            torque[:, dof] += each
        return Action(ctrl, torque)


def _controls(actuators: Sequence[str], plant: Plant) -> np.ndarray:
    missing = [name for name in actuators if name not in plant.actuators]
    if missing:
        raise SimError(f"the network drives {missing[0]!r}, the model has {', '.join(plant.actuators) or 'none'}.")
    found = np.array([plant.actuators.index(name) for name in actuators])
    loose = [name for name, dof in zip(actuators, plant.dof[found], strict=True) if dof < 0]
    if loose:
        raise SimError(f"the network drives {loose[0]!r}, which moves no single joint.")
    return found


@dataclass(frozen=True)
class HistoryNet:
    """How a network is trained: size, history and patience. One small network for each motor."""

    history: int = 8
    spacing: int = 2
    width: int = 32
    epochs: int = 60
    rate: float = 3e-3
    batch: int = 1024
    kept_back: float = 0.2  # the last part of every log, on which training is stopped

    def fit(self, plant: Plant, logs: Sequence[Labels], actuators: Sequence[str], seed: int = 0) -> ActuatorNet:
        """Trained on labelled logs; the weights are those with the least loss on what was kept back."""
        controls = _controls(actuators, plant)
        fit_x, fit_y, test_x, test_y = [], [], [], []
        for log in logs:
            x, y = self._samples(plant, log, controls)
            split = round(len(y[0]) * (1 - self.kept_back))
            if split < 50:
                raise ConfigError(f"a log of {len(log.command)} samples is too short to train a network on.")
            fit_x.append(x[:, :split])
            fit_y.append(y[:, :split])
            test_x.append(x[:, split + self._reach :])
            test_y.append(y[:, split + self._reach :])
        x, y = np.concatenate(fit_x, axis=1), np.concatenate(fit_y, axis=1)
        mean, scale, torque_scale = x.mean(axis=1), x.std(axis=1) + 1e-6, y.std(axis=1) + 1e-9
        later = np.concatenate(test_x, axis=1), np.concatenate(test_y, axis=1)
        layers = _trained(
            self, (x - mean[:, None]) / scale[:, None], y / torque_scale[:, None],
            (later[0] - mean[:, None]) / scale[:, None], later[1] / torque_scale[:, None], seed,
        )  # fmt: skip
        return ActuatorNet(
            tuple(actuators), self.history, self.spacing, plant.step_s,
            mean, scale, x.min(axis=1), x.max(axis=1), layers, torque_scale,
        )  # fmt: skip

    @property
    def _reach(self) -> int:
        return (self.history - 1) * self.spacing

    def _samples(self, plant: Plant, log: Labels, controls: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        back = np.arange(self.history)[::-1] * self.spacing
        rows = np.arange(self._reach, len(log.command))[:, None] - back
        sent, speed = log.command[rows][:, :, controls], log.qvel[rows][:, :, plant.dof[controls]]
        inputs = np.moveaxis(np.concatenate([sent, speed], axis=1), 2, 0)
        return inputs, log.torque[self._reach :, plant.dof[controls]].T


def _trained(
    how: HistoryNet, x: np.ndarray, y: np.ndarray, later_x: np.ndarray, later_y: np.ndarray, seed: int
) -> tuple[tuple[np.ndarray, np.ndarray], ...]:
    try:
        import torch
    except ImportError as missing:
        raise ConfigError(
            "a history network needs torch. Install the extra: pip install twinproof[learn]."
        ) from missing
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # so small a network is only slowed down by more
    try:
        return _descend(torch, how, x, y, later_x, later_y, seed)
    finally:
        torch.set_num_threads(threads)


def _descend(
    torch: Any, how: HistoryNet, x: np.ndarray, y: np.ndarray, later_x: np.ndarray, later_y: np.ndarray, seed: int
) -> tuple[tuple[np.ndarray, np.ndarray], ...]:
    """Adam on one network a motor, all at once; the weights with the least loss on what was kept back."""
    generator = torch.Generator().manual_seed(seed)
    motors, count, inputs = x.shape
    sizes = [inputs, how.width, how.width, 1]
    weights = [
        (torch.randn(motors, a, b, generator=generator) / a**0.5).requires_grad_() for a, b in itertools.pairwise(sizes)
    ]
    biases = [torch.zeros(motors, 1, b, requires_grad=True) for b in sizes[1:]]

    def net(at: Any) -> Any:
        for k, (weight, bias) in enumerate(zip(weights, biases, strict=True)):
            at = torch.bmm(at, weight) + bias
            at = torch.tanh(at) if k < len(weights) - 1 else at
        return at[..., 0]

    X, Y, LX, LY = (torch.as_tensor(part, dtype=torch.float32) for part in (x, y, later_x, later_y))
    optimiser = torch.optim.Adam([*weights, *biases], lr=how.rate)
    best, kept = np.inf, []
    for _ in range(how.epochs):
        order = torch.randperm(count, generator=generator)
        for some in order.split(how.batch):
            optimiser.zero_grad()
            torch.nn.functional.smooth_l1_loss(net(X[:, some]), Y[:, some], beta=0.5).backward()
            optimiser.step()
        with torch.no_grad():
            loss = float(((net(LX) - LY) ** 2).mean())
        if loss < best:
            best = loss
            kept = [(w.detach().double().numpy().copy(), b.detach().double().numpy()[:, 0].copy())
                    for w, b in zip(weights, biases, strict=True)]  # fmt: skip
    return tuple(kept)


@dataclass(frozen=True, eq=False)
class Chosen:
    """The law that is used, and what the residuals of the parametric one said."""

    law: Law
    residuals: tuple[Whiteness, ...]
    reason: str


def choose(
    parametric: Regressed,
    plant: Plant,
    logs: Sequence[Labels],
    validation: Sequence[Labels],
    how: HistoryNet | None = None,
    seed: int = 0,
) -> Chosen:
    """The parametric law where its residuals are white; else a network, if that predicts validation torques better."""
    from twinproof.identify.actuators import torque_of

    driven = [(name, int(dof)) for name, dof in zip(plant.actuators, plant.dof, strict=True) if dof >= 0]
    places = np.unique([dof for _, dof in driven])
    tests = tuple(
        whiteness(
            [left[:, int(np.searchsorted(places, dof))] for left in parametric.left], plant.step_s, f"torque of {name}"
        )
        for name, dof in driven
    )
    failing = [test for test in tests if not test.white()]
    if not failing:
        return Chosen(parametric.law, tests, "the parametric actuators leave white residuals.")
    net = (how or HistoryNet()).fit(plant, logs, [name for name, _ in driven], seed)
    simple = np.sqrt(
        np.mean(
            [
                np.mean((torque_of(parametric.law, plant, v.command, v.qvel) - v.torque)[:, places] ** 2)
                for v in validation
            ]
        )
    )
    learned = np.sqrt(
        np.mean([np.mean((predicted(net, plant, v) - v.torque)[net.reach :, places] ** 2) for v in validation])
    )
    said = f"{failing[0]}; on validation the parametric law misses {simple:.3g} N m, the network {learned:.3g} N m"
    if learned < 0.95 * simple:
        return Chosen(net, tests, f"{said}: the network is used.")
    return Chosen(parametric.law, tests, f"{said}: the parametric law stays.")


def predicted(net: ActuatorNet, plant: Plant, log: Labels) -> Float[np.ndarray, "T nv"]:
    """The network's torques along a log; zero before its history is full."""
    controls = _controls(net.actuators, plant)
    how = HistoryNet(history=net.history, spacing=net.spacing)
    inputs, _ = how._samples(plant, log, controls)
    found = np.zeros((len(log.command), plant.nv))
    found[net.reach :, plant.dof[controls]] = net.torque(inputs).T
    return found
