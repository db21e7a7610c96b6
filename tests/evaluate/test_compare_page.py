"""One page and one JSON out: safe to open, the same whatever the format of the recordings."""

from __future__ import annotations

import json
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pytest

from tests.evaluate.motions import episode, on_disk, pair_of_recordings, recording, rig, wave
from twinproof import cli_compare
from twinproof.cli_compare import Compare
from twinproof.evaluate.compare import compare
from twinproof.evaluate.frames import draw_frames
from twinproof.evaluate.page import write_report
from twinproof.ingest.bag_write import write_mcap
from twinproof.ingest.lerobot_write import write_lerobot
from twinproof.ingest.read import own_rig
from twinproof.nouns.errors import ConfigError
from twinproof.nouns.video_write import write_pictures


class Tags(HTMLParser):
    """Collects tags, links and texts; unbalanced tags stay open."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open, self.links, self.kinds = [], [], set()
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.kinds.add(tag)
        self.links += [value for name, value in attrs if name in ("src", "href")]
        if tag not in ("meta", "img", "br"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def test_the_page_is_whole_loads_nothing_and_escapes_what_a_recording_says(tmp_path):
    evil = "<script>alert(1)</script>"
    named = [
        replace(e, source=evil, labels={"task": evil}, outcome="success") for e in pair_of_recordings(1)[0].episodes
    ]
    real = recording(*named, of=replace(rig(), robot=f'two"arms{evil}'))
    left_over = episode(wave, seed=70, number=7, labels={"task": "</table><b>"})
    sim = recording(
        *[replace(e, outcome="failure", labels={"task": evil}) for e in pair_of_recordings(1)[1].episodes], left_over
    )
    told = write_report(compare(real, sim, rig()), tmp_path / "out")
    text = (tmp_path / "out" / "report.html").read_text()
    tags = Tags(text)
    assert tags.open == []
    assert "script" not in tags.kinds
    assert all(link.startswith("data:image/png;base64,") for link in tags.links)
    assert "default-src 'none'" in text
    assert "&lt;/table&gt;&lt;b&gt;" in text
    assert json.loads((tmp_path / "out" / "comparison.json").read_text()) == told
    assert told["only_sim"][0]["labels"] == {"task": "</table><b>"}
    assert told["outcomes"]["bias_points"]["value"] == -100
    assert told["arms"]["left"]["rmse"]["low"] is None  # one pair has no interval
    assert sorted(path.name for path in (tmp_path / "out" / "figures").iterdir()) == [
        "distribution.png", "events_1.png", "joints.png", "rmse.png", "timing.png",
    ]  # fmt: skip


def test_frames_at_the_events_are_one_picture_where_both_have_video(tmp_path):
    def filmed(base, shade: int, name: str):
        frames = ((k / 10, np.full((32, 48, 3), shade + k, dtype=np.uint8)) for k in range(100))
        return replace(base, videos={"front": write_pictures(frames, "front", tmp_path / f"{name}.mp4")})

    real, sim = (one.episodes[0] for one in pair_of_recordings(1))
    both = compare(recording(filmed(real, 20, "real")), recording(filmed(sim, 120, "sim")), rig())
    assert draw_frames(both, tmp_path) == {"frames_1": tmp_path / "frames_1.png"}
    assert (tmp_path / "frames_1.png").is_file()
    with pytest.raises(ConfigError, match="camera 'back' is not in both episodes; real has front, simulated front"):
        draw_frames(both, tmp_path, "back")


@pytest.mark.parametrize("write", [write_lerobot, write_mcap])
def test_a_dataset_and_bags_are_read_like_the_recording_they_came_from(tmp_path, write):
    real, _ = pair_of_recordings(1)
    write(real, tmp_path / "written")
    path = on_disk(tmp_path / "rig", replace(own_rig(tmp_path / "written"), model=None))
    asked = Compare(tmp_path / "written", tmp_path / "written", path, tmp_path / "out")
    read = cli_compare._recording(asked.real, asked.rig, tmp_path / "scratch", asked)
    found = compare(real, read, rig()).pairs[0]
    assert found.overall.gap.total_rmse < 2e-3  # a grid and whole nanoseconds cost that much
    assert {event.verdict for event in found.events} == {"same"}


def test_the_command_reads_compares_and_writes(tmp_path, capsys):
    real, sim = pair_of_recordings(2)
    for name, one in (("real", real), ("sim", sim)):
        one.save(tmp_path / name)
    path = on_disk(tmp_path / "rig", rig(model=True))
    asked = Compare(tmp_path / "real", tmp_path / "sim", path, tmp_path / "out", pair_by="order", align=False)
    assert cli_compare.compare(asked) == 0
    said = capsys.readouterr().out
    assert "out: 2 pairs\n" in said
    assert "tip 'left_tool' by the chain of robot.xml" in said
    told = json.loads((tmp_path / "out" / "comparison.json").read_text())
    assert told["clocks_aligned"] is False
    assert told["pairs"][0]["sim"]["labels"]["task"] == "wave 1"
    assert json.loads((tmp_path / "out" / "config.json").read_text())["command"] == "compare"
    with pytest.raises(ConfigError, match="out exists"):
        cli_compare.compare(asked)
