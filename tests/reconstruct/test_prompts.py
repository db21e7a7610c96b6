"""Prompts: read strictly, from a file or from clicks, and placed in the clips or refused with the cure."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from twinproof.nouns.clip import Clip
from twinproof.nouns.errors import ConfigError
from twinproof.nouns.rig import Intrinsics
from twinproof.reconstruct.prompts import Box, Click, Prompt, Prompts, read_clicks, read_prompts, settled

TEXT = """
[[objects]]
name = "mug"
words = "red"
clicks = [
  { camera = "front", frame = 0, x = 12, y = 9.5 },
  { camera = "front", time_s = 0.21, x = 3, y = 4, inside = false },
]

[[objects]]
name = "tee"
boxes = [{ camera = "front", frame = 2, x0 = 2, y0 = 3, x1 = 9, y1 = 11 }]
"""


def clips() -> dict[str, Clip]:
    poses = np.repeat(np.eye(4)[None], 4, axis=0)
    times, rgb = 0.1 * np.arange(4), np.zeros((4, 16, 20, 3), np.uint8)
    return {"front": Clip("front", times, rgb, Intrinsics(20, 20, 9.5, 7.5), poses)}


def test_a_file_gives_objects_in_the_order_of_their_labels(tmp_path: Path) -> None:
    (tmp_path / "prompts.toml").write_text(TEXT, encoding="utf-8")
    prompts = read_prompts(tmp_path / "prompts.toml")
    assert prompts.names == ("mug", "tee")
    assert prompts.objects[0].clicks[0] == Click("front", 12.0, 9.5, 0)
    assert not prompts.objects[0].clicks[1].inside
    assert prompts.objects[1].boxes == (Box("front", 2.0, 3.0, 9.0, 11.0, 2),)


def test_a_time_becomes_the_number_of_the_nearest_picture(tmp_path: Path) -> None:
    (tmp_path / "prompts.toml").write_text(TEXT, encoding="utf-8")
    placed = settled(read_prompts(tmp_path / "prompts.toml"), clips())
    assert placed.objects[0].clicks[1].frame == 2
    assert placed.objects[0].clicks[1].time_s is None


def test_clicks_are_texts_and_join_the_objects_of_a_file() -> None:
    base = Prompts((Prompt("mug", words="red"),))
    made = read_clicks(["front,0,12,9=mug", "front,0.2s,3,4=!mug", "left cam,3,1.5,2=tee"], base)
    assert made.names == ("mug", "tee")
    assert made.objects[0].words == "red"
    assert made.objects[0].clicks == (Click("front", 12, 9, 0), Click("front", 3, 4, None, 0.2, False))
    assert made.objects[1].clicks == (Click("left cam", 1.5, 2, 3),)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("front,0,12=mug", "is not camera,frame,x,y=name. Write for example"),
        ("front,0.5,12,9=mug", "are not a frame and a pixel. A frame is a whole number"),
        ("front,0,1.2.3,9=mug", "are not a frame and a pixel"),
        ("front,0,12,9=", "cannot be called ''"),
        ("front,0,12,9=robot", "cannot be called 'robot'"),
        ("front,0,12,9=my mug", "Use letters, digits"),
        ("front,0,12,9=!mug", "nothing says where 'mug' is"),
    ],
)
def test_a_click_that_cannot_be_read_is_refused(text: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        read_clicks([text])


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("objects = 3", "prompts.objects: a list is needed, found 3"),
        ("[[objects]]\nname = 'a'\nclick = []", "unknown key 'click'. Did you mean 'clicks'?"),
        ("[[objects]]\nclicks = []", "'name' is missing"),
        ("[[objects]]\nname = 'a'", "nothing says where 'a' is. Add a click on it"),
        (
            "[[objects]]\nname = 'a'\nwords = 'red'\n[[objects]]\nname = 'a'\nwords = 'blue'",
            "two objects are called 'a'",
        ),
        ("format = 'twinproof/prompts/9'", "this version reads 'twinproof/prompts/1'"),
        ("[[objects", "is not readable TOML"),
    ],
)
def test_a_file_that_cannot_be_read_is_refused(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "prompts.toml").write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError, match=said.replace("?", r"\?")):
        read_prompts(tmp_path / "prompts.toml")


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"does not exist. Write it \(docs/masks.md\), or use --click"):
        read_prompts(tmp_path / "prompts.toml")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("frond,0,1,1=a", "the camera 'frond', which is not here. Did you mean 'front'"),
        ("wrist,0,1,1=a", "There are front"),
        ("front,4,1,1=a", "picture 4 of front, which has 4. Give a frame from 0 to 3"),
        ("front,0,20,1=a", r"clicked at \(20, 1\) in front, whose pictures are 20 × 16"),
        ("front,7.5s,1,1=a", r"at 7.5 s in front, whose nearest picture is 7.20 s away. Its pictures run from 0.00"),
    ],
)
def test_a_click_outside_the_clips_is_refused(text: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        settled(read_clicks([text]), clips())


@pytest.mark.parametrize(
    ("box", "said"),
    [
        (Box("front", 9, 3, 2, 11, 0), "holds nothing. x1 and y1 are the larger ones"),
        (Box("front", 2, 3, 30, 11, 0), "leaves its pictures of 20 × 16. Keep it inside"),
        (Box("front", 2, 3, 9, 11), "needs a picture's number or its time. Give one of frame and time_s"),
        (Box("front", 2, 3, 9, 11, 0, 0.1), "needs a picture's number or its time"),
    ],
)
def test_a_box_that_cannot_be_is_refused(box: Box, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        settled(Prompts((Prompt("a", boxes=(box,)),)), clips())
