"""Twins from parts of twins: bodies come with looks, meshes and sources; what interpenetrates is refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.nouns.examples import write_stl
from tests.sim.shapes import looking
from twinproof.nouns.errors import TwinError
from twinproof.nouns.randomness import stream
from twinproof.nouns.rig import Mount
from twinproof.nouns.source import Declared, Measured
from twinproof.nouns.splat_files import read_ply, write_ply
from twinproof.nouns.splats import Splats
from twinproof.nouns.theta import Theta
from twinproof.nouns.twin import Alignment, Body, CollisionPart, Twin
from twinproof.reconstruct.background_fill import MADE_UP, WHY
from twinproof.reconstruct.compose import Add, Move, Remove, Replace, compose
from twinproof.reconstruct.compose_scene import EditedScene
from twinproof.sim.render_camera import Camera, Lens
from twinproof.sim.scene import Scene
from twinproof.sim.splat.placed import as_volumes, placed
from twinproof.sim.splat.render import render

SCENE = """<mujoco model="{name}">
 <compiler meshdir="meshes"/>
 <default><geom friction="{friction} 0.005 0.0001"/><default class="soft"><geom solref="0.05 1"/></default></default>
 <asset><mesh name="cube" file="cube.stl"/><texture name="plain" type="2d" builtin="flat" width="4" height="4"/>
 <material name="paint" texture="plain"/></asset>
 <worldbody>
  <geom name="table" type="plane" size="1 1 .1"/>
  <body name="cube" pos="0.3 0 0.0"><freejoint name="cube_free"/>
   <geom name="cube_geom" type="mesh" mesh="cube" material="paint" class="soft"/><site name="top" pos="0 0 .1"/></body>
  <body name="cup" pos="-0.3 0 0.05"><freejoint/><geom type="box" size=".05 .05 .05"/></body>
 </worldbody>
 <sensor><framepos name="where" objtype="site" objname="top"/></sensor>
 <keyframe><key qpos="0 0 1 1 0 0 0 0 1 1 1 0 0 0"/></keyframe>
</mujoco>
"""


def looks(count: int, at, seed: int, flat: bool = False) -> Splats:
    rng = stream(seed, "looks")
    return Splats(
        rng.normal(0, 0.02, (count, 3)) + at, rng.normal(size=(count, 4)), np.full((count, 3), np.log(0.01)),
        np.full(count, 2.0), rng.normal(0, 0.3, (count, 4, 3)), np.zeros(count, int), flat=flat,
    )  # fmt: skip


def joined_looks(*parts: Splats) -> Splats:
    from twinproof.nouns.splats import joined

    return joined(parts)


def small_twin(root: Path, name: str = "one", side_m: float = 0.1, flat: bool = False, friction: float = 1.0) -> Twin:
    """A cube and a cup on a table: 5 splats of the room, 8 of the cube, 3 of nobody, 4 of the cup."""
    root.mkdir(parents=True)
    (root / "scene.xml").write_text(SCENE.format(name=name, friction=friction))
    write_stl(root / "meshes/cube.stl", side_m=side_m)
    runs = (looks(5, (0, 0, 1), 1, flat), looks(8, (0.3, 0, 0.05), 2, flat), looks(3, (0, 1, 0), 3, flat))
    write_ply(root / "splats.ply", joined_looks(*runs, looks(4, (-0.3, 0, 0.05), 4, flat)))
    cube = Body(
        "cube", Measured(f"scan of {name}"), visual="meshes/cube.stl",
        collision=(CollisionPart("meshes/cube.stl", side_m**3),), splats=(5, 8),
    )  # fmt: skip
    cup = Body("cup", Declared("a box for a cup"), lacks={"mesh": "a box"}, splats=(16, 4))
    room = Body("room", Declared("swept"), "background", splats=(0, 5), lacks={"mesh": "only looks"})
    return Twin(
        root, (cube, cup, room), Alignment(Measured("tag")), "mujoco 3.17.0", ("e1",), {"split": "5" * 64},
        start=Theta({"body.cube.mass": 0.2, "body.cup.mass": 0.1}), audits={"gap": {"p95_m": 0.001}},
    )  # fmt: skip


def of_body(twin: Twin, name: str) -> Splats:
    first, count = twin.body(name).splats
    return read_ply(twin.path("splats.ply")).take(np.arange(first, first + count))


def test_a_removed_body_leaves_with_its_looks_sensors_and_parameters(tmp_path) -> None:
    base = small_twin(tmp_path / "one")
    twin = compose(base, [Remove("cube")], tmp_path / "new")
    assert [body.name for body in twin.bodies] == ["cup", "room"]
    model = Scene.of(twin).nominal()
    assert (model.nbody, model.nsensor, model.nkey) == (2, 0, 0)
    assert len(read_ply(twin.path("splats.ply"))) == 12  # those of nobody stay
    assert of_body(twin, "cup").means == pytest.approx(of_body(base, "cup").means)
    assert dict(twin.start) == {"body.cup.mass": 0.1}
    assert twin.parents["twin"] == base.hash
    assert any("sensor 'where' went" in note for note in twin.notes)
    assert any("keyframes were removed" in note for note in twin.notes)
    assert base.body("cube").splats == (5, 8)
    twin.save(tmp_path / "saved")
    assert Twin.load(tmp_path / "saved").hash == twin.hash


def tiled(but) -> Splats:
    """A grey table of discs 5 mm apart around (0.3, 0), without those that are left out."""
    x, y = (np.arange(-0.15, 0.151, 0.005) for _ in range(2))
    places = np.stack([*np.meshgrid(0.3 + x, y), np.zeros((len(y), len(x)))], axis=-1).reshape(-1, 3)
    places = places[~but(places)]
    n = len(places)
    return Splats(
        places, np.tile([1.0, 0, 0, 0], (n, 1)), np.full((n, 3), np.log(0.004)), np.full(n, 4.0),
        np.full((n, 4, 3), 0.0), np.zeros(n, int),
    )  # fmt: skip


def with_table(twin: Twin, table: Splats) -> Twin:
    """The same twin with a background of such splats, after all others."""
    whole = read_ply(twin.path("splats.ply"))
    write_ply(twin.root / "splats.ply", joined_looks(whole, table))
    behind = Body("behind", Measured("a scan"), "background", splats=(len(whole), len(table)), lacks={"mesh": "looks"})
    return Twin(twin.root, (*twin.bodies, behind), twin.alignment, twin.engine, twin.episodes, twin.parents)


@pytest.mark.parametrize("edit", [Remove("cube"), Move("cube", (0.0, 0.5, 0.0))])
def test_what_is_taken_away_leaves_no_hole_in_the_background(tmp_path, edit) -> None:
    under = lambda p: (np.abs(p[:, 0] - 0.3) < 0.03) & (np.abs(p[:, 1]) < 0.03)  # noqa: E731
    base = with_table(small_twin(tmp_path / "one"), tiled(under))
    twin = compose(base, [edit], tmp_path / "new")
    assert twin.body(MADE_UP).source == Declared(WHY)
    assert twin.body(MADE_UP).layer == "background"
    camera = Camera(Lens(48, 48, 160, 160, 23.5, 23.5), looking((0.3, -0.2, 0.4), (0.3, 0.0, 0.0)))
    before, after = (render(_only_table(each), camera, what=("alpha", "colour")) for each in (base, twin))
    assert before.alpha.min() < 0.2
    assert after.alpha.min() > 0.8
    assert np.abs(after.colour[24, 24] / after.alpha[24, 24] - 0.5).max() < 0.05  # grey as the table around
    assert any("behind cube: nobody saw the table there" in note for note in twin.notes)
    twin.save(tmp_path / "saved")
    assert Twin.load(tmp_path / "saved").body(MADE_UP).splats == twin.body(MADE_UP).splats


def _only_table(twin: Twin) -> Splats:
    names = [body.name for body in twin.bodies if body.layer == "background" and body.name != "room"]
    return joined_looks(*(of_body(twin, name) for name in names))


def test_a_background_without_holes_stays_as_it_is_and_one_that_is_not_there_is_named(tmp_path) -> None:
    whole = with_table(small_twin(tmp_path / "one"), tiled(lambda p: p[:, 0] > 9))
    twin = compose(whole, [Remove("cube")], tmp_path / "new")
    assert MADE_UP not in [body.name for body in twin.bodies]
    bare = compose(whole, [Remove("cup")], tmp_path / "bare")  # it stood where no table was ever seen
    assert any("behind cup: the background shows no table around it" in note for note in bare.notes)


def test_a_moved_body_takes_its_looks_along(tmp_path) -> None:
    base = small_twin(tmp_path / "one")
    quat = (np.cos(0.4), 0.0, 0.0, np.sin(0.4))
    twin = compose(base, [Move("cube", (0.5, 0.2, 0.0), quat)], tmp_path / "new")
    T = Mount(position_m=(0.5, 0.2, 0.0), quat_wxyz=quat).T_parent_camera
    local = of_body(base, "cube").means - [0.3, 0, 0]
    assert of_body(twin, "cube").means == pytest.approx(local @ T[:3, :3].T + T[:3, 3], abs=1e-6)
    assert Scene.of(twin).nominal().body("cube").pos == pytest.approx([0.5, 0.2, 0.0])
    assert twin.body("cube").source == base.body("cube").source
    assert twin.audits["composed"][0]["moved"] == "cube"
    assert twin.audits["base"]["gap"]["p95_m"] == 0.001


def test_a_body_of_another_twin_comes_with_mesh_material_defaults_and_source(tmp_path) -> None:
    base, other = small_twin(tmp_path / "one"), small_twin(tmp_path / "two", "two", side_m=0.05, friction=0.3)
    twin = compose(base, [Add(other, "cube", "dice", (0.0, 0.3, 0.0))], tmp_path / "new")
    model = Scene.of(twin).nominal()
    assert model.body("dice").pos == pytest.approx([0, 0.3, 0])
    geoms = [model.geom(k) for k in range(model.ngeom)]
    dice = next(geom for geom in geoms if model.body(int(geom.bodyid[0])).name == "dice")
    cube = model.geom("cube_geom")
    assert dice.friction[0] == pytest.approx(0.3)
    assert cube.friction[0] == pytest.approx(1.0)
    assert dice.solref[0] == pytest.approx(0.05)
    assert dice.rbound[0] < cube.rbound[0]
    assert twin.body("dice").source == other.body("cube").source
    assert twin.body("dice").collision[0].volume_m3 == pytest.approx(0.05**3)
    assert twin.parents["twin.dice"] == other.hash
    assert twin.start["body.dice.mass"] == 0.2
    assert of_body(twin, "dice").means == pytest.approx(np.add(of_body(other, "cube").means, (-0.3, 0.3, 0)), abs=1e-6)
    assert any("sensor of body 'cube' was not brought" in note for note in twin.notes)


def test_a_replaced_body_stands_where_the_old_one_stood_and_backgrounds_can_be_swapped(tmp_path) -> None:
    base, other = small_twin(tmp_path / "one"), small_twin(tmp_path / "two", "two", side_m=0.05)
    edits = [Move("cube", (0.4, 0, 0)), Replace("cube", other, "cube"), Replace("room", other, "room")]
    twin = compose(base, edits, tmp_path / "new")
    assert Scene.of(twin).nominal().body("cube").pos == pytest.approx([0.4, 0, 0])
    assert twin.body("cube").source == Measured("scan of two")
    assert len(of_body(twin, "room")) == 5


def test_surfels_and_volumes_may_stand_side_by_side(tmp_path) -> None:
    base, other = small_twin(tmp_path / "one"), small_twin(tmp_path / "two", "two", flat=True)
    twin = compose(base, [Add(other, "cup", "cup_2", (0, 0.3, 0.05))], tmp_path / "new")
    assert any("flat volumes" in note for note in twin.notes)
    assert of_body(twin, "cup_2").log_scales[:, 2] == pytest.approx(np.log(1e-6))
    assert as_volumes(looks(2, (0, 0, 0), 1)).flat is False


def test_what_interpenetrates_is_refused(tmp_path) -> None:
    base = small_twin(tmp_path / "one")
    with pytest.raises(TwinError, match="'cube' and 'cup' are .* mm inside each other"):
        compose(base, [Move("cup", (0.35, 0.05, 0.05))], tmp_path / "new")


def test_turned_splats_look_the_same_to_a_turned_camera() -> None:
    splats = looks(60, (0, 0, 0), 7)
    T = Mount(position_m=(0.2, -0.1, 0.3), quat_wxyz=(0.5, 0.3, -0.7, 0.2)).T_parent_camera
    pose = np.eye(4)
    pose[2, 3] = -0.3
    lens = Lens(40, 32, 50, 50, 19.5, 15.5)
    before, after = render(splats, Camera(lens, pose)), render(placed(splats, T), Camera(lens, T @ pose))
    assert np.abs(before.colour - after.colour).max() < 2e-3
    assert before.colour.max() > 0.2


def test_nonsense_is_refused(tmp_path) -> None:
    base, other = small_twin(tmp_path / "one"), small_twin(tmp_path / "two", "two")

    def fails(edits, said, number=[0]) -> None:  # noqa: B006
        number[0] += 1
        with pytest.raises(TwinError, match=said):
            compose(base, edits, tmp_path / f"new_{number[0]}")

    fails([], "nothing is to be changed")
    fails([Remove("bowl")], "no body 'bowl'")
    fails([Add(other, "cube", "cup")], "a body 'cup' already")
    fails([Move("cube", (0, 0, 0), (0, 0, 0, 0))], "turns nothing")
    fails([Add(other, "bowl", "bowl")], "no body 'bowl'")


def test_a_scene_says_which_bodies_it_has(tmp_path) -> None:
    base = small_twin(tmp_path / "one")
    scene = EditedScene(base.root)
    with pytest.raises(TwinError, match="has no body 'bowl'; it has cube, cup"):
        scene.remove("bowl")
    with pytest.raises(TwinError, match="has a body 'cup' already"):
        scene.add(base.root, "cube", "cup", np.zeros(3), np.array([1, 0, 0, 0]))


def test_scenes_that_count_angles_otherwise_are_refused(tmp_path) -> None:
    base, other = small_twin(tmp_path / "one"), small_twin(tmp_path / "two", "two")
    text = (other.root / "scene.xml").read_text().replace('meshdir="meshes"', 'meshdir="meshes" angle="radian"')
    (other.root / "scene.xml").write_text(text)
    with pytest.raises(TwinError, match="numbers would change"):
        compose(base, [Add(other, "cube", "dice")], tmp_path / "new")


def test_only_bodies_that_stand_alone_are_moved_or_brought(tmp_path) -> None:
    base, other = small_twin(tmp_path / "one"), small_twin(tmp_path / "two", "two")
    for twin in (base, other):
        text = (twin.root / "scene.xml").read_text()
        nested = '<body name="lid" pos="0 0 .2"><geom type="box" size=".01 .01 .01"/></body></body>\n </worldbody>'
        (twin.root / "scene.xml").write_text(text.replace("</body>\n </worldbody>", nested))
    lid = Body("lid", Declared("a lid"), lacks={"mesh": "a box", "splats": "none"})
    base, other = (
        Twin(
            t.root, (*t.bodies, lid), t.alignment, t.engine, t.episodes, t.parents
        ) for t in (base, other)
    )  # fmt: skip
    with pytest.raises(TwinError, match="Only bodies that stand in the world"):
        compose(base, [Move("lid", (0, 0, 1.0))], tmp_path / "new")
    with pytest.raises(TwinError, match="has bodies inside it"):
        compose(base, [Add(other, "cup", "cup_2", (0, 0.5, 0.1))], tmp_path / "newer")
    twin = compose(base, [Remove("cup")], tmp_path / "newest")
    assert [body.name for body in twin.bodies] == ["cube", "room"]
