"""Structure from motion: planted cameras are found again, and every way to fail says what to do."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest
from scipy.ndimage import map_coordinates

from tests.ingest.pictures import encoded
from twinproof.ingest.posed_views import posed_views
from twinproof.nouns.errors import MissingExtra, SplatError, StoreError
from twinproof.nouns.randomness import stream
from twinproof.reconstruct import sfm
from twinproof.reconstruct.sfm import run_child, structure_from_motion

SIZE, FOCAL = (240, 180), 220.0


def needs_pycolmap() -> None:
    pytest.importorskip("pycolmap", reason="pycolmap is not installed: pip install twinproof[sfm]")


def texture(seed: int) -> np.ndarray:
    """Blobs of many sizes."""
    rng, total = stream(seed, "texture"), np.zeros((512, 512))
    for cells in (8, 16, 32, 64, 128):
        grid = np.kron(rng.uniform(size=(cells, cells)), np.ones((512 // cells, 512 // cells)))
        total += grid * cells**-0.3
    return (total - total.min()) / np.ptp(total) * 255


def look(position: np.ndarray) -> np.ndarray:
    """T_world_camera of an upright camera that looks at a room's corner from a place inside."""
    z = np.array([0.6, 0.6, 0.5]) - position
    z /= np.linalg.norm(z)
    x = np.cross(z, [0, 0, 1.0])
    x /= np.linalg.norm(x)
    pose = np.eye(4)
    pose[:3, :3], pose[:3, 3] = np.stack([x, np.cross(z, x), z], axis=1), position
    return pose


def corner(pose: np.ndarray, textures: list[np.ndarray]) -> np.ndarray:
    """A picture of the planes x = 0, y = 0 and z = 0 with a texture each, 2 m a side and mirrored beyond."""
    column, row = np.meshgrid(np.arange(SIZE[0]), np.arange(SIZE[1]))
    local = np.stack(
        [(column - SIZE[0] / 2 + 0.5) / FOCAL, (row - SIZE[1] / 2 + 0.5) / FOCAL, np.ones(column.shape)], -1
    )
    rays, origin = local @ pose[:3, :3].T, pose[:3, 3]
    with np.errstate(divide="ignore"):
        distance = np.where(rays < 0, -origin / rays, np.inf)
    nearest = distance.argmin(axis=-1)
    image = np.zeros(column.shape)
    for k in range(3):
        hit = nearest == k
        points = (origin + rays * distance[..., k : k + 1])[hit][:, [j for j in range(3) if j != k]]
        image[hit] = map_coordinates(textures[k], points.T * 256, order=1, mode="mirror")
    return np.repeat(image[..., None].clip(0, 255).astype(np.uint8), 3, axis=2)


def write_room(folder: Path, count: int = 7) -> list[np.ndarray]:
    folder.mkdir(parents=True)
    textures, poses = [texture(k) for k in range(3)], []
    for k in range(count):
        pose = look(np.array([2.4 - 0.12 * k, 1.5 + 0.14 * k, 1.3 + 0.08 * (k % 3)]))
        poses.append(pose)
        (folder / f"{k:03d}.png").write_bytes(encoded("png", "rgb24", corner(pose, textures), "rgb24"))
    return poses


def test_planted_cameras_are_found_up_to_a_similarity(tmp_path):
    needs_pycolmap()
    planted = write_room(tmp_path / "room")
    told = []
    made = structure_from_motion(
        tmp_path / "room", tmp_path / "out", lambda done, name, total=None: told.append(name), threads=1
    )
    report = json.loads((made / "sfm.json").read_text())
    assert report["registered"] == report["pictures"] == 7
    assert report["error_px"] < 1
    assert report["focal_px"] == [pytest.approx(FOCAL, rel=0.05)]
    assert told[-1] == "7 of 7 registered"
    assert {"finding features", "matching pictures", "placing cameras"} <= set(told)
    views = posed_views(made)
    assert len(views.points) == report["points"] > 100
    centres = np.stack([view.T_world_camera[:3, 3] for view in views.views])
    assert similarity_gap(centres, np.stack([pose[:3, 3] for pose in planted])) < 0.03
    assert sorted(path.name for path in made.iterdir()) == ["images", "sfm.json", "sparse"]


def test_neighbours_are_enough_and_both_mappers_work(tmp_path, monkeypatch):
    needs_pycolmap()
    write_room(tmp_path / "room", 5)
    monkeypatch.setattr(sfm, "EXHAUSTIVE", 3)
    monkeypatch.setattr(sfm, "GOOD_SHARE", 1.1)  # whatever incremental mapping finds, global mapping has a try
    report = json.loads(
        (structure_from_motion(tmp_path / "room", tmp_path / "out", threads=1) / "sfm.json").read_text()
    )
    assert {name: tried["registered"] for name, tried in report["tried"].items()} == {"incremental": 5, "global": 5}


def similarity_gap(found: np.ndarray, planted: np.ndarray) -> float:
    """The largest distance in m after the best similarity transform (Umeyama)."""
    a, b = found - found.mean(0), planted - planted.mean(0)
    u, s, vt = np.linalg.svd(b.T @ a)
    sign = np.diag([1, 1, np.sign(np.linalg.det(u @ vt))])
    scale = (s * np.diag(sign)).sum() / (a**2).sum()
    return float(np.linalg.norm(scale * a @ (u @ sign @ vt).T - b, axis=1).max())


def test_pictures_without_a_common_scene_are_refused_and_nothing_is_left(tmp_path):
    needs_pycolmap()
    (tmp_path / "flat").mkdir()
    for k in range(3):
        flat = np.full((180, 240, 3), 40 * k, np.uint8)
        (tmp_path / "flat" / f"{k}.png").write_bytes(encoded("png", "rgb24", flat, "rgb24"))
    with pytest.raises(SplatError, match="0 of 3 pictures could be registered.*overlap by two thirds"):
        structure_from_motion(tmp_path / "flat", tmp_path / "out", threads=1)
    assert [path.name for path in tmp_path.iterdir()] == ["flat"]


@pytest.mark.parametrize(
    ("incremental", "everything", "mapper"),
    [(6, None, "incremental"), (3, 5, "global"), (4, 4, "incremental"), (3, "crash", "incremental")],
)
def test_the_mapper_that_registers_more_stays(tmp_path, monkeypatch, incremental, everything, mapper):
    write_room(tmp_path / "room", 6)
    steps: list[str] = []

    def child(command: list[str], tell: object) -> dict[str, object]:
        job = json.loads(Path(command[-1]).read_text())
        mapper = job["steps"][-1]
        steps.extend(job["steps"])
        registered = {"incremental": incremental, "global": everything}[mapper]
        if registered == "crash":
            raise SplatError("COLMAP's process ended with SIGABRT.")
        Path(job["model"]).mkdir()
        points = 100 if mapper == "incremental" else 90
        return {"registered": registered, "points": points, "error_px": 0.5, "focal_px": [220.0]}

    monkeypatch.setattr(sfm, "run_child", child)
    monkeypatch.setattr(sfm, "find_spec", lambda name: True)
    made = structure_from_motion(tmp_path / "room", tmp_path / "out")
    report = json.loads((made / "sfm.json").read_text())
    assert report["mapper"] == mapper
    assert ("global" in steps) == (everything is not None)
    assert any("global mapping failed" in note for note in report["notes"]) == (everything == "crash")
    lost = 6 - report["registered"]
    assert any(f"{lost} of 6 pictures could not be registered" in note for note in report["notes"]) == bool(lost)


def test_one_camera_is_shared_where_sizes_agree_and_many_pictures_are_matched_in_order(tmp_path, monkeypatch):
    jobs = []

    def child(command: list[str], tell: object) -> dict[str, object]:
        jobs.append(json.loads(Path(command[-1]).read_text()))
        Path(jobs[-1]["model"]).mkdir()
        return {"registered": 99, "points": 1, "error_px": 0.5, "focal_px": []}

    monkeypatch.setattr(sfm, "run_child", child)
    monkeypatch.setattr(sfm, "find_spec", lambda name: True)
    small, large = (encoded("png", "rgb24", np.zeros((8, w, 3), np.uint8), "rgb24") for w in (8, 16))
    for name, count, one in (("same", 3, False), ("mixed", 3, True), ("many", 81, False)):
        (tmp_path / name).mkdir()
        for k in range(count):
            (tmp_path / name / f"{k:03d}.png").write_bytes(large if one and k == 0 else small)
        structure_from_motion(tmp_path / name, tmp_path / f"{name}_out")
    assert [job["one_camera"] for job in jobs] == [True, False, True]
    assert [job["sequential"] for job in jobs] == [False, False, True]


def test_without_pycolmap_the_error_says_how_to_get_it(tmp_path, monkeypatch):
    write_room(tmp_path / "room", 3)
    monkeypatch.setitem(sys.modules, "pycolmap", None)
    with pytest.raises(MissingExtra, match=r"pip install twinproof\[sfm\]"):
        structure_from_motion(tmp_path / "room", tmp_path / "out")


def test_too_few_pictures_and_a_folder_that_is_full_are_refused(tmp_path):
    with pytest.raises(SplatError, match="holds 0 pictures"):
        structure_from_motion(tmp_path / "nowhere", tmp_path / "out")
    write_room(tmp_path / "room" / "images", 2)
    with pytest.raises(SplatError, match="images holds 2 pictures.*needs 3 at least"):
        structure_from_motion(tmp_path / "room", tmp_path / "out")


def test_a_folder_that_is_not_empty_is_not_overwritten(tmp_path, monkeypatch):
    write_room(tmp_path / "room", 3)
    monkeypatch.setattr(sfm, "find_spec", lambda name: True)
    with pytest.raises(StoreError, match="Nothing is overwritten"):
        structure_from_motion(tmp_path / "room", tmp_path / "room")


def test_an_abort_in_the_child_is_an_error_and_not_our_end():
    code = 'print(\'{"doing": "matching", "done": 0}\', flush=True); import os, sys; '
    code += "sys.stderr.write('requires ONNX support'); sys.stderr.flush(); os.abort()"
    with pytest.raises(SplatError, match="matching: COLMAP's process ended with SIGABRT. .*requires ONNX support"):
        run_child([sys.executable, "-c", code], lambda done, doing: None)
    with pytest.raises(SplatError, match="ended with exit code 3. Its last words: none"):
        run_child([sys.executable, "-c", "raise SystemExit(3)"], lambda done, doing: None)


def test_the_child_tells_how_far_it_is():
    told: list[tuple[int, str]] = []
    code = 'print(\'{"doing": "matching", "done": 4}\'); print(\'{"registered": 5}\')'
    assert run_child([sys.executable, "-c", code], lambda *words: told.append(words)) == {"registered": 5}
    assert told == [(4, "matching")]


def test_a_caller_that_stops_ends_the_child():
    def stop(done: int, doing: str) -> None:
        raise KeyboardInterrupt

    code = 'import time; print(\'{"doing": "matching", "done": 1}\', flush=True); time.sleep(600)'
    with pytest.raises(KeyboardInterrupt):
        run_child([sys.executable, "-c", code], stop)
