"""Pictures for the report: bodies are drawn where the joints and the cameras say, before and after calibration."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from tests.generator import practice_episode, practice_rig
from tests.nouns.examples import write_obj
from twinproof.evidence.pictures import AT_SHARE, illustrated, pictures_of
from twinproof.nouns.mesh import Mesh
from twinproof.nouns.mesh_files import read_mesh, write_mesh
from twinproof.nouns.parts import Calibration
from twinproof.nouns.randomness import stream
from twinproof.nouns.recording import Recording
from twinproof.nouns.rig import Intrinsics, Mount
from twinproof.nouns.source import Declared
from twinproof.nouns.splat_files import write_ply
from twinproof.nouns.splats import SH0, Splats
from twinproof.nouns.theta import Theta
from twinproof.nouns.twin import Alignment, Body, Twin, TwinCamera

SIZE = (160, 120)
SCENE = """<mujoco>
 <asset><mesh name="block" file="block.obj"/></asset>
 <worldbody>
  <body name="link"><joint name="waist" axis="0 0 1"/><geom type="box" size=".02 .02 .02" pos=".3 0 0"/></body>
  <body name="block_0" pos="-.1 -.2 0"><freejoint/><geom type="mesh" mesh="block" rgba=".1 .8 .1 1"/></body>
 </worldbody>
</mujoco>
"""
OFFSET_RAD = 0.5
ABOUT = Declared("planted")
LENS = Intrinsics(150, 150, 79.5, 59.5)


def mount(eye: tuple[float, float, float]) -> Mount:
    """A camera at a place that looks at the origin."""
    ahead = -np.array(eye) / np.linalg.norm(eye)
    right = np.cross(ahead, (0, 0, 1)) / np.linalg.norm(np.cross(ahead, (0, 0, 1)))
    turn = Rotation.from_matrix(np.stack([right, np.cross(ahead, right), ahead], axis=1))
    return Mount("world", eye, tuple(np.roll(turn.as_quat(), 1).tolist()))


def cloud(centre: tuple[float, float, float], colour: tuple[float, float, float], name: str) -> Splats:
    rng = stream(0, name)
    means = np.array(centre) + rng.uniform(-0.02, 0.02, (80, 3))
    sh = np.tile((np.array(colour) - 0.5) / SH0, (80, 1, 1))
    return Splats(
        means, np.tile([1.0, 0, 0, 0], (80, 1)), np.full((80, 3), np.log(0.01)), np.full(80, 6.0), sh,
        np.zeros(80, int), (name,),
    )  # fmt: skip


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> tuple[Twin, Calibration]:
    root = tmp_path_factory.mktemp("twin")
    (root / "scene.xml").write_text(SCENE)
    write_obj(root / "block.obj", side_m=0.05)
    red, green = cloud((0.3, 0, 0), (0.9, 0.1, 0.1), "link"), cloud((-0.075, -0.175, 0.025), (0.1, 0.9, 0.1), "block_0")
    arrays = {
        name: np.concatenate([getattr(red, name), getattr(green, name)])
        for name in ("means", "quats_wxyz", "log_scales", "logit_opacities", "sh")
    }
    write_ply(root / "splats.ply", Splats(**arrays, group=np.zeros(160, int)), groups=False)
    episode = practice_episode(root / "video", 0, seconds=0.5, size=SIZE)
    rig = practice_rig(SIZE)
    cameras = {
        name: replace(camera, mount=mount((0.9, 0.1, 0.7)), intrinsics=LENS) for name, camera in rig.cameras.items()
    }
    recording = Recording(replace(rig, cameras=cameras), (episode,), {})
    twin = Twin(
        root,
        (Body("link", ABOUT, "robot", splats=(0, 80), lacks={"mesh": "geoms"}),
         Body("block_0", ABOUT, "object", visual="block.obj", splats=(80, 80))),
        Alignment(ABOUT),
        "mujoco 3.17.0",
        (episode.id,),
        {},
        {"front": TwinCamera(*SIZE, LENS, mount((0.9, 0.0, 0.7)), ABOUT)},
        Theta({"joint.waist.offset": OFFSET_RAD}),
    )  # fmt: skip
    return twin, Calibration(recording, "5" * 64)


def picture(content: bytes) -> np.ndarray:
    import av

    frame = next(iter(av.CodecContext.create("png", "r").decode(av.Packet(content))))
    return frame.to_ndarray(format="rgb24").astype(float)


def middle(image: np.ndarray, channel: int) -> np.ndarray:
    """The centre (x, y) of what has mostly one colour."""
    others = [k for k in range(3) if k != channel]
    rows, columns = np.nonzero(image[..., channel] > 2 * image[..., others].max(axis=-1))
    return np.array([columns.mean(), rows.mean()])


def seen(point: np.ndarray, camera: Mount) -> np.ndarray:
    x, y, z = (np.linalg.inv(camera.T_parent_camera) @ [*point, 1])[:3]
    return np.array([LENS.fx * x / z + LENS.cx, LENS.fy * y / z + LENS.cy])


def test_links_are_drawn_where_logged_angles_and_then_where_true_ones_put_them(made):
    twin, calibration = made
    drawn = pictures_of(twin, calibration)
    episode = calibration.recording.episodes[0]
    video = episode.videos["front"]
    angle = np.interp(
        video.time_s[int(AT_SHARE * (len(video) - 1))],
        episode.signals["state"].time_s,
        episode.signals["state"].value[:, 0],
    )
    for when, less, eye in (("before", 0.0, (0.9, 0.1, 0.7)), ("after", OFFSET_RAD, (0.9, 0.0, 0.7))):
        at = 0.3 * np.array([np.cos(angle - less), np.sin(angle - less), 0])
        found = middle(picture(drawn[f"camera_front_{when}.png"]), 0)
        assert np.linalg.norm(found - seen(at, mount(eye))) < 1.5, when
    assert picture(drawn["camera_front_photo.png"]).shape == (120, 160, 3)
    assert "camera_side_photo.png" not in drawn  # the twin does not know that camera


def test_an_object_is_shown_near_by_its_mesh_and_by_its_splats(made):
    drawn = pictures_of(*made)
    for kind in ("mesh", "splats"):
        image = picture(drawn[f"object_block_0_{kind}.png"])
        assert image.shape == (240, 320, 3)
        assert np.linalg.norm(middle(image, 1) - (159.5, 119.5)) < 40, kind


def test_objects_that_an_episode_is_not_of_are_not_drawn_beside_its_photographs(made):
    twin, calibration = made
    (episode,) = calibration.recording.episodes
    for label, there in (("block_0", True), ("another", False)):
        other = replace(episode, labels={**episode.labels, "object": label})
        shown = pictures_of(twin, replace(calibration, recording=replace(calibration.recording, episodes=(other,))))
        image = picture(shown["camera_front_after.png"])
        green = image[..., 1] > 2 * image[..., [0, 2]].max(axis=-1)
        assert bool(green.any()) is there, label
        assert "object_block_0_splats.png" in shown


def test_a_mesh_is_shown_in_the_colours_of_its_file(made, tmp_path):
    twin, calibration = made
    root = tmp_path / "coloured"
    shutil.copytree(twin.root, root)
    blue = read_mesh(root / "block.obj")
    write_mesh(root / "block.obj", Mesh(blue.vertices, blue.faces, np.tile([0.1, 0.1, 0.9], (len(blue.vertices), 1))))
    image = picture(pictures_of(replace(twin, root=root), calibration)["object_block_0_mesh.png"])
    assert np.linalg.norm(middle(image, 2) - (159.5, 119.5)) < 40


def test_a_twin_without_splats_or_a_recording_without_pictures_has_none_to_draw(made, gathered, folders):
    twin, calibration = made
    assert illustrated(gathered).pictures == {}
    given = replace(gathered, pictures={"view.png": b"x"})
    assert illustrated(given) is given
    other = Calibration(replace(calibration.recording, rig=practice_rig(SIZE)), calibration.split)
    unseen = replace(twin, root=Path(twin.root), episodes=("elsewhere",))
    assert sorted(pictures_of(unseen, other)) == ["object_block_0_mesh.png", "object_block_0_splats.png"]
