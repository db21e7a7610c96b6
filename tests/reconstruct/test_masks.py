"""Masks: one click in one picture is enough for all; nothing clicked finds what moves; what hits nothing is refused."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.reconstruct.mask_scenes import (
    BLUE,
    LENS,
    RED,
    blurred,
    depths,
    middle_of,
    orbit,
    overlap,
    pushed,
    room,
    still,
)
from twinproof.nouns.clip import Clip
from twinproof.nouns.errors import ConfigError, RecordingError
from twinproof.reconstruct.masks import BACKGROUND, UNKNOWN, Masks, segment
from twinproof.reconstruct.masks_checks import edge_widths, moves
from twinproof.reconstruct.masks_space import Plane
from twinproof.reconstruct.overlay import COLOURS, outline, overlay, sheet
from twinproof.reconstruct.prompts import Box, Prompt, Prompts, read_clicks

TABLE = Plane()
Room = tuple[dict[str, Clip], dict[str, np.ndarray]]


@pytest.fixture(scope="module")
def push() -> Room:
    return room(pushed(9))


@pytest.fixture(scope="module")
def clicked(push: Room) -> Masks:
    clips, truth = push
    x, y = middle_of(truth["one"][0] == 0)
    return segment(clips, read_clicks([f"one,0,{x},{y}=box"]), TABLE)


def worst(masks: Masks, truth: dict[str, np.ndarray], name: str, index: int, least: int = 40) -> float:
    """The median over pictures of the camera that is worst."""
    medians = []
    for camera, true in truth.items():
        found = masks.of(name, camera)
        scores = [overlap(found[k], true[k] == index) for k in range(len(true)) if (true[k] == index).sum() >= least]
        medians.append(np.median(scores))
    return float(min(medians))


def test_one_click_in_one_picture_is_enough_for_all_cameras_and_times(push: Room, clicked: Masks) -> None:
    assert clicked.names == ("box",)
    assert worst(clicked, push[1], "box", 0) > 0.88


def test_the_robot_is_neither_object_nor_background(push: Room, clicked: Masks) -> None:
    for camera, true in push[1].items():
        labels = clicked.labels[camera]
        assert (labels[true == 1] == UNKNOWN).mean() > 0.95
        assert (labels[true == -1] == BACKGROUND).mean() > 0.98


def test_confidence_is_high_inside_and_nothing_where_nothing_is_known(push: Room, clicked: Masks) -> None:
    for camera, true in push[1].items():
        sure = clicked.confidence[camera].astype(float)
        assert np.median(sure[true == 0]) > 0.9
        assert (sure[clicked.labels[camera] == UNKNOWN] == 0).all()
        assert ((sure >= 0) & (sure <= 1)).all()


def test_the_track_follows_the_object_and_tells_that_it_moved(clicked: Masks) -> None:
    track = clicked.tracks["box"]
    truth = np.array(pushed(9))
    here = np.stack([track.at(0.1 * k) for k in range(9)])[:, :2]
    assert np.abs(here - truth).max() < 0.015
    moved = moves(track)
    assert moved.moved
    assert moved.largest_m == pytest.approx(0.12, abs=0.02)


def test_views_of_a_time_at_rest_carry_masks_that_say_what_counts(push: Room, clicked: Masks) -> None:
    clips, truth = push
    views = clicked.views(clips)
    assert views.groups == ("background", "box")
    assert len(views) == 3
    for view in views.views:
        camera, frame = view.name.split("/")
        assert view.mask is not None
        assert overlap(view.mask == 1, truth[camera][int(frame)] == 0) > 0.85
    assert "stand still" in views.notes[0]


def test_nothing_clicked_finds_what_moves_and_is_not_the_robot(push: Room) -> None:
    masks = segment(push[0], None, TABLE)
    assert masks.names == ("object_0",)
    assert worst(masks, push[1], "object_0", 0) > 0.85


def test_two_objects_keep_their_own_labels() -> None:
    clips, truth = room(pushed(8), more=[((0.0, 0.1, 0.02), (0.02, 0.03, 0.02), BLUE)])
    (x, y), (u, v) = (middle_of(truth["one"][0] == k) for k in (0, 2))
    masks = segment(clips, read_clicks([f"one,0,{x},{y}=red", f"one,0,{u},{v}=blue"]), TABLE)
    assert masks.names == ("red", "blue")
    assert worst(masks, truth, "red", 0) > 0.85
    assert worst(masks, truth, "blue", 2) > 0.85
    assert not moves(masks.tracks["blue"]).moved


def test_two_objects_that_look_alike_are_told_apart_by_place() -> None:
    clips, truth = room(pushed(6), more=[((0.0, 0.12, 0.025), (0.02, 0.03, 0.025), RED)])
    (x, y), (u, v) = (middle_of(truth["one"][0] == k) for k in (0, 2))
    masks = segment(clips, read_clicks([f"one,0,{x},{y}=this", f"one,0,{u},{v}=that"]), TABLE)
    assert worst(masks, truth, "this", 0) > 0.8
    assert worst(masks, truth, "that", 2) > 0.8


def test_words_for_a_colour_find_the_thing_of_that_colour(push: Room) -> None:
    masks = segment(push[0], Prompts((Prompt("it", words="the red box"),)), TABLE)
    assert worst(masks, push[1], "it", 0) > 0.85


def test_a_box_is_a_prompt_and_so_is_the_thing_that_moved(push: Room) -> None:
    clips, truth = push
    y, x = np.nonzero(truth["two"][0] == 0)
    box = Box("two", x.min() - 2, y.min() - 2, x.max() + 2, y.max() + 2, 0)
    assert worst(segment(clips, Prompts((Prompt("it", boxes=(box,)),)), TABLE), truth, "it", 0) > 0.85
    moved = Prompts((Prompt("it", words="the thing that moved"),))
    assert worst(segment(clips, moved, TABLE), truth, "it", 0) > 0.85


def test_one_camera_alone_and_no_table_still_give_masks(push: Room) -> None:
    clips, truth = push
    x, y = middle_of(truth["one"][0] == 0)
    click = read_clicks([f"one,0,{x},{y}=box"])
    for table in (TABLE, None):
        masks = segment({"one": clips["one"]}, click, table)
        assert worst(masks, {"one": truth["one"]}, "box", 0) > 0.8
    masks = segment(clips, click, None)
    assert worst(masks, truth, "box", 0) > 0.85


def test_a_segmenter_turns_prompts_into_first_regions(push: Room) -> None:
    clips, truth = push

    class Told:
        """Answers with the truth of the picture it is shown."""

        def predict(
            self, rgb: np.ndarray, points: np.ndarray, labels: np.ndarray, box: np.ndarray | None, words: str
        ) -> list[tuple[np.ndarray, float]]:
            camera, frame = next((c, k) for c, clip in clips.items() for k in range(9) if (clip.rgb[k] == rgb).all())
            return [(truth[camera][frame] == 0, 0.9)] if words == "brick" else []

    masks = segment(clips, Prompts((Prompt("it", words="brick"),)), TABLE, Told())
    assert worst(masks, truth, "it", 0) > 0.85
    with pytest.raises(ConfigError, match="the segmenter finds nothing for 'it' in picture 4 of one"):
        segment(clips, Prompts((Prompt("it", words="cup"),)), TABLE, Told())


def test_a_click_that_says_no_and_one_that_says_yes_work_together(push: Room) -> None:
    clips, truth = push
    x, y = middle_of(truth["one"][0] == 0)
    masks = segment(clips, read_clicks([f"one,0,{x},{y}=box", "one,0,5,60=!box"]), TABLE)
    assert worst(masks, truth, "box", 0) > 0.85


def test_a_click_on_the_bare_table_or_on_the_robot_is_refused(push: Room) -> None:
    clips, truth = push
    with pytest.raises(ConfigError, match="is on a surface that runs on, such as the bare table"):
        segment(clips, read_clicks(["one,0,8,60=box"]), TABLE)
    x, y = middle_of(truth["one"][0] == 1)
    with pytest.raises(ConfigError, match="is on the robot. Click a picture in which the robot is not there"):
        segment(clips, read_clicks([f"one,0,{x},{y}=box"]), TABLE)


def test_a_box_around_nothing_is_refused(push: Room) -> None:
    empty = Prompts((Prompt("it", boxes=(Box("one", 4, 54, 16, 68, 0),)),))
    with pytest.raises(ConfigError, match="holds nothing that differs from what is around it"):
        segment(push[0], empty, TABLE)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("mug", "cannot be understood without a segmenter. One colour of red, orange"),
        ("purple", "nothing purple stands out"),
    ],
)
def test_words_that_find_nothing_are_refused(push: Room, words: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        segment(push[0], Prompts((Prompt("it", words=words),)), TABLE)


def test_what_stands_on_the_table_and_never_moves_is_found_unasked() -> None:
    clips, truth = room(still(5))
    masks = segment(clips, None, TABLE)
    assert masks.names == ("object_0",)
    assert worst(masks, truth, "object_0", 0) > 0.85


def test_an_empty_table_with_nothing_clicked_is_refused() -> None:
    clips, _ = room([(5.0, 5.0)] * 5)
    with pytest.raises(RecordingError, match="nothing moves but the robot, and nothing stands out on the table. Point"):
        segment(clips, None, TABLE)
    with pytest.raises(ConfigError, match="is to be the thing that moved, but only the robot moves"):
        segment(clips, Prompts((Prompt("it", words="the thing that moved"),)), TABLE)


def test_depth_tells_one_camera_where_the_object_is(push: Room) -> None:
    clips, truth = push
    clip = replace(clips["one"], depth_m=depths(clips["one"], pushed(9)))
    x, y = middle_of(truth["one"][0] == 0)
    masks = segment({"one": clip}, read_clicks([f"one,0,{x},{y}=box"]), TABLE)
    assert worst(masks, {"one": truth["one"]}, "box", 0) > 0.85
    assert np.abs(masks.tracks["box"].at(0.0)[:2] - pushed(9)[0]).max() < 0.02


def test_a_camera_that_is_carried_round_needs_one_click_and_no_plate() -> None:
    clip, truth = orbit(8)
    x, y = middle_of(truth[0] == 0)
    masks = segment({"hand": clip}, read_clicks([f"hand,0,{x},{y}=box"]), TABLE)
    assert worst(masks, {"hand": truth}, "box", 0) > 0.85
    views = masks.views({"hand": clip}, span_s=(0.0, 0.7), every_s=0.2)
    assert [view.name for view in views.views] == ["hand/000000", "hand/000002", "hand/000004", "hand/000006"]


def test_one_picture_of_each_camera_is_enough(push: Room) -> None:
    clips, truth = push
    x, y = middle_of(truth["one"][0] == 0)
    single = {name: _first(clip) for name, clip in clips.items()}
    masks = segment(single, read_clicks([f"one,0,{x},{y}=box"]), TABLE)
    assert worst(masks, {name: true[:1] for name, true in truth.items()}, "box", 0) > 0.8


def _first(clip: Clip) -> Clip:
    assert clip.robot is not None
    return Clip(clip.camera, clip.time_s[:1], clip.rgb[:1], LENS, clip.T_world_camera[:1], clip.robot[:1])


def test_an_overlay_draws_outlines_and_hatches_what_is_not_known(push: Room, clicked: Masks) -> None:
    clips, _ = push
    label, rgb = clicked.labels["one"][0], clips["one"].rgb[0]
    drawn = overlay(rgb, label, zoom=1)
    changed = (drawn != rgb).any(axis=-1)
    assert (drawn[outline(label == 0)] == COLOURS[0]).all()
    assert not changed[label == BACKGROUND].any()
    assert 0.1 < changed[label == UNKNOWN].mean() < 0.6
    assert sheet(clips, clicked, [0.0, 0.5], zoom=2).shape == (3 * 144, 2 * 192, 3)
    with pytest.raises(ConfigError, match="Give one label for each pixel, and a zoom of 1 or more"):
        overlay(rgb, label[1:])
    with pytest.raises(ConfigError, match="no times were asked for"):
        sheet(clips, clicked, [])


def test_blurred_pictures_are_told_for_each_camera(push: Room) -> None:
    clips, truth = push
    assert max(edge_widths(clip).max() for clip in clips.values()) < 4
    soft = {name: blurred(clip, 6.0) for name, clip in clips.items()}
    with pytest.raises(RecordingError, match=r"all pictures are blurred: one \(edges of \d+ pixels\), two"):
        segment(soft, None, TABLE)
    x, y = middle_of(truth["one"][0] == 0)
    masks = segment({**clips, "two": soft["two"]}, read_clicks([f"one,0,{x},{y}=box"]), TABLE)
    assert any(note.startswith("all pictures of two are blurred") for note in masks.notes)


def test_what_cannot_be_segmented_or_asked_for_is_refused(push: Room, clicked: Masks) -> None:
    clips, _ = push
    with pytest.raises(ConfigError, match="there are no clips. Give at least one camera"):
        segment({})
    with pytest.raises(ConfigError, match="the clip of 'one' is filed under 'uno'. Use the camera's name"):
        segment({"uno": clips["one"]})
    with pytest.raises(ConfigError, match="there is no 'mug' in 'one'. Objects: box; cameras: one, two, three"):
        clicked.of("mug", "one")
    with pytest.raises(ConfigError, match="Give a unit vector and a finite offset"):
        Plane((0.0, 0.0, 2.0))


def test_objects_that_never_rest_give_no_views(push: Room, clicked: Masks) -> None:
    track = clicked.tracks["box"]
    restless = replace(track, centre=track.centre + 0.02 * np.arange(len(track.centre))[:, None])
    with pytest.raises(RecordingError, match="the objects never stand still"):
        replace(clicked, tracks={"box": restless}).views(push[0])
