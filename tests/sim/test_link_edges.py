"""Edges of links: what a camera sees of them, and what goes on in what."""

from __future__ import annotations

import numpy as np
import pytest

from twinproof.sim.link_edges import link_edges
from twinproof.sim.world import compile_text

MODEL = """<mujoco><worldbody>
<body name="block" pos="1 0 0"><geom type="box" size=".05 .04 .03"/></body>
<body name="post" pos="0 1 0"><geom type="cylinder" size=".05 .04"/></body>
<body name="both" pos="0 0 1"><geom type="box" size=".05 .05 .05"/>
  <geom type="box" size=".2 .2 .01" pos="0 0 .1"/></body>
</worldbody></mujoco>"""


@pytest.fixture(scope="module")
def model():
    return compile_text(MODEL)


def edges_of(model, name: str):
    body = model.body(name)
    pose = np.eye(4)
    pose[:3, 3] = body.pos
    return link_edges(model, [body.id], pose[None], 0.01)


def test_a_box_shows_nine_of_its_twelve_edges_to_who_sees_three_sides(model) -> None:
    edges = edges_of(model, "block")
    assert len(np.unique(edges.line[edges.sharp])) == 12
    seen = edges.seen_from(np.array([2.0, 0.7, 0.6]))
    assert edges.sharp[seen].all()
    assert len(np.unique(edges.line[seen])) == 9
    middle = edges.ends[seen].mean(axis=1) - [1, 0, 0]
    behind = np.isclose(middle[:, :2], [-0.05, -0.04]).any(axis=1)
    assert not (np.isclose(middle[:, 2], -0.03) & behind).any()
    assert np.linalg.norm(edges.ends[:, 1] - edges.ends[:, 0], axis=1).max() < 0.015


def test_a_rim_is_one_line_and_a_round_side_shows_its_outline(model) -> None:
    edges = edges_of(model, "post")
    assert len(np.unique(edges.line[edges.sharp])) == 2
    seen = edges.seen_from(np.array([2.0, 1.0, 0.5]))
    smooth = edges.ends[seen[~edges.sharp[seen]]].mean(axis=1) - [0, 1, 0]
    assert len(smooth) > 0
    assert np.abs(smooth[:, 1]).min() > 0.045  # far left and far right
    rim = edges.ends[seen[edges.sharp[seen]]].mean(axis=1) - [0, 1, 0]
    assert (rim[:, 2] > 0).sum() > 1.7 * (rim[:, 2] < 0).sum()  # all of the upper one, the near half of the lower


def test_what_stands_before_an_edge_hides_it(model) -> None:
    edges = edges_of(model, "both")
    above = edges.seen_from(np.array([0.01, 0.02, 3.0]))
    assert edges.ends[above, :, 2].min() > 1.08  # the plate hides the block below
    below = edges.seen_from(np.array([0.5, 0.4, 0.6]))
    assert edges.ends[below, :, 2].min() < 0.96
