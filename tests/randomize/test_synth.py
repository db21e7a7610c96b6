"""Labelled pictures from a randomised twin: both layouts are read back and agree with each other and with geometry."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from tests.randomize.made import ROOM, made, posterior, room, twin_of
from twinproof import cli
from twinproof.nouns.errors import ConfigError, RandomizationError, StoreError, TwinError
from twinproof.nouns.randomization import Randomization
from twinproof.nouns.splat_files import write_ply
from twinproof.nouns.splats import SH0, Splats
from twinproof.nouns.twin import Body, Twin
from twinproof.randomize.extra import Extra
from twinproof.randomize.residual import Residuals, residual
from twinproof.randomize.synth import Asked, run
from twinproof.randomize.synth_layouts import box, mask_of, run_lengths, surface
from twinproof.randomize.synth_shot import Set
from twinproof.sim.link_splats import discs_on
from twinproof.sim.scene import Scene

STARTS = (
    Extra("body.box.start_x", "anywhere", 0.1, 0.3),
    Extra("body.box.start_y", "anywhere", -0.2, 0.1),
    Extra("body.box.start_yaw", "any way round", -3.0, 3.0),
    Extra("depth.noise", "stereo", 0.0, 0.002),
)


def ranges_of(twin: Twin, **more: object) -> Randomization:
    known = posterior(parents={"twin": twin.hash, "split": made().split.hash})
    return residual(known, how=Residuals(extra=STARTS, **more), twin=twin)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A twin, its ranges, and six pictures drawn from them."""
    folder = tmp_path_factory.mktemp("synth")
    twin = room(folder / "room")
    twin.save(folder / "twin")
    ranges_of(twin).save(folder / "ranges")
    with pytest.raises(SystemExit) as ended:
        cli.main(["synth", str(folder / "twin"), str(folder / "ranges"), "--count", "6", "--out", str(folder / "out")])
    assert ended.value.code == 0
    return folder


def read(path: Path) -> Any:
    return json.loads(path.read_text())


def picture(path: Path) -> np.ndarray:
    return np.array(Image.open(path))


def asked(folder: Path, out: Path, **more: object) -> Asked:
    fields = {"count": 2, "cameras": (), "width": None, "looks": "auto", "seed": 0, **more}
    return Asked(folder / "twin", folder / "ranges", out=out, **fields)  # type: ignore[arg-type]


def test_bop_tables_files_and_units_fit_each_other(folders: Path) -> None:
    scene = folders / "out" / "train" / "000000"
    cameras, poses, info = (read(scene / f"scene_{name}.json") for name in ("camera", "gt", "gt_info"))
    assert list(cameras) == list(poses) == list(info) == [str(k) for k in range(6)]
    seen = 0
    for k in range(6):
        name = f"{k:06d}"
        assert picture(scene / "rgb" / f"{name}.png").shape == (48, 64, 3)
        depth = picture(scene / "depth" / f"{name}.png")
        assert depth.dtype in (np.uint16, np.int32)
        whole, visible = (picture(scene / kind / f"{name}_000000.png") > 0 for kind in ("mask", "mask_visib"))
        told = info[str(k)][0]
        assert told["px_count_all"] == whole.sum()
        assert told["px_count_visib"] == visible.sum()
        assert (whole | ~visible).all()
        assert told["bbox_visib"] == box(visible)
        if visible.sum() > 20:
            seen += 1
            there = depth[visible & (depth > 0)] * cameras[str(k)]["depth_scale"]
            distance = poses[str(k)][0]["cam_t_m2c"][2]
            assert np.median(there) == pytest.approx(distance, abs=70)  # mm; the box is 100 mm across
    assert seen >= 4


def test_poses_project_the_model_onto_its_mask(folders: Path) -> None:
    scene, models = folders / "out" / "train" / "000000", folders / "out" / "models"
    about = read(models / "models_info.json")["1"]
    assert about["size_x"] == pytest.approx(100)
    assert about["diameter"] == pytest.approx(np.sqrt(100**2 + 80**2 + 100**2), rel=1e-3)
    lines = (models / "obj_000001.ply").read_text().splitlines()
    count = int(next(line for line in lines if line.startswith("element vertex")).split()[-1])
    begin = lines.index("end_header") + 1
    points = np.array([[float(v) for v in line.split()] for line in lines[begin : begin + count]])
    for k, (pose,) in read(scene / "scene_gt.json").items():
        K = np.array(read(scene / "scene_camera.json")[k]["cam_K"]).reshape(3, 3)
        at = points @ np.array(pose["cam_R_m2c"]).reshape(3, 3).T + pose["cam_t_m2c"]
        pixels = at @ K.T
        pixels = pixels[:, :2] / pixels[:, 2:]
        mask = picture(scene / "mask" / f"{int(k):06d}_000000.png") > 0
        if not mask.any() or (at[:, 2] <= 0).any() or pixels.min() < 1 or (pixels.max(axis=0) > [62, 46]).any():
            continue
        left, top, width, height = box(mask)
        np.testing.assert_allclose(pixels.min(axis=0), [left - 0.5, top - 0.5], atol=1.01)
        np.testing.assert_allclose(pixels.max(axis=0), [left + width - 0.5, top + height - 0.5], atol=1.01)


def test_coco_instances_are_the_visible_masks(folders: Path) -> None:
    table = read(folders / "out" / "instances.json")
    assert table["categories"] == [{"id": 1, "name": "box"}]
    assert [image["id"] for image in table["images"]] == list(range(6))
    assert len({each["id"] for each in table["annotations"]}) == len(table["annotations"]) >= 4
    for each in table["annotations"]:
        image = table["images"][each["image_id"]]
        mask = mask_of(each["segmentation"]["size"], each["segmentation"]["counts"])
        assert mask.shape == (image["height"], image["width"])
        assert each["bbox"] == box(mask)
        assert each["area"] == mask.sum()
        path = folders / "out" / image["file_name"]
        seen = picture(path.parents[1] / "mask_visib" / f"{path.stem}_000000.png") > 0
        np.testing.assert_array_equal(mask, seen)
        assert len(each["cam_R_m2c"]) == 9


def test_every_picture_keeps_its_draw(folders: Path) -> None:
    told = read(folders / "out" / "synth.json")
    assert told["cameras"] == ["front", "side"]
    assert told["looks"] == "meshes"
    assert [each["camera"] for each in told["pictures"]] == ["front", "side"] * 3
    lights = {each["theta"]["light.lamp.diffuse"] for each in told["pictures"]}
    assert len(lights) == 6


def test_run_lengths_are_cocos() -> None:
    mask = np.array([[0, 1, 1], [0, 1, 0]], dtype=bool)
    assert run_lengths(mask) == [2, 3, 1]  # column by column: 0 0 | 1 1 | 1 0
    assert run_lengths(~mask) == [0, 2, 3, 1]
    for some in (mask, ~mask, np.zeros((2, 3), bool), np.ones((2, 3), bool)):
        np.testing.assert_array_equal(mask_of(some.shape, run_lengths(some)), some)
    assert box(np.zeros((2, 2), bool)) == [-1, -1, -1, -1]


def test_a_killed_run_goes_on_and_ends_with_the_same_bytes(folders: Path, tmp_path: Path) -> None:
    def stop(done: int, name: str, total: int | None = None) -> None:
        if done == 2:
            raise KeyboardInterrupt

    out = tmp_path / "again"
    with pytest.raises(KeyboardInterrupt):
        run(asked(folders, out, count=6), stop)
    assert not out.exists()
    assert len(list((tmp_path / ".again.synth" / "records").iterdir())) == 2
    began: list[int] = []
    run(asked(folders, out, count=6), lambda done, name, total=None: began.append(done))
    first = {path.relative_to(folders / "out"): path.read_bytes() for path in (folders / "out").rglob("*.png")}
    again = {path.relative_to(out): path.read_bytes() for path in out.rglob("*.png")}
    assert first == again
    assert read(out / "instances.json") == read(folders / "out" / "instances.json")
    assert not (tmp_path / ".again.synth").exists()


def test_what_was_left_by_other_settings_is_not_mixed_in(folders: Path, tmp_path: Path) -> None:
    def stop(done: int, name: str, total: int | None = None) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(asked(folders, tmp_path / "out"), stop)
    with pytest.raises(ConfigError, match="is left from a run with other settings"):
        run(asked(folders, tmp_path / "out", seed=1))


def test_cameras_and_their_size_can_be_chosen(folders: Path, tmp_path: Path) -> None:
    told = run(asked(folders, tmp_path / "out", cameras=("side",), width=32))
    assert told["cameras"] == ["side"]
    assert picture(tmp_path / "out" / "train" / "000000" / "rgb" / "000001.png").shape == (24, 32, 3)
    K = read(tmp_path / "out" / "train" / "000000" / "scene_camera.json")["0"]["cam_K"]
    assert K[0] == pytest.approx(30, rel=0.03)


# ---- splats


def splat_twin(folder: Path) -> Twin:
    """The room with the box as red surfels and a grey wall behind."""
    scene = Scene(ROOM)
    model: Any = scene.nominal()
    triangles = surface(model, "box")
    means, quats, scales, _ = discs_on(triangles)
    wall = np.stack(np.meshgrid(np.linspace(-1, 1, 25), [0.6], np.linspace(0, 1.4, 18)), axis=-1).reshape(-1, 3)
    turn = np.tile([np.sqrt(0.5), np.sqrt(0.5), 0, 0], (len(wall), 1))
    where = np.concatenate([means + np.array(model.body("box").pos), wall])
    size = np.concatenate([scales, np.full((len(wall), 3), 0.06)])
    colour = np.concatenate([np.tile([0.8, 0.1, 0.1], (len(means), 1)), np.full((len(wall), 3), 0.6)])
    folder.mkdir(parents=True)
    splats = Splats(
        where, np.concatenate([quats, turn]), np.log(size), np.full(len(where), 5.0), ((colour - 0.5) / SH0)[:, None],
        np.zeros(len(where), int), ("all",), flat=True,
    )  # fmt: skip
    write_ply(folder / "splats.ply", splats)
    first = room(folder)
    bodies = [body for body in first.bodies if body.name != "box"]
    source = first.body("box").source
    bodies.append(Body("box", source, lacks={"mesh": "geoms of the scene"}, splats=(0, len(means))))
    bodies.append(Body("wall", source, "background", lacks={"mesh": "no"}, splats=(len(means), len(wall))))
    return replace(first, bodies=tuple(bodies))


def test_splats_move_with_their_bodies_and_agree_with_the_meshes(tmp_path: Path) -> None:
    twin = splat_twin(tmp_path / "room")
    known = ranges_of(twin, looks=False)
    splats, meshes = (Set(twin, known, ("front",), 192, looks, 3) for looks in ("splats", "meshes"))
    for number in range(3):
        soft, hard = splats.shot(number), meshes.shot(number)
        (one,), (other,) = soft.objects, hard.objects
        np.testing.assert_allclose(one.T_camera_object, other.T_camera_object)
        assert other.visible.sum() > 200
        agree = (one.visible & other.visible).sum() / (one.visible | other.visible).sum()
        assert agree > 0.8
        inside = one.visible & other.visible
        assert np.median(np.abs(soft.depth_m[inside] - hard.depth_m[inside])) < 0.01
        red = soft.rgb[one.visible].mean(axis=0)
        assert red[0] > 2 * red[2]


# ---- bad input


def test_a_twin_without_cameras_objects_or_splats_is_refused(tmp_path: Path) -> None:
    known = ranges_of(room(tmp_path / "room"))
    bare = twin_of(tmp_path / "bare", made().twin.path().read_text())
    with pytest.raises(TwinError, match="the twin's scene has no camera, so nothing can be photographed"):
        Set(bare, known, ())
    with pytest.raises(TwinError, match="has no camera 'back'; it has front, side"):
        Set(room(tmp_path / "room"), known, ("back",))
    with pytest.raises(TwinError, match="the twin has no splats. Draw its meshes"):
        Set(room(tmp_path / "room"), known, ("front",), looks="splats")
    seen = room(tmp_path / "room")
    still = replace(seen, bodies=tuple(replace(body, layer="robot") for body in seen.bodies))
    with pytest.raises(TwinError, match="no body of the layer 'object', so there is nothing to label"):
        Set(still, known, ("front",))
    with pytest.raises(TwinError, match="the object 'world' has no geom that is drawn"):
        surface(Scene(made().twin.path().read_text()).nominal(), "world")


def test_settings_that_cannot_be_are_refused(folders: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="0 pictures of width None were asked for"):
        run(asked(folders, tmp_path / "out", count=0))
    with pytest.raises(StoreError, match="exists. Nothing is overwritten"):
        run(asked(folders, folders / "out"))
    other = replace(Randomization.load(folders / "ranges"), parents={"twin": "e" * 64})
    (tmp_path / "other").mkdir()
    other.save(tmp_path / "other" / "ranges")
    room(tmp_path / "scene").save(tmp_path / "other" / "twin")
    with pytest.raises(RandomizationError, match="the randomization belongs to the twin eeeeeeeeeeeeeeee"):
        run(asked(tmp_path / "other", tmp_path / "out"))
