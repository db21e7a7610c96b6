"""How each picture of a batch is changed: one value for every image and quantity, and the small arrays made of them.

draw ─ numbers (N images × quantities) ─ colour matrix, contrast, blur, noise, lost blocks ─> augment, or its reference

A draw depends on the seed and on the number of the image alone, not on the batch it is in or on the device.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from twinproof.nouns.errors import RandomizationError
from twinproof.nouns.frozen import Frozen
from twinproof.nouns.randomization import Randomization
from twinproof.nouns.randomness import stream
from twinproof.nouns.theta import Theta
from twinproof.sim.parameters.beside import AROUND

if TYPE_CHECKING:
    from jaxtyping import Float, Int

BLOCK = 8  # pixels on a side of what is lost at once
QUANTITIES = tuple(f"{kind}.{name}" for kind in ("image", "depth") for name in AROUND[kind] if name != "latency")
NEUTRAL = {id: AROUND[id.partition(".")[0]][id.partition(".")[2]].neutral for id in QUANTITIES}
YIQ = np.array([[0.299, 0.587, 0.114], [0.595716, -0.274453, -0.321263], [0.211456, -0.522591, 0.311135]])
GREY = YIQ[0]  # luma
ODD = (0x9E3779B97F4A7C15, 0xD1B54A32D192ED03, 0xABC98388FB8FAC03)
MIX = (0xBF58476D1CE4E5B9, 0x94D049BB133111EB)
BELL = 65536.0 * np.sqrt(4 / 12)  # sd of a sum of four 16-bit numbers


@dataclass(frozen=True, eq=False)
class Adjustments:
    """Values (N) of the quantities for images of these numbers; what is not named is neutral."""

    numbers: Int[np.ndarray, "N"]
    values: Mapping[str, Float[np.ndarray, "N"]]
    seed: int = 0

    def __post_init__(self) -> None:
        known = {id: np.asarray(value, dtype=np.float64) for id, value in self.values.items() if id in NEUTRAL}
        for id, value in known.items():
            if value.shape != self.numbers.shape or not np.isfinite(value).all():
                raise RandomizationError(
                    f"{id}: {value.shape} values for {len(self.numbers)} pictures. Give one finite number for each."
                )
        object.__setattr__(self, "values", Frozen(known))

    def __len__(self) -> int:
        return len(self.numbers)

    def of(self, id: str) -> Float[np.ndarray, "N"]:
        """The value of a quantity for every image."""
        return self.values[id] if id in self.values else np.full(len(self), NEUTRAL[id])

    def part(self, begin: int, end: int) -> Adjustments:
        """Those of some of the images."""
        return Adjustments(
            self.numbers[begin:end], {id: value[begin:end] for id, value in self.values.items()}, self.seed
        )

    def key(self, name: str) -> int:
        """Where the counter of one kind of noise begins."""
        return int(stream(self.seed, "augment", name).integers(1 << 63))

    @property
    def matrix(self) -> Float[np.ndarray, "N 3 3"]:
        """Brightness, white balance, saturation and hue, as one matrix on the colours."""
        angle, rich = self.of("image.hue"), self.of("image.saturation")
        turn = np.zeros((len(self), 3, 3))
        turn[:, 0, 0] = 1.0
        turn[:, 1, 1] = turn[:, 2, 2] = rich * np.cos(angle)
        turn[:, 1, 2], turn[:, 2, 1] = -rich * np.sin(angle), rich * np.sin(angle)
        gain = self.of("image.brightness")[:, None] * white(self.of("image.temperature"))
        found: np.ndarray = np.linalg.inv(YIQ) @ turn @ YIQ * gain[:, None, :]
        return found

    @property
    def kernel(self) -> Float[np.ndarray, "N K"]:
        """The blur along one axis: an odd number of taps that sum to one."""
        sd = self.of("image.blur")
        reach = int(np.ceil(3 * sd.max(initial=0.0)))
        taps = np.arange(-reach, reach + 1)
        weight = np.exp(-0.5 * np.square(taps / np.maximum(sd, 1e-6)[:, None]))
        weight[np.abs(taps) > np.ceil(3 * sd)[:, None]] = 0.0
        found: np.ndarray = weight / weight.sum(axis=1, keepdims=True)
        return found


def adjustments(randomization: Randomization, count: int, seed: int = 0, first: int = 0) -> Adjustments:
    """What a randomisation's picture and depth ranges give for images number `first` and on."""
    numbers = np.arange(first, first + count, dtype=np.int64)
    row = None
    if randomization.joint:
        share = uniform(int(stream(seed, "augment", "row").integers(1 << 63)), numbers, 1)[:, 0]
        row = np.minimum((share * len(randomization.draws)).astype(np.int64), len(randomization.draws) - 1)
    values = {}
    for entry in randomization.ranges:
        if entry.id not in NEUTRAL:
            continue
        if row is not None and entry.id in randomization.joint:
            values[entry.id] = randomization.draws[row, randomization.joint.index(entry.id)]
            continue
        low, high = (float(entry.parameter.to_scale(end)) for end in (entry.low, entry.high))
        share = uniform(int(stream(seed, "augment", "draw", entry.id).integers(1 << 63)), numbers, 1)[:, 0]
        values[entry.id] = np.clip(entry.parameter.from_scale(low + (high - low) * share), entry.low, entry.high)
    return Adjustments(numbers, values, seed)


def from_thetas(thetas: Sequence[Theta], numbers: Sequence[int], seed: int = 0) -> Adjustments:
    """The same from Thetas that were drawn elsewhere, one for each image."""
    ids = sorted({id for theta in thetas for id in theta if id in NEUTRAL})
    values = {id: np.array([theta.get(id, NEUTRAL[id]) for theta in thetas]) for id in ids}
    return Adjustments(np.array(numbers, dtype=np.int64), values, seed)


def white(kelvin: Float[np.ndarray, "N"]) -> Float[np.ndarray, "N 3"]:
    """Gains of red, green and blue for light of a colour temperature against 6500 K, at equal luma.

    The Planckian locus by Kim et al. (2002), through XYZ to linear sRGB; the gains act on display-referred colours.
    """
    kelvin = np.r_[6500.0, np.asarray(kelvin, dtype=np.float64)]
    t = 1e3 / kelvin
    warm = -0.2661239 * t**3 - 0.2343589 * t**2 + 0.8776956 * t + 0.179910
    cold = -3.0258469 * t**3 + 2.1070379 * t**2 + 0.2226347 * t + 0.240390
    x = np.where(kelvin <= 4000, warm, cold)
    low = -1.1063814 * x**3 - 1.34811020 * x**2 + 2.18555832 * x - 0.20219683
    middle = -0.9549476 * x**3 - 1.37418593 * x**2 + 2.09137015 * x - 0.16748867
    high = 3.0817580 * x**3 - 5.87338670 * x**2 + 3.75112997 * x - 0.37001483
    y = np.where(kelvin <= 2222, low, np.where(kelvin <= 4000, middle, high))
    XYZ = np.stack([x / y, np.ones_like(x), (1 - x - y) / y], axis=1)
    to_rgb = np.array([[3.2406, -1.5372, -0.4986], [-0.9689, 1.8758, 0.0415], [0.0557, -0.2040, 1.0570]])
    rgb = np.maximum(XYZ @ to_rgb.T, 0.02)
    gain = (rgb[1:] / rgb[0]) ** (1 / 2.2)
    found: np.ndarray = gain / (gain @ GREY)[:, None]
    return found


def mixed(state: np.ndarray) -> np.ndarray:
    """The finaliser of splitmix64 (Stafford's mix 13): every input bit reaches every output bit."""
    bits = state
    with np.errstate(over="ignore"):
        bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(MIX[0])
        bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(MIX[1])
    found: np.ndarray = bits ^ (bits >> np.uint64(31))
    return found


def counted(key: int, numbers: Int[np.ndarray, "N"], width: int) -> np.ndarray:
    """64 random bits for every image and place (N, width)."""
    with np.errstate(over="ignore"):
        rows = mixed(numbers.astype(np.uint64) * np.uint64(ODD[1]) + np.uint64(key))
        return mixed(rows[:, None] + np.arange(width, dtype=np.uint64) * np.uint64(ODD[2]))


def uniform(key: int, numbers: Int[np.ndarray, "N"], width: int) -> np.ndarray:
    """Numbers in (0, 1) for every image and place (N, width)."""
    found: np.ndarray = ((counted(key, numbers, width) >> np.uint64(11)).astype(np.float64) + 0.5) * 2.0**-53
    return found


def bell(key: int, numbers: Int[np.ndarray, "N"], width: int) -> np.ndarray:
    """Numbers of mean 0 and sd 1 in a bell: sums of four signed 16-bit words, alike on every device (float32)."""
    words = counted(key, numbers, width).view(np.int16).reshape(len(numbers), width, 4)
    found: np.ndarray = (words.astype(np.float32).sum(axis=-1) + np.float32(2)) * np.float32(1 / BELL)
    return found
