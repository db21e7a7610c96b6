"""Recordings of the lab: reproducible, as a user would have them, and without a trace of the truth."""

from __future__ import annotations

import ast
import json
from pathlib import Path

import numpy as np
import pytest

from twinproof.guard.make import Grouping, make
from twinproof.ingest.inspect import inspect_episode
from twinproof.ingest.read import ingest
from twinproof.lab.benches import bench
from twinproof.lab.record import Options, _Session, record
from twinproof.nouns.errors import ConfigError, StoreError
from twinproof.nouns.recording import Recording
from twinproof.nouns.rig import read_rig
from twinproof.sim.scene import Scene

SOURCE = Path(__file__).parents[2] / "src" / "twinproof"
SMALL = (32, 24)
PUSHES = Options("mcap", size=SMALL, behaviours=("push",), tracker="tag", cameras=("front", "wrist"))


def read(folder: Path, out: Path) -> Recording:
    return ingest(folder / "dataset", read_rig(folder / "rig.toml"), out)


@pytest.fixture(scope="module")
def pushes(tmp_path_factory) -> tuple[Path, dict, Recording]:
    """Two pushes in bags, their truth, and what ingest makes of them."""
    root = tmp_path_factory.mktemp("pushes")
    record("push", 2, 5, root / "lab", root / "truth.json", PUSHES)
    truth = json.loads((root / "truth.json").read_text())
    return root / "lab", truth, read(root / "lab", root / "recording")


@pytest.fixture(scope="module")
def swings(tmp_path_factory) -> tuple[Path, Path]:
    root = tmp_path_factory.mktemp("swings")
    record("pendulum", 8, 3, root / "lab", root / "hidden" / "truth.json", Options(effects="off"))
    return root / "lab", root / "hidden" / "truth.json"


def test_a_lerobot_dataset_ingests_under_its_rig_and_carries_no_sidecar(swings, tmp_path):
    folder, _ = swings
    assert not (folder / "dataset" / "twinproof").exists()
    recording = read(folder, tmp_path / "recording")
    assert len(recording.episodes) == 8
    first = recording.episodes[0]
    assert set(first.signals) == {"state", "velocity", "torque", "command"}
    assert first.labels["behaviour"] == "free_swing"
    assert first.labels["session"] == "day_0"
    assert first.outcome == "success"
    assert [column.unit for column in first.signals["command"].columns] == ["N m", "N m"]
    assert recording.rig.model is not None
    assert recording.rig.model.path == "robot.xml"


def test_the_same_seed_gives_the_same_signals_whatever_else_is_recorded(swings, tmp_path):
    folder, _ = swings
    record("pendulum", 2, 3, tmp_path / "lab", None, Options(effects="off"))
    long, short = read(folder, tmp_path / "long"), read(tmp_path / "lab", tmp_path / "short")
    assert [e.id for e in short.episodes] == [e.id for e in long.episodes[:2]]
    record("pendulum", 2, 4, tmp_path / "other", None, Options(effects="off"))
    other = read(tmp_path / "other", tmp_path / "other_recording")
    assert {e.id for e in other.episodes}.isdisjoint(e.id for e in short.episodes)


def test_the_same_seed_gives_the_same_pictures(pushes, tmp_path):
    recording = pushes[2]
    record("push", 1, 5, tmp_path / "lab", None, PUSHES)
    again = read(tmp_path / "lab", tmp_path / "recording").episodes[0]
    assert again.id == recording.episodes[0].id


def test_stages_give_the_same_results_with_the_truth_file_absent(swings, tmp_path):
    folder, truth = swings

    def stages(name: str) -> list[object]:
        recording = read(folder, tmp_path / name)
        split = make(recording, tmp_path / f"{name}_split", Grouping())
        looked = [inspect_episode(episode) for episode in recording.episodes]
        return [recording.hash, split.hash, looked]

    with_truth = stages("with")
    kept = truth.read_bytes()
    truth.unlink()
    without = stages("without")
    truth.write_bytes(kept)
    assert with_truth == without


def test_nothing_in_the_recording_tells_the_truth(pushes):
    folder, truth, _ = pushes
    hidden = [f"{truth['theta'][id]:.6f}" for id in ("joint.elbow.offset", "actuator.elbow.delay", "body.forearm.mass")]
    hidden += [f"{truth['cameras']['front']['clock_offset_s']:.6f}", "lab-truth", "truth.json"]
    for path in folder.rglob("*"):
        if path.suffix in (".toml", ".xml", ".json", ".yaml"):
            text = path.read_text()
            assert [value for value in hidden if value in text] == [], path
    rig = read_rig(folder / "rig.toml")
    assert rig.cameras["front"].clock_offset_s == 0.0


def test_no_module_outside_the_lab_imports_it_or_knows_its_truth():
    for path in SOURCE.rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        if path.is_relative_to(SOURCE / "lab"):
            continue
        assert "lab-truth" not in text, path
        if path in (SOURCE / "cli.py", SOURCE / "cli_lab.py", SOURCE / "cli_robot.py"):
            continue
        for node in ast.walk(ast.parse(text)):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            assert not any(name.startswith("twinproof.lab") for name in names), path


def test_the_planted_clock_offset_is_what_separates_stamps_from_exposures(pushes):
    _, truth, recording = pushes
    for episode, known in zip(recording.episodes, truth["episodes"], strict=True):
        start = episode.start_ns / 1e9
        first_command = float(episode.signals["command"].time_s[0])
        for name, video in episode.videos.items():
            planted = truth["cameras"][name]["clock_offset_s"]
            late = video.time_s - first_command - np.array(known["exposures_s"][name])
            assert late == pytest.approx(-planted, abs=2e-6), (name, start)
            assert 0.010 <= late.mean() <= 0.060


def test_inspect_shows_dropped_frames_and_latency(pushes):
    _, truth, recording = pushes
    dropped = 0
    for episode, known in zip(recording.episodes, truth["episodes"], strict=True):
        tracks = {track.name: track for track in inspect_episode(episode)}
        for name in episode.videos:
            exposures = np.array(known["exposures_s"][name])
            lost = np.round(np.diff(exposures) * 20 - 1).clip(0)
            assert tracks[name].dropped == int(lost[lost >= 2].sum())  # inspect calls two in a row a gap
            assert 0.008 < tracks[name].latency_s < 0.06
            dropped += tracks[name].dropped
        assert tracks["state"].rate_hz == pytest.approx(100, rel=0.01)
        assert tracks["command"].rate_hz == pytest.approx(20, rel=0.01)
    assert dropped > 0


def test_joints_read_what_the_planted_offsets_make_of_the_true_angles(tmp_path):
    record(
        "push", 1, 5, tmp_path / "lab", tmp_path / "t.json", Options("mcap", "off", images=False, behaviours=("push",))
    )
    truth = json.loads((tmp_path / "t.json").read_text())
    episode = read(tmp_path / "lab", tmp_path / "recording").episodes[0]
    state = episode.signals["state"]
    true = np.array(truth["episodes"][0]["joints"])
    read_at = np.searchsorted(state.time_s - state.time_s[0], np.array(truth["episodes"][0]["time_s"]) - 1e-6)
    off = state.value[read_at] - true
    for k, name in enumerate(bench("push").joints[:-1]):
        planted = truth["theta"][f"joint.{name}.offset"]
        assert np.median(off[:, k]) == pytest.approx(planted, abs=1e-3)
        assert np.radians(0.5) <= abs(planted) <= np.radians(3)


def test_a_tracked_object_has_noise_and_dropouts_and_an_untracked_one_no_pose(pushes, tmp_path):
    _, truth, recording = pushes
    track = recording.episodes[0].signals["object_pose"]
    assert [column.name for column in track.columns] == ["x", "y", "z", "qw", "qx", "qy", "qz"]
    true = np.array(truth["episodes"][0]["object_pose"])
    off = np.linalg.norm(track.value[0, :3] - true[0, :3])
    assert 1e-4 < off < 0.02
    assert (np.diff(track.time_s) > 0.09).any()  # a sample was lost
    assert "object_pose" not in read_rig_of("drawer", tmp_path).signals


def read_rig_of(name: str, folder: Path):
    record(name, 1, 0, folder / "lab", None, Options(images=False, behaviours=("shake",)))
    return read_rig(folder / "lab" / "rig.toml")


def test_models_beside_the_rig_compile_and_show_the_stated_cameras(pushes):
    folder, truth, _ = pushes
    scene = Scene.read(folder / "scene.xml").compile()
    assert scene.camera("front").pos == pytest.approx(truth["cameras"]["front"]["stated_mount"]["position_m"], abs=1e-9)
    assert np.abs(scene.camera("front").pos - truth["cameras"]["front"]["mount"]["position_m"]).max() > 1e-3
    for name, known in truth["objects"].items():
        model = Scene.read(folder / f"scene_{name}.xml").compile()
        assert model.geom("object").size[0] == pytest.approx(known["stated_half_m"][0])
        assert model.body("object").mass[0] == pytest.approx(known["nominal"]["body.object.mass"], rel=1e-6)


def test_phases_keep_their_names_in_a_bag(pushes):
    phase = pushes[2].episodes[0].signals["phase"]
    assert phase.kind == "event"
    assert tuple(column.name for column in phase.columns) == bench("push").phases
    assert (phase.value.sum(1) == 1).all()


@pytest.mark.parametrize(
    ("how", "match"),
    [
        ({"episodes": 0}, "0 episodes cannot be recorded"),
        ({"how": lambda: Options(size=(31, 24))}, "pictures of 31×24 cannot be"),
        ({"how": lambda: Options(to="hdf5")}, "cannot be written as 'hdf5'"),
        ({"how": lambda: Options(camera_hz=4)}, "has a picture at every tick, not 4 a second. Use mcap"),
        ({"how": lambda: Options(to="mcap", camera_hz=0)}, "0 pictures a second cannot be taken"),
        ({"how": lambda: Options(behaviours=("dance",))}, "bench 'pendulum' has no behaviour 'dance'"),
        ({"how": lambda: Options(tracker="tag")}, "bench 'pendulum' has no object to track"),
        ({"how": lambda: Options(tracker="eyes")}, "no tracker 'eyes'"),
        ({"seed": -1}, "seed -1 cannot be drawn from. Use 0 or more"),
        ({"how": lambda: Options(plant=-2)}, "plant -2 cannot be drawn from"),
        (
            {"how": lambda: Options(effects="gripper_compliance")},
            "bench 'pendulum' has no effect 'gripper_compliance'. Use all, off, or some of cable_drag, gear_ripple, t",
        ),
        ({"how": lambda: Options(cameras=("roof",))}, "bench 'pendulum' has no camera 'roof'"),
        ({"how": lambda: Options(families=("egg",))}, "bench 'pendulum' has no objects of the family 'egg'"),
    ],
)
def test_what_cannot_be_recorded_is_said_before_anything_moves(how, match, tmp_path):
    with pytest.raises(ConfigError, match=match):
        record(
            "pendulum", how.get("episodes", 1), how.get("seed", 0), tmp_path / "lab", None, how.get("how", Options)()
        )
    assert not (tmp_path / "lab").exists()


def test_the_truth_goes_to_a_new_file_outside_the_recording(tmp_path):
    with pytest.raises(StoreError, match="would lie inside the recording"):
        record("pendulum", 1, 0, tmp_path / "lab", tmp_path / "lab" / "truth.json")
    (tmp_path / "truth.json").write_text("kept")
    with pytest.raises(StoreError, match=r"truth.json exists. Nothing is overwritten"):
        record("pendulum", 1, 0, tmp_path / "lab", tmp_path / "truth.json")
    assert (tmp_path / "truth.json").read_text() == "kept"


def test_the_truth_inside_the_recording_is_found_through_dots_and_links(tmp_path):
    (tmp_path / "lab").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "lab")
    (tmp_path / "other").mkdir()
    for place in (tmp_path / "link" / "t.json", tmp_path / "other" / ".." / "lab" / "t.json"):
        with pytest.raises(StoreError, match="would lie inside the recording"):
            record("pendulum", 1, 0, tmp_path / "lab", place)
    with pytest.raises(StoreError, match="would lie below the truth"):
        record("pendulum", 1, 0, tmp_path / "deep" / "lab", tmp_path / "deep")


def test_a_truth_that_cannot_be_written_is_said_before_anything_moves(tmp_path):
    def progress(*_: object) -> None:
        raise AssertionError("an episode was played")

    (tmp_path / "file").write_text("kept")
    for place in (tmp_path / "file" / "t.json", Path("/proc/nowhere/t.json"), tmp_path / "new" / ("n" * 300)):
        with pytest.raises(ConfigError, match="the truth cannot be written to"):
            record("pendulum", 1, 0, tmp_path / "lab", place, progress=progress)
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_a_recording_and_its_truth_are_both_kept_or_neither(tmp_path, monkeypatch):
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("twinproof.lab.truth.write_json", full)
    with pytest.raises(StoreError, match="the truth could not be written"):
        record("pendulum", 1, 0, tmp_path / "lab", tmp_path / "t.json")
    monkeypatch.undo()
    monkeypatch.setattr("twinproof.nouns.files.sync_tree", full)
    with pytest.raises(StoreError, match="the disk is full"):
        record("pendulum", 1, 0, tmp_path / "lab", tmp_path / "t.json")
    assert list(tmp_path.iterdir()) == []


def test_without_the_wrist_camera_there_is_no_scan():
    for how in (Options(images=False), Options(cameras=("front",))):
        assert "scan" not in {take.behaviour for take in _Session(bench("push"), 12, 0, how).takes}
    assert "scan" in {take.behaviour for take in _Session(bench("push"), 12, 0, Options()).takes}
    with pytest.raises(ConfigError, match="a scan carries the wrist camera, and it is not recorded"):
        _Session(bench("push"), 1, 0, Options(images=False, behaviours=("scan",)))


def test_a_recording_may_be_of_one_family_and_its_scene_shows_that_one():
    session = _Session(bench("push"), 3, 0, Options(images=False, families=("can",)))
    assert {take.object.partition("_")[0] for take in session.takes} == {"can"}
    assert 'type="cylinder"' in session.bench.nominal_scene(None, session.plant).partition('<body name="object"')[2]
