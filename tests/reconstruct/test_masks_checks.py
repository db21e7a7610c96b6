"""Masks: what hits nothing or cannot be seen is refused with the cure; views and overlays of what was found."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.reconstruct.mask_scenes import (
    LENS,
    blurred,
    clicked,
    middle_of,
    orbit,
    overlap,
    push,
    room,
    worst,
)
from twinproof.nouns.clip import Clip
from twinproof.nouns.errors import ConfigError, RecordingError
from twinproof.reconstruct.masks import BACKGROUND, UNKNOWN, segment
from twinproof.reconstruct.masks_checks import edge_widths, moves
from twinproof.reconstruct.masks_files import read_masks, write_masks
from twinproof.reconstruct.object_block import _moved
from twinproof.reconstruct.overlay import COLOURS, outline, overlay, sheet
from twinproof.reconstruct.prompts import Box, Prompt, Prompts, read_clicks
from twinproof.sim.grid import Plane

TABLE = Plane()


def test_views_of_a_time_at_rest_carry_masks_that_say_what_counts() -> None:
    clips, truth = push()
    views = clicked().views(clips)
    assert views.groups == ("background", "box")
    assert len(views) == 3
    for view in views.views:
        camera, frame = view.name.split("/")
        assert view.mask is not None
        assert overlap(view.mask == 1, truth[camera][int(frame)] == 0) > 0.85
    assert "stand still" in views.notes[0]


def test_an_object_that_moves_while_it_is_looked_at_is_noted() -> None:
    track = clicked().tracks["box"]
    (said,) = _moved(track, "box")
    assert "box did not stand still: at 0.4" in said
    assert 0.1 < moves(track).largest_m < 0.14
    still = replace(track, centre=np.repeat(track.centre[:1], len(track.centre), axis=0))
    assert _moved(still, "box") == ()


def test_a_click_on_the_bare_table_or_on_the_robot_is_refused() -> None:
    clips, truth = push()
    with pytest.raises(ConfigError, match="is on a surface that runs on, such as the bare table"):
        segment(clips, read_clicks(["one,0,8,60=box"]), TABLE)
    x, y = middle_of(truth["one"][0] == 1)
    with pytest.raises(ConfigError, match="is on the robot. Click a picture in which the robot is not there"):
        segment(clips, read_clicks([f"one,0,{x},{y}=box"]), TABLE)


def test_a_box_around_nothing_is_refused() -> None:
    empty = Prompts((Prompt("it", boxes=(Box("one", 4, 54, 16, 68, 0),)),))
    with pytest.raises(ConfigError, match="holds nothing that differs from what is around it"):
        segment(push()[0], empty, TABLE)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("mug", "cannot be understood without a segmenter that knows words. One colour of red, orange"),
        ("purple", "nothing purple stands out"),
    ],
)
def test_words_that_find_nothing_are_refused(words: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        segment(push()[0], Prompts((Prompt("it", words=words),)), TABLE)


def test_an_empty_table_with_nothing_clicked_is_refused() -> None:
    clips, _ = room([(5.0, 5.0)] * 5)
    with pytest.raises(RecordingError, match="nothing moves but the robot, and nothing stands out on the table. Point"):
        segment(clips, None, TABLE)
    with pytest.raises(ConfigError, match="is to be the thing that moved, but only the robot moves"):
        segment(clips, Prompts((Prompt("it", words="the thing that moved"),)), TABLE)


def test_a_camera_that_is_carried_round_needs_one_click_and_no_plate() -> None:
    clip, truth = orbit(8)
    x, y = middle_of(truth[0] == 0)
    masks = segment({"hand": clip}, read_clicks([f"hand,0,{x},{y}=box"]), TABLE)
    assert worst(masks, {"hand": truth}, "box", 0) > 0.85
    views = masks.views({"hand": clip}, span_s=(0.0, 0.7), every_s=0.2)
    assert [view.name for view in views.views] == ["hand/000000", "hand/000002", "hand/000004", "hand/000006"]


def test_one_picture_of_each_camera_is_enough() -> None:
    clips, truth = push()
    x, y = middle_of(truth["one"][0] == 0)
    single = {name: _first(clip) for name, clip in clips.items()}
    masks = segment(single, read_clicks([f"one,0,{x},{y}=box"]), TABLE)
    assert worst(masks, {name: true[:1] for name, true in truth.items()}, "box", 0) > 0.8


def _first(clip: Clip) -> Clip:
    assert clip.robot is not None
    return Clip(clip.camera, clip.time_s[:1], clip.rgb[:1], LENS, clip.T_world_camera[:1], clip.robot[:1])


def test_an_overlay_draws_outlines_and_hatches_what_is_not_known() -> None:
    clips, _ = push()
    label, rgb = clicked().labels["one"][0], clips["one"].rgb[0]
    drawn = overlay(rgb, label, zoom=1)
    changed = (drawn != rgb).any(axis=-1)
    assert (drawn[outline(label == 0)] == COLOURS[0]).all()
    assert not changed[label == BACKGROUND].any()
    assert 0.1 < changed[label == UNKNOWN].mean() < 0.6
    assert sheet(clips, clicked(), [0.0, 0.5], zoom=2).shape == (3 * 144, 2 * 192, 3)
    with pytest.raises(ConfigError, match="Give one label for each pixel, and a zoom of 1 or more"):
        overlay(rgb, label[1:])
    with pytest.raises(ConfigError, match="no times were asked for"):
        sheet(clips, clicked(), [])


def test_blurred_pictures_are_told_for_each_camera() -> None:
    clips, truth = push()
    assert max(edge_widths(clip).max() for clip in clips.values()) < 4
    soft = {name: blurred(clip, 6.0) for name, clip in clips.items()}
    with pytest.raises(RecordingError, match=r"all pictures are blurred: one \(edges of \d+ pixels\), two"):
        segment(soft, None, TABLE)
    x, y = middle_of(truth["one"][0] == 0)
    masks = segment({**clips, "two": soft["two"]}, read_clicks([f"one,0,{x},{y}=box"]), TABLE)
    assert any(note.startswith("all pictures of two are blurred") for note in masks.notes)


def test_what_cannot_be_segmented_or_asked_for_is_refused() -> None:
    clips, _ = push()
    with pytest.raises(ConfigError, match="there are no clips. Give at least one camera"):
        segment({})
    with pytest.raises(ConfigError, match="the clip of 'one' is filed under 'uno'. Use the camera's name"):
        segment({"uno": clips["one"]})
    with pytest.raises(ConfigError, match="there is no 'mug' in 'one'. Objects: box; cameras: one, two, three"):
        clicked().of("mug", "one")


def test_objects_that_never_rest_give_no_views() -> None:
    track = clicked().tracks["box"]
    restless = replace(track, centre=track.centre + 0.02 * np.arange(len(track.centre))[:, None])
    with pytest.raises(RecordingError, match="the objects never stand still"):
        replace(clicked(), tracks={"box": restless}).views(push()[0])


def test_masks_come_back_from_disk_as_they_were(tmp_path: Path) -> None:
    write_masks(clicked(), tmp_path / "masks")
    back = read_masks(tmp_path / "masks")
    assert back.names == clicked().names
    assert back.notes == clicked().notes
    for camera, labels in clicked().labels.items():
        np.testing.assert_array_equal(back.labels[camera], labels)
        np.testing.assert_allclose(back.confidence[camera], clicked().confidence[camera], atol=0.003)
    np.testing.assert_array_equal(back.tracks["box"].centre, clicked().tracks["box"].centre)
    (tmp_path / "masks" / "camera_0.npz").write_bytes(b"other")
    with pytest.raises(RecordingError, match="camera_0.npz"):
        read_masks(tmp_path / "masks")
    with pytest.raises(RecordingError, match="does not exist"):
        read_masks(tmp_path / "nowhere")
