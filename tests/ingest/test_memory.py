"""An hour of three cameras fits into 500 MB: nothing is decoded or held as a whole."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import av
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from twinproof.nouns.rig import Camera, Rig, SignalRule
from twinproof.nouns.strict import plain
from twinproof.nouns.toml_text import to_toml
from twinproof.nouns.video_write import Encoding, encode

FPS, SECONDS = 30, 3600
MEASURED = """
import json, sys
from pathlib import Path
from twinproof.ingest.read import ingest
from twinproof.nouns.rig import read_rig
source, rig, out = map(Path, sys.argv[1:])
made = ingest(source, read_rig(rig), out)
episode = made.episodes[0]
frames = 0
for video in episode.videos.values():
    for time_s, picture in video.frames(1800, 1830):
        frames += 1
    with video.reader() as reader:
        assert reader.frame(len(video) - 1).shape == (480, 640, 3)
rows = len(episode.signals["state"].time_s)
status = Path("/proc/self/status").read_text()  # not ru_maxrss, which remembers the parent process
peak = int(status.split("VmHWM:")[1].split()[0]) / 1024
print(json.dumps({"frames": frames, "rows": rows, "peak_mb": peak}))
"""


def long_film(path: Path) -> None:
    """An hour of 640×480 AV1: four seconds encoded, their packets repeated."""
    y, x = np.mgrid[0:480, 0:640]
    scene = np.stack([127 + 90 * np.sin(x / 23) * np.cos(y / 31), 60 + 0 * x, 0.3 * (x + y)], axis=-1).astype(np.uint8)
    how = Encoding("libsvtav1", "yuv420p", "rgb24", {"g": "2", "crf": "30", "preset": "12"})
    clip = path.with_name("clip.mp4")
    encode(((k / FPS, np.roll(scene, 3 * k, axis=1)) for k in range(4 * FPS)), "c", clip, "rgb", how)
    with av.open(str(clip)) as source, av.open(str(path), "w") as out:
        stream = source.streams.video[0]
        copy = out.add_stream_from_template(stream, opaque=True)
        packets = [(bytes(p), p.pts, p.is_keyframe) for p in source.demux(stream) if p.size]
        length = packets[1][1] * len(packets)
        for turn in range(SECONDS // 4):
            for data, pts, key in packets:
                packet = av.Packet(data)
                packet.stream, packet.time_base, packet.is_keyframe = copy, stream.time_base, key
                packet.pts = packet.dts = pts + turn * length
                out.mux(packet)
    clip.unlink()


@pytest.mark.slow
def test_an_hour_of_three_cameras_stays_under_500_mb(tmp_path):
    folder = tmp_path / "src" / "take"
    folder.mkdir(parents=True)
    long_film(folder / "front.mp4")
    for name in ("side", "wrist"):
        (folder / f"{name}.mp4").write_bytes((folder / "front.mp4").read_bytes())
    times = np.arange(FPS * SECONDS) / FPS
    table = {"time_s": times, **{f"joint{k}": np.sin(times + k) for k in range(14)}}
    pq.write_table(pa.table(table), folder / "state.parquet")
    cameras = {name: Camera(name, intrinsics_unknown=True) for name in ("front", "side", "wrist")}
    rig = Rig("bot", signals={"state": SignalRule("state", "joint_position", "rad")}, cameras=cameras)
    (tmp_path / "rig.toml").write_text(to_toml(plain(rig)))
    command = [sys.executable, "-c", MEASURED, tmp_path / "src", tmp_path / "rig.toml", tmp_path / "out"]
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True, check=True)
    seen = json.loads(done.stdout.splitlines()[-1])
    assert seen["frames"] == 3 * 30 * FPS
    assert seen["rows"] == FPS * SECONDS
    assert seen["peak_mb"] < 500, seen
    sys.stdout.write(f"peak {seen['peak_mb']:.0f} MB\n")
