"""The offset between two clocks, from the motion that both saw: cross-correlation, and blocks of time drawn anew."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from twinproof.evaluate.motion import Motion, Scale
from twinproof.nouns.errors import ConfigError

if TYPE_CHECKING:
    from jaxtyping import Float

FINE_S = 0.01  # offsets are looked for on a grid at least this fine
BLOCKS = 12  # stretches of time that are drawn anew
DRAWS = 200
SPEED_S = 0.06  # speeds are differences over this long: shorter ones are the encoders' counts
MOVES = 0.02  # a joint that spans less than this share of its range does not count


@dataclass(frozen=True)
class Alignment:
    """How far clocks may be apart, and how sure an offset is told."""

    max_offset_s: float = 1.0
    level: float = 0.95

    def __post_init__(self) -> None:
        if not 0 < self.max_offset_s < np.inf:
            raise ConfigError(f"the largest clock offset is {self.max_offset_s} s. It is above zero and finite.")
        if not 0 < self.level < 1:
            raise ConfigError(f"the clocks' level is {self.level}. It lies between 0 and 1.")


@dataclass(frozen=True)
class Offset:
    """Real time = simulated time + `offset_s`. Where `found` is false clocks are left as they are, and `why` says why.

    `low_s` and `high_s` enclose the offset at the stated level; they come from the recordings' own scatter.
    """

    offset_s: float
    sd_s: float
    low_s: float
    high_s: float
    correlation: float
    found: bool
    why: str = ""


OFF = Offset(0.0, 0.0, 0.0, 0.0, 1.0, False, "clocks were taken as they are")


def offset_between(real: Motion, sim: Motion, scale: Scale, rules: Alignment, rng: np.random.Generator) -> Offset:
    """The offset at which the joints' speeds agree best."""
    step = min(FINE_S, real.step_s, sim.step_s)
    lags = round(rules.max_offset_s / step)
    (r0, r1), (s0, s1) = real.span_s, sim.span_s
    start, end = max(r0, s0), min(r1, s1)
    count = int((end - start) / step) + 1
    if count < 4 * BLOCKS or end - start < 2 * rules.max_offset_s:
        return _left(
            f"the episodes share {max(end - start, 0.0):.2f} s, too little to look {rules.max_offset_s} s around"
        )
    wide = start + step * np.arange(-lags, count + lags)
    one = _speeds(real, wide, step, scale)[lags : lags + count]
    other = _speeds(sim, wide, step, scale)
    moving = one.any(axis=0) & other.any(axis=0)
    grippers = np.isin(scale.joints, [arm.gripper for arm in scale.arms if arm.gripper])
    if (moving & ~grippers).any():  # a gripper stops at what it holds, which is no matter of clocks
        moving &= ~grippers
    if not moving.any():
        return _left("the joints hardly move")
    products, power = _by_block(one[:, moving], other[:, moving], lags)
    best, height, edge = _peak(products.sum(axis=(0, 1)), power.sum(axis=(0, 1)))
    correlation = height / float(np.sqrt((one[:, moving] ** 2).sum()))
    if edge:
        return _left(f"speeds agree best at the end of the window of {rules.max_offset_s} s")
    peaks = np.array([_peak(*drawn)[0] for drawn in zip(*_drawn(products, power, rng), strict=True)])
    seconds = (peaks - lags) * step
    # sim(t + lag) is like real(t): the simulated stamp t + lag is the real moment t
    low, high = np.quantile(-seconds, [(1 - rules.level) / 2, (1 + rules.level) / 2])
    offset = -(best - lags) * step
    return Offset(
        float(offset), float(seconds.std()), float(min(low, offset)), float(max(high, offset)), correlation, True
    )


def _left(why: str) -> Offset:
    return Offset(0.0, 0.0, 0.0, 0.0, 0.0, False, why)


def _speeds(motion: Motion, time_s: np.ndarray, step: float, scale: Scale) -> Float[np.ndarray, "T J"]:
    """Weighted speeds in ranges a second; joints that hardly move are silent, and so are ends that are not known."""
    half = max(1, round(SPEED_S / step / 2))
    value, _ = motion.at(time_s, np.inf)
    value = value / scale.range * np.sqrt(scale.weight)
    value[:, np.ptp(value, axis=0) < MOVES * np.sqrt(scale.weight)] = 0.0
    speed: np.ndarray = np.zeros_like(value)
    speed[half:-half] = (value[2 * half :] - value[: -2 * half]) / (2 * half * step)
    return speed


def _by_block(one: np.ndarray, other: np.ndarray, lags: int) -> tuple[np.ndarray, np.ndarray]:
    """Products of both speeds, and the power of the second, for every block of time, every joint and every lag."""
    count, joints = one.shape
    bounds = np.linspace(0, count, BLOCKS + 1).astype(int)[:-1]
    products, power = np.empty((2, BLOCKS, joints, 2 * lags + 1))
    strength = other**2
    for lag in range(2 * lags + 1):
        products[:, :, lag] = np.add.reduceat(one * other[lag : lag + count], bounds)
        power[:, :, lag] = np.add.reduceat(strength[lag : lag + count], bounds)
    return products, power


def _drawn(products: np.ndarray, power: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Blocks of time and joints drawn anew, each with replacement: errors hang together along both."""
    blocks, joints, _ = products.shape
    time, joint = (rng.multinomial(n, np.full(n, 1 / n), DRAWS) for n in (blocks, joints))
    weight = (time[:, :, None] * joint[:, None, :]).reshape(DRAWS, -1).astype(float)
    return weight @ products.reshape(blocks * joints, -1), weight @ power.reshape(blocks * joints, -1)


def _peak(products: np.ndarray, power: np.ndarray) -> tuple[float, float, bool]:
    """Where the correlation is largest, between samples by a parabola; its height; and whether it is at the edge."""
    height = products / np.sqrt(np.maximum(power, 1e-12 * power.max() + 1e-300))
    k = int(np.argmax(height))
    if not 0 < k < len(height) - 1:
        return float(k), float(height[k]), True
    left, middle, right = height[k - 1 : k + 2]
    bend = left - 2 * middle + right
    return k + (0.5 * (left - right) / bend if bend < 0 else 0.0), float(middle), False
