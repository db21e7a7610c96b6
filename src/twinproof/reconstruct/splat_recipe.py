"""How a splat scene is fitted: every setting of the fit, with the reason for its value."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Rates:
    """Learning rates of Adam, by what they move; those of positions are shares of the cameras' extent."""

    means: float = 1e-3
    means_end: float = 2e-5  # falls to this by the end
    quats: float = 1e-3
    scales: float = 2e-2
    opacities: float = 5e-2
    colours: float = 1e-2
    harmonics: float = 1e-2 / 20
    exposures: float = 2e-3
    poses: float = 2e-4  # rad, and share of the extent
    ends: float = 0.2  # what all rates but the means' have fallen to by the end, as a share


@dataclass(frozen=True)
class Growth:
    """How splats are placed: MCMC relocation and growth (Kheradmand et al. 2024), cheap steps of it."""

    most: int = 20_000  # splats in the end; more show finer detail, and take more steps to settle
    every: int = 50  # steps between two looks
    by: float = 1.08  # growth at each look until `most`
    until: float = 0.7  # share of the run; after that nothing is moved any more
    dead: float = 0.005  # opacity below which a splat is moved to where it is of use
    noise: float = 0.0  # of the random walk that nearly transparent splats may take, per learning rate; 5e4 is lively
    by_error: float = (
        1.0  # new splats go where opacity × (slope by the pixel)^this is large: where the picture is wrong
    )


@dataclass(frozen=True)
class Recipe:
    """The whole fit. `iterations` is the length of every schedule; `cpu_seconds` stops by work done instead."""

    iterations: int = 3000
    cpu_seconds: float | None = None  # if given, schedules run over this much CPU time of the process
    degree: int = 1
    degree_every: float = 0.15  # share of the run between two degrees of the harmonics
    sizes: tuple[tuple[float, int], ...] = ((0.0, 4), (0.15, 2), (0.5, 1))  # from this share on, pictures 1 / this
    ssim: float = 0.2
    squares: float = 5.0  # of L2 beside L1: an error of 0.1 pulls twice as hard as with L1 alone
    opacity_weight: float = 0.01
    scale_weight: float = 0.01
    depth_weight: float = 0.1
    normal_weight: float = 0.0  # for surfels 0.05 makes smooth surfaces
    exposure: bool = True
    poses: bool = False
    flat: bool = False
    start_opacity: float = 0.4
    start_points: int = 12_000  # where fewer are known, pixels are placed at the depth of what is known beside them
    rates: Rates = field(default_factory=Rates)
    growth: Growth = field(default_factory=Growth)
