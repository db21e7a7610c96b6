"""Whether residuals are noise: Ljung–Box for each signal, and the share of power that a few frequencies hold.

White residuals say that the model took all there was. Others say that something is missing, and the spectrum says at
which pace.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from twinproof.nouns.errors import PosteriorError

if TYPE_CHECKING:
    from jaxtyping import Float

LEAST = 30  # samples: with fewer the statistic is far from its distribution


@dataclass(frozen=True)
class Whiteness:
    """Of one signal. `statistic` is Ljung–Box's Q over `lags`; a small `p_value` says that it is not white.

    Long recordings refuse every model, so `explained` matters too: the share of the variance that the lags predict,
    0 for noise and near 1 for a slow drift.
    """

    signal: str
    samples: int
    lags: int
    statistic: float
    p_value: float
    explained: float
    peak_hz: float
    peak_share: float  # of the power, within a tenth of the band around the peak

    def white(self, level: float = 0.01, tolerated: float = 0.05) -> bool:
        """Whether noise explains it at this level, or the share that is not noise is small enough to leave."""
        return self.p_value >= level or self.explained <= tolerated

    def __str__(self) -> str:
        if self.white():
            return f"{self.signal}: white (p {self.p_value:.2g})"
        return (
            f"{self.signal}: not white; {100 * self.explained:.0f} % of the residual is predictable, most of it around "
            f"{self.peak_hz:.3g} Hz"
        )


def whiteness(
    residuals: Sequence[Float[np.ndarray, "T"]], step_s: float, signal: str = "residual", lags: int = 20
) -> Whiteness:
    """Of one signal, from one or several stretches of residuals that are `step_s` apart."""
    from scipy.stats import chi2

    parts = [np.asarray(part, dtype=np.float64) for part in residuals]
    count = sum(map(len, parts))
    shortest = min(map(len, parts), default=0)
    if count < LEAST or shortest <= lags:
        raise PosteriorError(
            f"{signal}: {count} residuals in stretches of {shortest} or more are too few to test {lags} lags; "
            f"{LEAST} and stretches longer than the lags are needed. Test fewer lags, or longer stretches."
        )
    if not all(np.isfinite(part).all() for part in parts):
        raise PosteriorError(f"{signal}: a residual is not finite. Leave windows that diverged out.")
    mean = float(np.concatenate(parts).mean())
    parts = [part - mean for part in parts]
    power = sum(float(part @ part) for part in parts)
    if power == 0:
        return Whiteness(signal, count, lags, 0.0, 1.0, 0.0, 0.0, 0.0)
    rho = np.array([sum(float(part[k:] @ part[:-k]) for part in parts) for k in range(1, lags + 1)]) / power
    pairs = np.array([sum(len(part) - k for part in parts) for k in range(1, lags + 1)])
    statistic = float(count * (count + 2) * np.sum(rho**2 / pairs))
    peak, share = _peak(parts, step_s)
    return Whiteness(
        signal, count, lags, statistic, float(chi2.sf(statistic, lags)), _predictable(rho, count), peak, share
    )


def spectrum(
    residuals: Sequence[Float[np.ndarray, "T"]], step_s: float
) -> tuple[Float[np.ndarray, "F"], Float[np.ndarray, "F"]]:
    """Frequencies in Hz and the mean power density of the stretches (Welch), for the plot."""
    from scipy.signal import welch

    length = min(256, *map(len, residuals))
    densities = [welch(np.asarray(part), fs=1 / step_s, nperseg=length)[1] for part in residuals]
    frequency = np.fft.rfftfreq(length, step_s)
    weight = np.array([len(part) for part in residuals], dtype=np.float64)
    return frequency, np.average(densities, axis=0, weights=weight)


def _peak(parts: Sequence[np.ndarray], step_s: float) -> tuple[float, float]:
    frequency, density = spectrum(parts, step_s)
    top = int(np.argmax(density[1:])) + 1 if len(density) > 1 else 0
    near = np.abs(frequency - frequency[top]) <= 0.05 * frequency[-1]
    return float(frequency[top]), float(density[near].sum() / max(density.sum(), 1e-300))


def _predictable(rho: np.ndarray, count: int) -> float:
    """The share of variance that a linear prediction from the lags explains (Levinson–Durbin), less chance's part."""
    left, coefficients = 1.0, np.zeros(0)
    for k in range(len(rho)):
        reflection = (rho[k] - coefficients @ rho[:k][::-1]) / left
        coefficients = np.concatenate([coefficients - reflection * coefficients[::-1], [reflection]])
        left *= max(1 - reflection**2, 1e-12)
    return float(max(0.0, 1 - left - len(rho) / count))
