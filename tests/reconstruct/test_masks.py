"""Masks: one click in one picture is enough for all; nothing clicked finds what moves or stands about."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.reconstruct.mask_scenes import (
    BLUE,
    RED,
    clicked,
    depths,
    middle_of,
    push,
    pushed,
    room,
    still,
    worst,
)
from twinproof.nouns.errors import ConfigError
from twinproof.reconstruct.masks import BACKGROUND, UNKNOWN, segment
from twinproof.reconstruct.masks_checks import moves
from twinproof.reconstruct.prompts import Box, Prompt, Prompts, read_clicks
from twinproof.reconstruct.segmenters import Ask, Segmenter
from twinproof.sim.grid import Plane

TABLE = Plane()


def test_one_click_in_one_picture_is_enough_for_all_cameras_and_times() -> None:
    assert clicked().names == ("box",)
    assert worst(clicked(), push()[1], "box", 0) > 0.88


def test_the_robot_is_neither_object_nor_background() -> None:
    for camera, true in push()[1].items():
        labels = clicked().labels[camera]
        assert (labels[true == 1] == UNKNOWN).mean() > 0.95
        assert (labels[true == -1] == BACKGROUND).mean() > 0.98


def test_confidence_is_high_inside_and_nothing_where_nothing_is_known() -> None:
    for camera, true in push()[1].items():
        sure = clicked().confidence[camera].astype(float)
        assert np.median(sure[true == 0]) > 0.9
        assert (sure[clicked().labels[camera] == UNKNOWN] == 0).all()
        assert ((sure >= 0) & (sure <= 1)).all()


def test_the_track_follows_the_object_and_tells_that_it_moved() -> None:
    track = clicked().tracks["box"]
    truth = np.array(pushed(9))
    here = np.stack([track.at(0.1 * k) for k in range(9)])[:, :2]
    assert np.abs(here - truth).max() < 0.015
    moved = moves(track)
    assert moved.moved
    assert moved.largest_m == pytest.approx(0.12, abs=0.02)


def test_nothing_clicked_finds_what_moves_and_is_not_the_robot() -> None:
    masks = segment(push()[0], None, TABLE)
    assert masks.names == ("object_0",)
    assert worst(masks, push()[1], "object_0", 0) > 0.85


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


def test_words_for_a_colour_find_the_thing_of_that_colour() -> None:
    masks = segment(push()[0], Prompts((Prompt("it", words="the red box"),)), TABLE)
    assert worst(masks, push()[1], "it", 0) > 0.85


def test_a_box_is_a_prompt_and_so_is_the_thing_that_moved() -> None:
    clips, truth = push()
    y, x = np.nonzero(truth["two"][0] == 0)
    box = Box("two", x.min() - 2, y.min() - 2, x.max() + 2, y.max() + 2, 0)
    assert worst(segment(clips, Prompts((Prompt("it", boxes=(box,)),)), TABLE), truth, "it", 0) > 0.85
    moved = Prompts((Prompt("it", words="the thing that moved"),))
    assert worst(segment(clips, moved, TABLE), truth, "it", 0) > 0.85


def test_one_camera_alone_and_no_table_still_give_masks() -> None:
    clips, truth = push()
    x, y = middle_of(truth["one"][0] == 0)
    click = read_clicks([f"one,0,{x},{y}=box"])
    for table in (TABLE, None):
        masks = segment({"one": clips["one"]}, click, table)
        assert worst(masks, {"one": truth["one"]}, "box", 0) > 0.8
    masks = segment(clips, click, None)
    assert worst(masks, truth, "box", 0) > 0.85


def test_a_segmenter_turns_prompts_into_first_regions() -> None:
    clips, truth = push()

    class Told(Segmenter):
        """Answers with the truth of the picture it is shown."""

        knows_words = True

        def _predict(self, rgb: np.ndarray, ask: Ask) -> list[tuple[np.ndarray, float]]:
            camera, frame = next((c, k) for c, clip in clips.items() for k in range(9) if (clip.rgb[k] == rgb).all())
            return [(truth[camera][frame] == 0, 0.9)] if ask.words == "brick" else []

    masks = segment(clips, Prompts((Prompt("it", words="brick"),)), TABLE, Told())
    assert worst(masks, truth, "it", 0) > 0.85
    with pytest.raises(ConfigError, match="the segmenter finds nothing for 'it' in picture 4 of one"):
        segment(clips, Prompts((Prompt("it", words="cup"),)), TABLE, Told())


def test_a_click_that_says_no_and_one_that_says_yes_work_together() -> None:
    clips, truth = push()
    x, y = middle_of(truth["one"][0] == 0)
    masks = segment(clips, read_clicks([f"one,0,{x},{y}=box", "one,0,5,60=!box"]), TABLE)
    assert worst(masks, truth, "box", 0) > 0.85


def test_what_stands_on_the_table_and_never_moves_is_found_unasked() -> None:
    clips, truth = room(still(5))
    masks = segment(clips, None, TABLE)
    assert masks.names == ("object_0",)
    assert worst(masks, truth, "object_0", 0) > 0.85


def test_depth_tells_one_camera_where_the_object_is() -> None:
    clips, truth = push()
    clip = replace(clips["one"], depth_m=depths(clips["one"], pushed(9)))
    x, y = middle_of(truth["one"][0] == 0)
    masks = segment({"one": clip}, read_clicks([f"one,0,{x},{y}=box"]), TABLE)
    assert worst(masks, {"one": truth["one"]}, "box", 0) > 0.85
    assert np.abs(masks.tracks["box"].at(0.0)[:2] - pushed(9)[0]).max() < 0.02
