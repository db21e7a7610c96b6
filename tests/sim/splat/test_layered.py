"""Worlds drawn in layers on the CPU: as all splats together would look, and a backdrop is drawn when it must be."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from twinproof.nouns.errors import SimError, SplatError
from twinproof.nouns.splats import SH0, Splats
from twinproof.sim.render_camera import Camera, Lens
from twinproof.sim.splat import engine, layered
from twinproof.sim.splat.layered import LayeredWorlds, Views
from twinproof.sim.splat.render import render_many

LENS = Lens(64, 48, 60.0, 60.0, 31.5, 23.5)
PLACED = ("post", "ball")
GROUPS = ("wall", *PLACED)
STILL, BALL = 40 * 30 + 60, 40  # splats
USUAL = (1.0, 1.0, 0.0, 0.0)


def scene(flat: bool = False) -> Splats:
    """A grey wall 2 m ahead, a blue post 1 m ahead, and a red ball where it is put."""
    wall = np.stack([*np.meshgrid(np.linspace(-1.4, 1.4, 40), np.linspace(-1.1, 1.1, 30), [2.0])], -1).reshape(-1, 3)
    post = np.stack([np.zeros(60), np.linspace(-0.5, 0.5, 60), np.ones(60)], -1)
    ball = np.random.default_rng(0).normal(0, 0.04, (BALL, 3))
    counts = (len(wall), len(post), len(ball))
    colour = np.repeat([[0.5, 0.5, 0.5], [0.1, 0.1, 0.9], [0.9, 0.1, 0.1]], counts, axis=0)
    return Splats(
        np.concatenate([wall, post, ball]),
        np.tile([1.0, 0, 0, 0], (sum(counts), 1)),
        np.log(np.repeat(np.repeat([0.06, 0.06, 0.03], counts)[:, None], 3, axis=1)),
        np.full(sum(counts), 5.0),
        ((colour - 0.5) / SH0)[:, None],
        np.repeat([0, 1, 2], counts),
        GROUPS,
        flat,
    )


def at(*place: float) -> np.ndarray:
    pose = np.eye(4)
    pose[:3, 3] = place
    return pose


def views(
    balls: list[tuple[float, float, float]],
    cameras: list[np.ndarray] | None = None,
    posts: list[np.ndarray] | None = None,
    lenses: list[tuple[float, ...]] | None = None,
) -> Views:
    """Worlds that differ in where the ball is, and where given, the camera, the post or the lens."""
    posts = posts or [np.eye(4)] * len(balls)
    groups = np.stack([np.stack([post, at(*ball)]) for post, ball in zip(posts, balls, strict=True)])
    places = np.broadcast_to(np.eye(4), (len(balls), 4, 4)) if cameras is None else np.stack(cameras)
    return Views(LENS, places, groups, None if lenses is None else np.array(lenses))


def together(splats: Splats, seen: Views) -> np.ndarray:
    """The same through the public render, everything blended together."""
    changes = [USUAL] * len(seen.T_world_group) if seen.changes is None else seen.changes
    cameras = [
        Camera(LENS.changed(*map(float, row)), place) for row, place in zip(changes, seen.T_world_camera, strict=True)
    ]
    moved = [dict(zip(PLACED, row, strict=True)) for row in seen.T_world_group]
    found: np.ndarray = np.round(255 * np.stack([image.over() for image in render_many(splats, cameras, moved=moved)]))
    return found.astype(int)


def layers(splats: Splats | None = None) -> LayeredWorlds:
    return LayeredWorlds(scene() if splats is None else splats, PLACED, ("post",))


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    """(splats, cameras) of every batch that is drawn."""
    batches, inner = [], engine.forward_batch

    def counting(cloud: Any, eyes: Any, *rest: Any) -> Any:
        batches.append((len(cloud.means), len(eyes)))
        return inner(cloud, eyes, *rest)

    monkeypatch.setattr(layered.engine, "forward_batch", counting)
    return batches


APART = [(-0.4, 0.0, 1.2), (0.5, 0.2, 1.6), (0.05, -0.1, 0.6)]  # of wall and post in depth


@pytest.mark.parametrize("flat", [False, True])
def test_layers_look_like_all_splats_together(flat: bool) -> None:
    splats = scene(flat)
    cameras = [np.eye(4), at(0.1, 0.0, -0.1), np.eye(4)]
    posts = [np.eye(4), at(-0.3, 0.0, 0.0), np.eye(4)]
    seen = views(APART, cameras, posts, [USUAL, (1.2, 1.1, 0.05, -0.02), USUAL])
    found, wanted = layers(splats).over(seen), together(splats, seen)
    assert found.shape == (3, 48, 64, 3)
    assert found.dtype == np.uint8
    assert len({one.tobytes() for one in found}) == 3
    assert ((found[..., 0] > 150) & (found[..., 1] < 60)).any(axis=(1, 2)).all()  # the ball is seen in every world
    gaps = np.abs(found - wanted)
    assert np.percentile(gaps, 99) <= 2
    assert gaps.max() <= 40


def test_moving_cameras_see_just_what_the_render_draws() -> None:
    seen = views(APART, [np.eye(4), at(0.1, 0.0, -0.1), at(0.0, 0.2, 0.0)], lenses=[USUAL, (1.2, 1.1, 0.0, 0.1), USUAL])
    found = layers().together(seen)
    assert np.ptp(found) > 100
    np.testing.assert_array_equal(found, together(scene(), seen))


def test_what_goes_behind_something_that_stands_is_hidden_and_before_it_is_not() -> None:
    behind, before = layers().over(views([(0.0, 0.0, 1.4), (0.0, 0.0, 0.7)]))[:, 23, 31].astype(int)
    assert behind[2] > 150 > 60 > behind[0]  # blue
    assert before[0] > 150 > 60 > before[2]  # red


def test_what_nothing_stands_behind_is_seen_over_black() -> None:
    bare = scene().take(np.arange(len(scene())) >= 40 * 30)  # no wall
    seen = views([(0.4, 0.0, 1.0)])
    found = layers(bare).over(seen)
    assert found[0, 23, 55, 0] > 150
    assert found[0, 2, 2].tolist() == [0, 0, 0]
    assert np.abs(found - together(bare, seen)).max() <= 2


def test_the_backdrop_is_drawn_once_and_shared(drawn: list[tuple[int, int]]) -> None:
    worlds = layers()
    first = worlds.over(views(APART))
    assert drawn == [(STILL, 1), (BALL, 3)]
    again = worlds.over(views(APART[::-1]))
    assert drawn[2:] == [(BALL, 3)]
    np.testing.assert_array_equal(again[::-1], first)


@pytest.mark.parametrize("what", ["camera", "post", "lens"])
def test_where_something_is_elsewhere_only_that_worlds_backdrop_is_drawn(
    drawn: list[tuple[int, int]], what: str
) -> None:
    def episode(x: float) -> Views:
        """In the second world the camera, the post or the lens is off by x."""
        cameras, posts, lenses = [np.eye(4)] * 3, [np.eye(4)] * 3, [USUAL] * 3
        cameras = [np.eye(4), at(x, 0, 0), np.eye(4)] if what == "camera" else cameras
        posts = [np.eye(4), at(x, 0, 0), np.eye(4)] if what == "post" else posts
        lenses = [USUAL, (1 + x, 1.0, 0.0, 0.0), USUAL] if what == "lens" else lenses
        return views(APART, cameras, posts, lenses)

    worlds = layers()
    worlds.over(episode(0.0))
    drawn.clear()
    found = worlds.over(episode(0.2))
    assert drawn == [(STILL, 1), (BALL, 3)]
    np.testing.assert_array_equal(found, layers().over(episode(0.2)))
    assert np.abs(found[1].astype(int) - worlds.over(episode(0.0))[1]).max() > 100


def test_the_same_worlds_may_be_asked_for_in_any_number_and_order() -> None:
    cameras = [at(x, 0.0, 0.0) for x in (0.0, 0.1, 0.2)]
    worlds = layers()
    whole = worlds.over(views(APART, cameras))
    for rows in ([2], [1, 0], [0, 1, 2, 1, 0]):
        some = worlds.over(views([APART[k] for k in rows], [cameras[k] for k in rows]))
        np.testing.assert_array_equal(some, whole[rows])


def test_cameras_of_other_lenses_keep_backdrops_apart() -> None:
    worlds, seen = layers(), views(APART)
    small = Views(Lens(32, 24, 30.0, 30.0, 15.5, 11.5), seen.T_world_camera, seen.T_world_group)
    assert worlds.over(seen).shape == (3, 48, 64, 3)
    assert worlds.over(small).shape == (3, 24, 32, 3)
    np.testing.assert_array_equal(worlds.over(small), layers().over(small))


def test_old_backdrops_are_forgotten_and_drawn_again(
    drawn: list[tuple[int, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(layered, "KEPT_BYTES", 0)
    worlds, here, there = layers(), views(APART[:1]), views(APART[:1], [at(0.1, 0, 0)])
    first = worlds.over(here)
    worlds.over(there)
    np.testing.assert_array_equal(worlds.over(here), first)
    assert [count for count, _ in drawn] == [STILL, BALL] * 3
    worlds.over(here)  # of the newest call it is kept all the same
    assert drawn[6:] == [(BALL, 1)]


def test_pictures_do_not_depend_on_threads() -> None:
    one, two = (LayeredWorlds(scene(), PLACED, ("post",), threads).over(views(APART)) for threads in (1, 2))
    np.testing.assert_array_equal(one, two)


def test_a_scene_in_which_nothing_moves_or_nothing_stands_is_drawn_too() -> None:
    seen = views(APART)
    still = LayeredWorlds(scene(), PLACED, PLACED).over(seen)
    np.testing.assert_array_equal(still, together(scene(), seen))
    loose = scene().take(np.arange(len(scene())) >= STILL)
    found = layers(loose).over(seen)
    np.testing.assert_array_equal(found, together(loose, seen))


def test_what_cannot_be_drawn_is_refused() -> None:
    with pytest.raises(SplatError, match="there is no group 'bal' to place; there are wall, post, ball"):
        LayeredWorlds(scene(), ("bal",))
    with pytest.raises(SplatError, match="a group is placed by a matrix that is not rigid"):
        Views(LENS, np.eye(4)[None], 2 * np.eye(4)[None, None])
    with pytest.raises(SplatError, match="a camera is placed by a matrix that is not rigid"):
        Views(LENS, np.diag([1.0, 1, -1, 1])[None], np.eye(4)[None, None])
    with pytest.raises(SplatError, match="not rigid"):
        views([(np.nan, 0.0, 0.0)])
    with pytest.raises(SimError, match="lens"):
        layers().over(views(APART[:1], lenses=[(-1.0, 1.0, 0.0, 0.0)]))
