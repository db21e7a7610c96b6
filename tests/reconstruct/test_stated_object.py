"""An object of a stated scene that pictures show: it takes the stated body's place and keeps its frame."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.reconstruct.test_assemble import Part, box, room
from tests.reconstruct.test_stated import STATED
from twinproof.nouns.errors import TwinError
from twinproof.nouns.source import Declared, Inferred
from twinproof.nouns.splat_files import read_ply
from twinproof.nouns.theta import Theta
from twinproof.nouns.twin import Twin
from twinproof.reconstruct.object_block import FoundObject
from twinproof.reconstruct.stated import in_scene
from twinproof.reconstruct.stated_object import laid_onto
from twinproof.reconstruct.surface import bind
from twinproof.sim.instantiate import instantiate
from twinproof.sim.scene import Scene
from twinproof.sim.world import World

GEOM = '<geom name="cube" type="box" size=".02 .03 .02" friction="0.7 0.005 0.0001" solref="0.008 1" priority="1"/>'
ROOM = STATED.replace(
    '<body name="cube" pos="0.3 0 0.02"><freejoint/><geom type="box" size=".02 .02 .02"/></body>',
    f'<body name="cube" pos="0.3 0 0.02"><freejoint/>{GEOM}</body><body name="post"><geom size=".01"/></body>',
).replace("<worldbody>", '<worldbody><geom name="table" type="plane" size="1 1 .1"/>', 1)
YAW = 0.4


def seen(half: tuple[float, float, float] = (0.021, 0.032, 0.022), name: str = "cube") -> FoundObject:
    """A box a little larger than the stated one, turned where it stood; its frame has the world's axes."""
    turn = np.eye(4)
    turn[:2, :2] = [[np.cos(YAW), -np.sin(YAW)], [np.sin(YAW), np.cos(YAW)]]
    mesh, place = box(*half).moved(turn), np.eye(4)
    place[:3, 3] = (-0.1, 0.05, half[2])
    splats = bind(mesh, 1, name).splats()
    return FoundObject(
        name, mesh, splats, place, {"front/0": 0.9}, ("seen",), (), episode="e2", pictures={"front": (3,)}
    )


def made(folder, *things: FoundObject, scene: str = ROOM) -> Twin:
    (folder / "scene").mkdir()
    found = in_scene(Scene(scene), "room.xml", room(folder), Part(), folder / "scene", things)
    found.save(folder / "saved")
    return Twin.load(folder / "saved")


@pytest.fixture(scope="module")
def twin(tmp_path_factory) -> Twin:
    return made(tmp_path_factory.mktemp("taken"), seen())


def test_shape_looks_and_mass_are_found_and_the_rest_of_the_scene_is_declared(twin: Twin) -> None:
    cube = twin.body("cube")
    assert isinstance(cube.source, Inferred)
    assert isinstance(twin.body("post").source, Declared)
    assert cube.visual == "meshes/cube.obj"
    assert len(cube.collision) == 1
    assert cube.mass_kg == pytest.approx(600 * 8 * 0.021 * 0.032 * 0.022, rel=1e-3)
    first, count = cube.splats
    means = read_ply(twin.path("splats.ply")).means[first : first + count]
    assert np.allclose(means.mean(axis=0), [0.3, 0.0, 0.022], atol=2e-3)  # where the scene has it, on its support
    assert np.ptp(means[:, 1]) == pytest.approx(0.064, abs=2e-3)  # unturned, as the stated one is
    assert any("found and stated shape are" in note for note in twin.notes)


def test_the_audits_say_how_far_found_and_stated_are_apart(twin: Twin) -> None:
    against = twin.audits["against_stated"]["cube"]
    assert 0.0005 < against["chamfer_m"] < 0.003
    assert against["volume_ratio"] == pytest.approx(21 * 32 * 22 / (20 * 30 * 20), rel=1e-3)
    assert against["raised_m"] == pytest.approx(0.002, abs=1e-4)
    assert twin.audits["visual_against_collision"]["cube"]["volume_ratio"] == pytest.approx(1.0, abs=0.05)
    assert twin.audits["pictures_used"]["objects"] == {"cube": {"front": {"e2": (3,)}}}


def test_parameters_know_it_by_the_stated_names_and_its_touch_is_the_stated(twin: Twin) -> None:
    model = instantiate(Scene.of(twin), Theta({"geom.cube.friction_slide": 0.4, "body.cube.mass": 0.1}))
    assert model.geom("cube").friction[0] == 0.4
    assert model.body("cube").mass[0] == pytest.approx(0.1)
    nominal = Scene.of(twin).nominal()
    assert nominal.geom("cube").friction[0] == 0.7
    assert nominal.geom("cube").solref[0] == 0.008
    assert nominal.body("cube").jntnum[0] == 1


def test_it_rests_where_it_stands(twin: Twin) -> None:
    world = World(Scene.of(twin).nominal())
    before = world.body_pose("cube")
    world.step(300)
    assert np.allclose(world.body_pose("cube"), before, atol=2e-3)


def test_files_lie_where_the_scenes_folders_of_meshes_and_textures_are(tmp_path) -> None:
    uv = np.zeros((len(seen().mesh.faces), 3, 2))
    painted = replace(seen(), uv=uv, texture=np.full((8, 8, 3), 90, np.uint8))
    scene = ROOM.replace("<compiler ", '<compiler meshdir="shapes" texturedir="paint" ', 1)
    twin = made(tmp_path, painted, scene=scene)
    assert {"shapes/cube.obj", "shapes/cube_part_0.stl", "paint/cube.png"} <= set(twin.files)
    assert Scene.of(twin).nominal().ntex == Scene(ROOM).nominal().ntex + 1


@pytest.mark.parametrize(
    ("thing", "told"),
    [
        (seen(name="mug"), "no free body 'mug' without bodies inside it: it has cube"),
        (seen(name="post"), "no free body 'post'"),
        (seen((0.2, 0.2, 0.2)), "this is another thing"),
    ],
)
def test_what_is_no_object_of_the_scene_is_refused(tmp_path, thing: FoundObject, told: str) -> None:
    with pytest.raises(TwinError, match=told):
        made(tmp_path, thing)


def test_a_stated_shape_is_laid_onto_a_turned_one_that_is_a_little_larger() -> None:
    found = seen()
    T = laid_onto(found.mesh.moved(found.T_world_object), box(0.02, 0.03, 0.02))
    turn = float(np.arctan2(T[1, 0], T[0, 0])) % np.pi  # a box looks the same after half a turn
    assert turn == pytest.approx(YAW, abs=0.02)
    assert np.allclose(T[:3, 3], [-0.1, 0.05, 0.022], atol=1e-3)
