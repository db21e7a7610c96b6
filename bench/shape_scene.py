"""Things whose shape is known or sought: scanned objects rendered from many sides, the dino ring, the red kitchen."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from bench.splat_scene import DATA, kitchen_frames

from twinproof.nouns.mesh import Mesh
from twinproof.nouns.mesh_files import read_mesh, welded
from twinproof.nouns.rig import Intrinsics
from twinproof.nouns.views import PosedView, Views
from twinproof.sim.fusion import DepthMap
from twinproof.sim.render_camera import Camera, Lens
from twinproof.sim.silhouette import Silhouette

GSO = {"mug": "ACE_Coffee_Mug_Kristen_16_oz_cup", "bowl": "Cole_Hardware_Bowl_Scirocco_YellowBlue"}
DINO = DATA / "middlebury_sparse_ring" / "dinoSparseRing"
DINO_BOX = (np.array([-0.061897, -0.018874, -0.057845]), np.array([0.010897, 0.068227, 0.015495]))


def true_mesh(name: str) -> Mesh:
    """A scanned object, standing on z = 0."""
    return welded(read_mesh(DATA / "gso_objects" / GSO[name] / "model.obj"))


def looking(eye: np.ndarray, at: np.ndarray) -> np.ndarray:
    """T_world_camera of an upright camera."""
    ahead = (at - eye) / np.linalg.norm(at - eye)
    right = np.cross(ahead, (0, 0, 1.0))
    right /= np.linalg.norm(right)
    pose = np.eye(4)
    pose[:3, :3], pose[:3, 3] = np.stack([right, np.cross(ahead, right), ahead], axis=1), eye
    return pose


def dome(count: int, at: np.ndarray, distance: float, size: tuple[int, int], fovy_deg: float) -> list[Camera]:
    """Cameras on a dome above the table, on four heights, on a golden spiral of directions."""
    cameras = []
    for k in range(count):
        turn, tilt = k * np.pi * (3 - np.sqrt(5)), np.radians((12, 32, 55, 80)[k % 4])
        eye = at + distance * np.array([np.cos(turn) * np.cos(tilt), np.sin(turn) * np.cos(tilt), np.sin(tilt)])
        cameras.append(Camera(Lens.of_fovy(*size, fovy_deg), looking(eye, at)))
    return cameras


def object_views(name: str, count: int, size: tuple[int, int] = (320, 240)) -> tuple[Views, list[Camera]]:
    """Pictures, exact depth and masks (group 1: the object) of a scanned object on a table."""
    from twinproof.sim.render_rays import Rays
    from twinproof.sim.scene import Scene

    folder = DATA / "gso_objects" / GSO[name]
    xml = """<mujoco><asset><texture name="t" type="2d" file="texture.png"/><material name="m" texture="t"/>
    <mesh name="o" file="model.obj"/><texture name="w" type="2d" builtin="checker" rgb1=".7 .65 .6" rgb2=".5 .45 .4"
    width="64" height="64"/><material name="table" texture="w" texrepeat="12 12"/></asset>
    <worldbody><light pos=".4 -.3 1.2" dir="-.3 .2 -1" diffuse=".7 .7 .7"/><light pos="-.6 .5 1" dir=".5 -.4 -1"
    diffuse=".4 .4 .4"/><geom name="table" type="plane" size="1 1 .1" material="table"/>
    <body name="object"><geom name="object" type="mesh" mesh="o" material="m"/></body></worldbody></mujoco>"""
    model = Scene(xml, folder).compile()
    mesh = true_mesh(name)
    at = 0.5 * (mesh.vertices.min(axis=0) + mesh.vertices.max(axis=0))
    cameras = dome(count, at, 0.45, size, 28.0)
    which = int(model.geom("object").id)
    images = Rays().render_many(model, [np.zeros(model.nq)], cameras, ["rgb", "depth", "segmentation"])[0]
    views = []
    for k, (image, camera) in enumerate(zip(images, cameras, strict=True)):
        assert image.rgb is not None
        assert image.depth_m is not None
        lens = camera.lens
        views.append(
            PosedView(
                f"view_{k:02d}", image.rgb, Intrinsics(lens.fx, lens.fy, lens.cx, lens.cy), camera.T_world_camera,
                np.where(np.isfinite(image.depth_m), image.depth_m, 0), (image.geom == which).astype(np.int32),
            )
        )  # fmt: skip
    return Views(tuple(views), groups=("background", "object")), cameras


def silhouettes_of(views: Views, cameras: list[Camera], group: int = 1) -> list[Silhouette]:
    """The masks of one group."""
    return [
        Silhouette(np.where(view.mask < 0, -1, view.mask == group).astype(np.int8), camera)
        for view, camera in zip(views.views, cameras, strict=True)
        if view.mask is not None
    ]


def depth_of(views: Views, cameras: list[Camera], group: int = 1, noise: float = 0.0) -> list[DepthMap]:
    """The depth of one group; `noise` is its standard deviation at 1 m, growing with the square of the depth."""
    rng = np.random.default_rng(0)
    maps = []
    for view, camera in zip(views.views, cameras, strict=True):
        assert view.depth_m is not None
        depth = view.depth_m * (1 + noise * view.depth_m * rng.normal(size=view.depth_m.shape))
        maps.append(DepthMap(np.where(view.mask == group, depth, 0), camera))
    return maps


def dino_views() -> tuple[Views, list[Camera]]:
    """The sixteen pictures; silhouettes from the black background (group 1: the dino, -1: dark spots)."""
    import cv2
    from PIL import Image
    from scipy.ndimage import binary_fill_holes

    views, cameras = [], []
    for line in (DINO / "dinoSR_par.txt").read_text().splitlines()[1:]:
        name, *words = line.split()
        numbers = np.array(words, float)
        K, T_camera_world = numbers[:9].reshape(3, 3), np.eye(4)
        T_camera_world[:3, :3], T_camera_world[:3, 3] = numbers[9:18].reshape(3, 3), numbers[18:]
        rgb = np.asarray(Image.open(DINO / name).convert("RGB"))
        bright = (rgb.max(axis=2) > 0.17 * 255).astype(np.uint8)
        disc = cv2.getStructuringElement(cv2.MORPH_ELLIPSE, (21, 21))
        _, label, stats, _ = cv2.connectedComponentsWithStats(cv2.morphologyEx(bright, cv2.MORPH_CLOSE, disc))
        around = label == 1 + int(stats[1:, cv2.CC_STAT_AREA].argmax())
        around = binary_fill_holes(around)
        # Dark and closely surrounded: a shadow on the dino or a gap in it, which this picture alone cannot tell.
        mask = np.where(around, np.where(bright, 1, -1), 0)
        lens = Lens(rgb.shape[1], rgb.shape[0], K[0, 0], K[1, 1], K[0, 2], K[1, 2])
        cameras.append(Camera(lens, np.linalg.inv(T_camera_world)))
        views.append(
            PosedView(
                Path(name).stem, rgb, Intrinsics(lens.fx, lens.fy, lens.cx, lens.cy), cameras[-1].T_world_camera,
                mask=mask.astype(np.int32),
            )
        )  # fmt: skip
    return Views(tuple(views), groups=("background", "dino")), cameras


def kitchen_maps() -> list[DepthMap]:
    """The 63 depth frames."""
    lens, maps = Lens(640, 480, 585.0, 585.0, 320.0, 240.0), []
    for _, depth, pose in kitchen_frames():
        u, _, v = np.linalg.svd(pose[:3, :3])
        pose[:3, :3] = u @ v
        maps.append(DepthMap(depth, Camera(lens, pose)))
    return maps
