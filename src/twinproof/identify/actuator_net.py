"""An actuator as a small network with history: for motors whose parametric model leaves residuals that are not noise.

The network sees the last commands and speeds of one motor and gives its torque. It is trained with torch on torque
labels; sim/actuator_net.py runs it in rollouts.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from twinproof.identify.whiteness import Whiteness, whiteness
from twinproof.nouns.errors import ConfigError
from twinproof.sim.actuator_net import ActuatorNet, controls_of
from twinproof.sim.law import Plant

if TYPE_CHECKING:
    from jaxtyping import Float

    from twinproof.identify.actuator_fit import Labels, Regressed

FEWEST = 50  # labels of a log that are trained on


@dataclass(frozen=True)
class HistoryNet:
    """How a network is trained: size, history and patience. One small network for each motor."""

    history: int = 8
    spacing: int = 2
    width: int = 32
    epochs: int = 60
    steps: int = 2000  # at least so many, where recordings are short
    rate: float = 3e-3
    batch: int = 1024
    kept_back: float = 0.2  # the last part of every log, on which training is stopped

    def fit(self, plant: Plant, logs: Sequence[Labels], actuators: Sequence[str], seed: int = 0) -> ActuatorNet:
        """Trained on labelled logs; the weights are those with the least loss on what was kept back."""
        controls = controls_of(actuators, plant)
        fit_x, fit_y, test_x, test_y = [], [], [], []
        for log in logs:
            x, y = self._samples(plant, log, controls)
            split = round(len(y[0]) * (1 - self.kept_back))
            if split < FEWEST:
                raise ConfigError(f"a log with {len(log.rows)} measured torques is too short to train a network on.")
            fit_x.append(x[:, :split])
            fit_y.append(y[:, :split])
            apart = split + -(-self._reach // log.apart)
            test_x.append(x[:, apart:])
            test_y.append(y[:, apart:])
        x, y = np.concatenate(fit_x, axis=1), np.concatenate(fit_y, axis=1)
        mean, scale, torque_scale = x.mean(axis=1), x.std(axis=1) + 1e-6, y.std(axis=1) + 1e-9
        later = np.concatenate(test_x, axis=1), np.concatenate(test_y, axis=1)
        layers = _trained(
            self, (x - mean[:, None]) / scale[:, None], y / torque_scale[:, None],
            (later[0] - mean[:, None]) / scale[:, None], later[1] / torque_scale[:, None], seed,
        )  # fmt: skip
        return ActuatorNet(
            tuple(actuators), self.history, self.spacing, plant.step_s,
            mean, scale, x.min(axis=1), x.max(axis=1), layers, torque_scale, plant.gear[controls],
        )  # fmt: skip

    @property
    def _reach(self) -> int:
        return (self.history - 1) * self.spacing

    def _samples(self, plant: Plant, log: Labels, controls: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        back = np.arange(self.history)[::-1] * self.spacing
        at = log.rows[log.rows >= self._reach]
        rows = at[:, None] - back
        sent, speed = log.command[rows][:, :, controls], log.qvel[rows][:, :, plant.dof[controls]]
        inputs = np.moveaxis(np.concatenate([sent, speed], axis=1), 2, 0)
        return inputs, log.torque[np.ix_(at, plant.dof[controls])].T


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
    for _ in range(max(how.epochs, how.steps // -(-count // how.batch))):
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


def structure(parametric: Regressed, plant: Plant, logs: Sequence[Labels]) -> tuple[Whiteness, ...]:
    """Whether what a parametric law leaves of its labels is noise, motor by motor; where not, a network may help."""
    step_s = plant.step_s * float(np.median([log.apart for log in logs]))
    return tuple(
        whiteness([left[:, k] for left in parametric.left], step_s, f"torque of {name}")
        for k, name in enumerate(parametric.law.actuators)
    )


def predicted(net: ActuatorNet, plant: Plant, log: Labels) -> Float[np.ndarray, "T nv"]:
    """The network's torques along a log; zero before its history is full."""
    controls = controls_of(net.actuators, plant)
    how = HistoryNet(history=net.history, spacing=net.spacing)
    inputs, _ = how._samples(plant, replace(log, at=None), controls)
    found = np.zeros((len(log.command), plant.nv))
    found[net.reach :, plant.dof[controls]] = net.torque(inputs).T
    return found
