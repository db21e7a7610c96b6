"""Export, import, render: frames, scale and colours survive each format that carries looks."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from tests.export.probes import psnr, seen, write_probe
from twinproof.export.read_back import ReadBack, read_back
from twinproof.export.subject import Subject, subject_of
from twinproof.export.write import export
from twinproof.nouns.mesh import Mesh
from twinproof.nouns.mesh_glb import UP, to_display
from twinproof.nouns.twin import Twin
from twinproof.sim.painted import surfaces
from twinproof.sim.render_rays import Rays
from twinproof.sim.scene import Scene
from twinproof.sim.splat.render import render
from twinproof.sim.surface import Surface
from twinproof.sim.unlit import unlit

ALL = "mjcf,urdf,usdz,glb,ply,spz"


@pytest.fixture(scope="module")
def twin(tmp_path_factory) -> Twin:
    return write_probe(tmp_path_factory.mktemp("probe") / "twin")


@pytest.fixture(scope="module")
def out(twin, tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("out") / "exported"
    export(twin, [ALL], folder)
    return folder


@pytest.fixture(scope="module")
def subject(twin) -> Subject:
    return subject_of(twin)


@pytest.fixture(scope="module")
def from_usdz(out) -> ReadBack:
    return read_back(out / "twin.usdz")


@pytest.fixture(scope="module")
def photo(twin) -> np.ndarray:
    """What MuJoCo's rules show of the scene under even light; the wedge's colours are in no MJCF, so it is left out."""
    model = Scene.of(twin).compile()
    model.geom("wedge").group = 5
    data = np.array(model.qpos0)
    rgb = Rays(edge_samples=3).render(model, data, seen(), ("rgb",)).rgb
    assert rgb is not None
    return rgb / 255


def without_wedge(shown) -> list[Surface]:
    return [each for each in shown if each.name != "wedge"]


def test_the_original_looks_like_the_photo(subject, photo):
    picture = unlit(without_wedge(subject.standing()), seen(), behind=(0, 0, 0))
    assert psnr(picture, photo) > 27  # edges are smoothed in another way, and make the rest


@pytest.mark.parametrize("name", ["twin.glb", "twin.usdz", "mjcf/scene.xml"])
def test_meshes_come_back_within_a_decibel(subject, out, from_usdz, photo, name):
    before = psnr(unlit(without_wedge(subject.standing()), seen(), behind=(0, 0, 0)), photo)
    back = from_usdz if name.endswith("usdz") else read_back(out / name)
    after = psnr(unlit(without_wedge(back.surfaces), seen(), behind=(0, 0, 0)), photo)
    assert after > before - 0.2


@pytest.mark.parametrize("name", ["splats.ply", "splats.spz", "twin.usdz"])
def test_splats_come_back_within_a_decibel(subject, out, from_usdz, name):
    truth = unlit(subject.standing(), seen(), behind=(0, 0, 0))
    before = psnr(render(subject.splats, seen()).over(), truth)
    assert before > 18  # splats are soft at edges, and the wedge has none of its colours
    back = from_usdz if name.endswith("usdz") else read_back(out / name)
    after = psnr(render(back.splats, seen()).over(), truth)
    assert after > before - (1.0 if name.endswith("spz") else 0.1)


def test_a_wedge_keeps_the_colours_of_its_file(subject, out, from_usdz):
    mine = next(each for each in subject.standing() if each.name == "wedge")
    back = next(each for each in from_usdz.surfaces if each.name == "wedge")
    assert back.mesh.colours is not None
    order = [int(np.abs(mine.mesh.vertices - v).sum(axis=1).argmin()) for v in back.mesh.vertices]
    assert np.abs(back.mesh.colours - mine.mesh.colours[order]).max() < 1e-5


def test_a_glb_has_a_texture_for_everything_whose_colours_differ(subject, out):
    back = {each.name: each for each in read_back(out / "twin.glb").surfaces}
    assert back["wedge"].texture is not None
    assert back["wedge"].st is not None
    assert all(each.mesh.colours is None for each in back.values())
    mine = next(each for each in subject.standing() if each.name == "wedge")
    whole = unlit([mine], seen(), behind=(0, 0, 0))
    assert psnr(unlit([back["wedge"]], seen(), behind=(0, 0, 0)), whole) > 35


def test_another_reader_of_glb_sees_the_same(subject, out):
    import trimesh

    scene = trimesh.load(out / "twin.glb")
    placed = [scene.graph[node] for node in scene.graph.nodes_geometry]
    shown = [of_trimesh(scene.geometry[name], UP @ np.array(T)) for T, name in placed]
    truth = unlit(subject.standing(), seen(), behind=(0, 0, 0))
    assert psnr(unlit(shown, seen(), behind=(0, 0, 0)), truth) > 35


def test_a_urdf_shows_the_same_in_yourdfpy(subject, out):
    import yourdfpy

    robot = yourdfpy.URDF.load(str(out / "urdf" / "twin.urdf"))
    assert robot.validate()
    scene = robot.scene
    placed = [scene.graph[node] for node in scene.graph.nodes_geometry]
    shown = [of_trimesh(scene.geometry[name], np.array(T)) for T, name in placed]
    truth = unlit(subject.standing(), seen(), behind=(0, 0, 0))
    assert psnr(unlit(shown, seen(), behind=(0, 0, 0)), truth) > 35


def of_trimesh(mesh, T: np.ndarray) -> Surface:
    """What trimesh loaded, as a surface in the world."""
    visual, st, texture, rgba, colours = mesh.visual, None, None, (1.0, 1.0, 1.0, 1.0), None
    image = getattr(visual.material, "image", None) if visual.kind == "texture" else None
    image = getattr(visual.material, "baseColorTexture", None) if visual.kind == "texture" and image is None else image
    if image is not None:
        texture = np.array(image.convert("RGB"))
        uv = np.array(visual.uv)[mesh.faces]
        st = np.stack([uv[..., 0], 1 - uv[..., 1]], axis=-1)
    elif visual.kind == "vertex":
        colours = np.array(visual.vertex_colors)[:, :3] / 255
    elif visual.kind == "texture":  # a GLB's material: its factors are linear light
        r, g, b = to_display(np.array(visual.material.main_color)[:3] / 255).tolist()
        rgba = (r, g, b, 1.0)
    else:
        r, g, b = (np.array(visual.main_color)[:3] / 255).tolist()
        rgba = (r, g, b, 1.0)
    shape = Mesh(np.array(mesh.vertices), np.array(mesh.faces), colours).moved(T)
    return Surface("", "", shape, rgba, st, texture)


def test_the_scene_of_an_exported_mjcf_is_the_twins(twin, out):
    assert Scene.read(out / "mjcf" / "scene.xml").hash == Scene.of(twin).hash
    assert len(surfaces(Scene.of(twin))) == len(read_back(out / "mjcf" / "scene.xml").surfaces)


def test_splats_move_with_their_links_in_a_usdz(subject, from_usdz):
    T = subject.anatomy.named["probe"].T_world_link
    mine = subject.worn()["probe"].means @ T[:3, :3].T + T[:3, 3]
    assert np.abs(from_usdz.splats.of("probe").means - mine).max() < 1e-6


def test_the_code_in_the_docs_runs(out, monkeypatch):
    page = (Path(__file__).parents[2] / "docs" / "export.md").read_text(encoding="utf-8")
    code = re.findall(r"```python\n(.*?)```", page, re.DOTALL)[0]  # the others need what is not installed here
    monkeypatch.chdir(out.parent)
    exec(compile(code, "docs/export.md", "exec"), {})
