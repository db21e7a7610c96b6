"""The plain recipe that splat fits are measured against: degree 0, L1 + L2, cloning, full pictures from the start.

It stands on the same rasteriser and the same Adam, so that what differs is the recipe alone.
"""

from __future__ import annotations

import time

import numpy as np
import torch

from twinproof.nouns.splats import SH0, Splats
from twinproof.nouns.views import Views
from twinproof.reconstruct.splat_fit import lens_of
from twinproof.reconstruct.splat_recipe import Recipe
from twinproof.reconstruct.splat_state import extent_of, start
from twinproof.sim.splat.lens import packed
from twinproof.sim.splat.torch_render import Scene, Settings, render

# Of 1e-4, 1.6e-4, 4e-4, 1e-3 (means) and 5e-3, 1e-2 (scales): the best on the kitchen's training pictures' own holdout.
RATES = {"means": 4e-4, "quats": 1e-3, "log_scales": 1e-2, "logits": 5e-2, "sh": 5e-3}
MOST, EVERY, BY = 30_000, 100, 1.15


def fit_plain(views: Views, cpu_seconds: float, seed: int = 0, threads: int = 1) -> tuple[Splats, int]:
    """The scene after that much CPU time, and how many steps that was."""
    from scipy.spatial import KDTree

    rng, began = np.random.default_rng(seed), time.process_time()
    points, colours = np.asarray(views.points, float), views.colours / 255
    if len(points) < 100:  # no SfM points: it starts where our recipe does
        state = start(views, Recipe(), rng, "cpu")
        points = state.values["means"].detach().double().numpy()
        colours = state.values["sh0"].detach().numpy()[:, 0] * SH0 + 0.5
    near = KDTree(points).query(points, k=4)[0][:, 1:].mean(axis=1)
    arrays = {
        "means": points,
        "quats": np.tile([1.0, 0, 0, 0], (len(points), 1)),
        "log_scales": np.repeat(np.log(np.clip(near, 1e-6, 0.1 * extent_of(views)))[:, None], 3, 1),
        "logits": np.zeros(len(points)),
        "sh": ((colours - 0.5) / SH0)[:, None],
    }
    values = {name: torch.tensor(array, dtype=torch.float32).requires_grad_() for name, array in arrays.items()}
    rates = {name: rate * (extent_of(views) if name == "means" else 1) for name, rate in RATES.items()}
    targets = [torch.from_numpy(view.rgb / np.float32(255)) for view in views.views]
    poses = [torch.from_numpy(np.linalg.inv(view.T_world_camera))[None] for view in views.views]
    lenses = [torch.from_numpy(packed(lens_of(view)))[None] for view in views.views]
    optimiser = _adam(values, rates)
    pull, steps = torch.zeros(len(points)), 0
    while time.process_time() - began < cpu_seconds:
        share = (time.process_time() - began) / cpu_seconds
        optimiser.param_groups[0]["lr"] = rates["means"] * 0.01**share
        k = int(rng.integers(len(views)))
        group = torch.zeros(len(values["logits"]), dtype=torch.int32)
        image = render(Scene(*values.values(), group), poses[k], lenses[k], None, Settings(threads=threads)).colour[0]
        miss = image - targets[k]
        (miss.abs().mean() + (miss**2).mean()).backward()
        pull += values["means"].grad.norm(dim=1)
        optimiser.step()
        optimiser.zero_grad(set_to_none=True)
        steps += 1
        if steps % EVERY == 0 and len(pull) < MOST and share < 0.7:
            count = min(int(len(pull) * (BY - 1)), MOST - len(pull))
            values = _cloned(values, torch.topk(pull, count).indices)
            optimiser, pull = _adam(values, rates), torch.zeros(len(pull) + count)
    final = [value.detach().numpy() for value in values.values()]
    return Splats(*final, np.zeros(len(final[0]), int)), steps


def _adam(values: dict[str, torch.Tensor], rates: dict[str, float]) -> torch.optim.Adam:
    groups = [{"params": [values[name]], "lr": rate} for name, rate in rates.items()]
    return torch.optim.Adam(groups, eps=1e-15, fused=True)


def _cloned(values: dict[str, torch.Tensor], which: torch.Tensor) -> dict[str, torch.Tensor]:
    """Each of `which` becomes two, half as opaque beside each other and somewhat smaller."""
    grown = {}
    for name, value in values.items():
        old, new = value.detach().clone(), value.detach()[which].clone()
        if name == "means":
            new += torch.randn_like(new) * values["log_scales"].detach()[which].exp() * 0.5
        if name == "log_scales":
            new -= 0.35
            old[which] -= 0.35
        grown[name] = torch.cat([old, new]).requires_grad_()
    return grown
