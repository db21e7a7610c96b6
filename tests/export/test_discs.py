"""Large discs near cameras are cut, so that viewers which draw volumes show what we draw."""

from __future__ import annotations

import numpy as np

from tests.export.probes import psnr
from twinproof.export.discs import cut_discs
from twinproof.nouns.splats import SH0, Splats
from twinproof.sim.render_camera import Camera, Lens
from twinproof.sim.splat.placed import as_volumes
from twinproof.sim.splat.render import render

AHEAD = Camera(Lens(80, 60, 70, 70, 39.5, 29.5), np.eye(4))
EYES = np.zeros((1, 3))


def discs(means, sizes, quats=None, opacity: float = 0.7) -> Splats:
    count = len(means)
    scales = np.concatenate([np.log(sizes), np.full((count, 1), -9.0)], axis=1)
    colour = np.linspace(0.2, 0.9, 3 * count).reshape(count, 1, 3)
    turns = np.tile([1.0, 0, 0, 0], (count, 1)) if quats is None else quats
    logit = np.full(count, np.log(opacity / (1 - opacity)))
    return Splats(means, turns, scales, logit, (colour - 0.5) / SH0, np.zeros(count, int), ("room",), flat=True)


def test_a_disc_that_is_cut_looks_as_before():
    one = discs([(0.1, 0.0, 1.0)], [(0.3, 0.2)])
    pieces, cut = cut_discs(one, EYES)
    assert cut == 1
    assert len(pieces) > 4
    assert np.exp(pieces.log_scales[:, :2]).max() < 0.15
    assert psnr(render(pieces, AHEAD).over(), render(one, AHEAD).over()) > 35


def test_a_disc_beside_the_picture_fogs_no_longer():
    half = np.radians(130 / 2)  # level for a camera that looks down a little; it lies below the picture
    floor = discs([(0.0, 0.3, 0.1)], [(0.13, 0.16)], [(np.cos(half), np.sin(half), 0, 0)])
    exact = render(floor, AHEAD).over()
    assert psnr(render(as_volumes(floor), AHEAD).over(), exact) < 25
    pieces, _ = cut_discs(floor, EYES)
    assert psnr(render(pieces, AHEAD).over(), exact) > 40


def test_small_discs_stay_and_order_and_groups_are_kept():
    many = discs([(0, 0, 2.0), (0.2, 0, 0.5), (0, 0.1, 3.0)], [(0.01, 0.01), (0.3, 0.3), (0.05, 0.02)])
    pieces, cut = cut_discs(many, EYES)
    assert cut == 1
    assert np.array_equal(pieces.means[0], many.means[0])
    assert np.array_equal(pieces.means[-1], many.means[-1])
    assert np.array_equal(np.unique(pieces.sh[1:-1], axis=0), many.sh[1:2])
    assert pieces.groups == ("room",)


def test_volumes_and_twins_without_cameras_are_left_alone():
    large = discs([(0, 0, 0.5)], [(0.4, 0.4)])
    assert cut_discs(large, np.zeros((0, 3)))[1] == 0
    volumes = as_volumes(large)
    same, cut = cut_discs(volumes, EYES)
    assert cut == 0
    assert same is volumes


def test_a_disc_of_any_size_gives_few_pieces_and_a_faint_one_some():
    assert len(cut_discs(discs([(0, 0, 0.3)], [(50.0, 50.0)]), EYES)[0]) <= 23**2
    assert len(cut_discs(discs([(0, 0, 0.3)], [(1.0, 1.0)], opacity=1e-5), EYES)[0]) >= 1
