"""An object is cut out of pictures before a plain backdrop, or by the masks that lie beside them."""

import numpy as np
import pytest

from tests.reconstruct.planted import pictures
from tests.reconstruct.solids import ball
from twinproof.cli import main
from twinproof.nouns.errors import MeshError
from twinproof.nouns.views import Views
from twinproof.reconstruct.backdrop import Backdrop, cut_out

GREEN = (10, 200, 20)


def photo():
    """A red frame with a small green spot in its side, a speck elsewhere, before green."""
    rgb = np.tile(np.array(GREEN, np.uint8), (100, 120, 1))
    rgb[20:80, 20:90] = (180, 30, 40)
    rgb[40:60, 40:70] = GREEN
    rgb[28:31, 30:33] = GREEN
    rgb[2:4, 100:102] = (180, 30, 40)
    return rgb


@pytest.mark.parametrize("backdrop", [Backdrop(GREEN), Backdrop()])
def test_large_holes_stay_and_small_spots_are_not_known(backdrop):
    mask = backdrop.mask(photo())
    assert mask[25, 50] == mask[70, 80] == 1
    assert mask[50, 55] == 0, "a hole as a handle has"
    assert mask[29, 31] == -1, "a shadow or a gap"
    assert mask[3, 100] == 0, "another piece"
    assert mask[10, 10] == 0


def test_nothing_but_the_backdrop_is_no_object():
    assert not Backdrop(GREEN).mask(np.tile(np.array(GREEN, np.uint8), (40, 50, 1))).any()


def test_an_object_may_reach_the_border():
    rgb = np.zeros((60, 80, 3), np.uint8)
    rgb[30:, 20:50] = 200
    assert (Backdrop((0, 0, 0)).mask(rgb) == (rgb[..., 0] > 0)).all()


def test_views_are_cut_by_backdrop_by_group_or_by_what_counts():
    views, _ = pictures(ball(), 4)
    truth = [view.mask for view in views.views]
    by_colour = cut_out(views, Backdrop((26, 26, 26), 0.02))
    assert np.mean([(a.mask == 1) == b for a, b in zip(by_colour.views, truth, strict=True)]) > 0.99
    by_group = cut_out(views, group="thing")
    assert all((a.mask == b).all() for a, b in zip(by_group.views, truth, strict=True))
    only = [type(v)(v.name, v.rgb, v.intrinsics, v.T_world_camera, mask=v.mask - 1) for v in views.views]
    by_count = cut_out(Views(tuple(only)))
    assert all((a.mask == b).all() for a, b in zip(by_count.views, truth, strict=True))


def test_pictures_without_the_object_are_left_out_and_named():
    views, _ = pictures(ball(), 3)
    first = views.views[0]
    bare = type(first)("bare", np.full_like(first.rgb, 26), first.intrinsics, first.T_world_camera)
    found = cut_out(Views((*views.views, bare), groups=views.groups), Backdrop((26, 26, 26)))
    assert [view.name for view in found.views] == ["view_0", "view_1", "view_2"]
    assert "1 pictures do not show the object and are left out: bare" in found.notes[-1]


def test_what_cannot_be_cut_out_is_said():
    views, _ = pictures(ball(), 3)
    with pytest.raises(MeshError, match="no group 'cup'. They have background, thing"):
        cut_out(views, group="cup")
    with pytest.raises(MeshError, match="Say which is the object: --group"):
        cut_out(views)
    plain = Views(tuple(type(v)(v.name, v.rgb, v.intrinsics, v.T_world_camera) for v in views.views))
    with pytest.raises(MeshError, match="view_0 has no mask, and no backdrop's colour was named"):
        cut_out(plain)
    with pytest.raises(MeshError, match="three numbers from 0 to 255"):
        Backdrop((0, 0, 300))


def test_a_backdrop_that_is_no_colour_is_refused(tmp_path, capsys):
    with pytest.raises(SystemExit):
        main(["splat", "mesh", str(tmp_path), "--backdrop", "mauve", "--out", str(tmp_path / "out")])
    assert "is no colour. Use black, white, grey, green, blue, border or R,G,B." in capsys.readouterr().err
