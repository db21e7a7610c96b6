"""How sure a calibration is, and what holds it where pictures do not.

A drawn outline that is a little off is so in all pictures, and all pictures of an episode share its light and plate. So
the doubt is a jackknife: how far the answer goes without each link in each camera, without each link in all cameras,
and without each episode in each camera. A direction that hangs on one link alone (the base, which tells all cameras'
turn about it) then shows as such: its model may be a little off everywhere.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from twinproof.nouns.rig import Mount
from twinproof.reconstruct.robot_fit import CAMERA, Part

# what is believed beforehand of mounts, lenses and clocks, of encoders' zeros and of drawn outlines, as standard
# deviations; of mounts only where the rig says nothing
PRIOR = {
    "turn": 0.06, "shift": 0.025, "log_focal": 0.01, "clock": 0.05, "readout": 0.015, "swell": 0.2, "joint": 0.04,
}  # fmt: skip
LOOSE = 0.05  # of this precision counts in the fit, so that it ends somewhere; all of it counts once, at the end
WEAK = 0.5  # an uncertainty that shrank by less than this share was hardly told by the pictures


@dataclass(frozen=True)
class Unknowns:
    """The order of all unknowns: those of each camera in turn, then the sought joints' offsets."""

    cameras: tuple[str, ...]
    joints: tuple[str, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """front.turn_x, …, joint.waist."""
        return (*(f"{c}.{u}" for c in self.cameras for u in CAMERA), *(f"joint.{name}" for name in self.joints))

    def __len__(self) -> int:
        return len(self.cameras) * len(CAMERA) + len(self.joints)

    def at(self, camera: str) -> np.ndarray:
        """Places of a camera's unknowns and of the joints."""
        first = self.cameras.index(camera) * len(CAMERA)
        joints = len(self.cameras) * len(CAMERA) + np.arange(len(self.joints))
        return np.concatenate([np.arange(first, first + len(CAMERA)), joints]).astype(int)

    def precision(self, mounts: Mapping[str, Mount] | None = None) -> np.ndarray:
        """Of each unknown beforehand; with what the rig states of its mounts, where it states something."""
        out = list[float]()
        for name in self.cameras:
            mount = (mounts or {}).get(name, Mount())
            stated = {"turn": mount.rotation_sd_rad, "shift": mount.position_sd_m}
            for unknown in CAMERA:
                kind = unknown if unknown == "log_focal" else unknown.split("_")[0]
                out.append(stated.get(kind, 0.0) or PRIOR[kind])
        return np.array([*out, *([PRIOR["joint"]] * len(self.joints))]) ** -2.0

    def summed(self, parts: Sequence[Part]) -> tuple[np.ndarray, np.ndarray]:
        """The normal equations of all frames."""
        H, g = np.zeros((len(self), len(self))), np.zeros(len(self))
        for part in parts:
            at = self.at(part.camera)
            H[np.ix_(at, at)] += part.hessian
            g[at] += part.pull
        return H, g


def settled(
    parts: Sequence[Part], unknowns: Unknowns, behind: np.ndarray, free: np.ndarray | None = None
) -> np.ndarray:
    """The step to where these parts and what was believed loosely are at rest; of free unknowns alone."""
    prior, out = LOOSE * unknowns.precision(), np.zeros(len(unknowns))
    at = np.flatnonzero(np.ones(len(prior), bool) if free is None else free)
    H, g = unknowns.summed(parts)
    out[at] = np.linalg.solve(H[np.ix_(at, at)] + np.diag(prior[at]), (g - prior * behind)[at])
    return out


def jackknifed(
    parts: Sequence[Part], unknowns: Unknowns, behind: np.ndarray, free: np.ndarray | None = None
) -> np.ndarray:
    """The covariance; `behind` is how far the answer is from where it began, which what was believed pulls back.

    Unknowns that were not `free` are as uncertain as they were believed to be.
    """
    prior = LOOSE * unknowns.precision()
    at = np.flatnonzero(np.ones(len(prior), bool) if free is None else free)
    cut = np.ix_(at, at)
    H, g = unknowns.summed(parts)
    H, g = H[cut] + np.diag(prior[at]), (g - prior * behind)[at]
    here, inverse = settled(parts, unknowns, behind, free)[at], np.linalg.inv(H)
    total = inverse @ np.diag(prior[at]) @ inverse
    links = _links(parts, unknowns)
    alone = [both for shares in links.values() for both in shares]
    everywhere = [(np.sum([H for H, _ in of], axis=0), np.sum([g for _, g in of], axis=0)) for of in links.values()]
    for groups in (alone, everywhere if len(unknowns.cameras) > 1 else [], _episodes(parts, unknowns)):
        gone = np.array([np.linalg.solve(H - own[cut], g - pull[at]) - here for own, pull in groups])
        total += gone.T @ gone * (len(gone) - 1) / max(1, len(gone))
    whole = np.diag(LOOSE / prior)
    whole[cut] = 0.5 * (total + total.T)
    return whole


def _links(parts: Sequence[Part], unknowns: Unknowns) -> dict[int, list[tuple[np.ndarray, np.ndarray]]]:
    """Curvature and pull of each link in each camera that sees it, over all frames."""
    out = dict[int, list[tuple[np.ndarray, np.ndarray]]]()
    for name in unknowns.cameras:
        shares = [part.by_link for part in parts if part.camera == name and part.by_link is not None]
        for link, both in enumerate(np.sum(shares, axis=0) if shares else ()):
            if np.abs(both).sum() > 0:
                out.setdefault(link, []).append(_placed(both[:, :-1], both[:, -1], unknowns, name))
    return out


def _episodes(parts: Sequence[Part], unknowns: Unknowns) -> list[tuple[np.ndarray, np.ndarray]]:
    """Curvature and pull of each camera in each episode; of each picture where there is one episode."""
    alone = len({part.episode for part in parts}) == 1
    sums = dict[tuple[str, str], list[np.ndarray]]()
    for k, part in enumerate(parts):
        key = part.camera, f"{k}" if alone else part.episode
        H, g = sums.get(key, [np.zeros_like(part.hessian), np.zeros_like(part.pull)])
        sums[key] = [H + part.hessian, g + part.pull]
    return [_placed(H, g, unknowns, camera) for (camera, _), (H, g) in sums.items()]


def _placed(H: np.ndarray, g: np.ndarray, unknowns: Unknowns, camera: str) -> tuple[np.ndarray, np.ndarray]:
    at = unknowns.at(camera)
    whole, pull = np.zeros((len(unknowns), len(unknowns))), np.zeros(len(unknowns))
    whole[np.ix_(at, at)], pull[at] = H, g
    return whole, pull


def held(covariance: np.ndarray, behind: np.ndarray, precision: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The step and the covariance after what was stated beforehand counts with its own error.

    The pictures' weights in the fit are far larger than their true worth, so there nothing stated holds a direction
    that they hardly tell; here both count as what they are.
    """
    gain = covariance @ np.linalg.inv(covariance + np.diag(1 / precision))
    kept = covariance - gain @ covariance
    return -gain @ behind, np.asarray(0.5 * (kept + kept.T))


def weak(covariance: np.ndarray, names: tuple[str, ...], precision: np.ndarray) -> tuple[str, ...]:
    """Directions in which the pictures narrowed what was believed by less than half."""
    scale = np.sqrt(precision)
    values, vectors = np.linalg.eigh(covariance * np.outer(scale, scale))
    out = list[str]()
    for value, vector in zip(values[::-1], vectors.T[::-1], strict=True):
        if np.sqrt(value) < WEAK or len(out) == 5:
            break
        main = [names[i] for i in np.argsort(-np.abs(vector))[:4] if abs(vector[i]) > 0.25]
        left = min(float(np.sqrt(value)), 1.0)
        out.append(f"the pictures hardly tell {' together with '.join(main)}: {left:.0%} of the doubt is left")
    return tuple(out)
