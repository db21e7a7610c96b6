"""Pictures for the report, from a twin and a calibration episode: photographs and renders, mesh and splats.

camera_NAME_photo    what a still camera saw
camera_NAME_before   the twin's splats from where the rig says that camera is, with the joints as logged
camera_NAME_after    the same from where calibration found it, with the joints' offsets taken off; both without objects
                     that the episode is not of: nobody knows where they were
object_NAME_mesh, object_NAME_splats
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from twinproof.evidence.gather import Gathered
from twinproof.nouns.episode import Episode
from twinproof.nouns.mesh_files import read_mesh
from twinproof.nouns.parts import Calibration
from twinproof.nouns.pictures import png_bytes
from twinproof.nouns.rig import Intrinsics, Rig
from twinproof.nouns.splat_files import read_ply
from twinproof.nouns.splats import Splats
from twinproof.nouns.twin import Twin, TwinCamera
from twinproof.sim.mesh_raster import rasterise
from twinproof.sim.render import posed
from twinproof.sim.render_camera import Camera, Lens
from twinproof.sim.render_rays import Rays
from twinproof.sim.scene import Scene
from twinproof.sim.splat.render import render

GREY = (0.5, 0.5, 0.5)  # behind what no splat shows
AT_SHARE = 0.2  # of the episode: the robot is in sight, and objects lie where they lay
CLOSE_UP = (320, 240)
EMPTY = 225  # behind what no mesh shows
ROOM = 2.2  # a close-up shows so many times the object's size


@dataclass(frozen=True, eq=False)
class Drawn:
    """A twin made ready to be drawn: its model, and its splats by body as they lie in the model's own posture."""

    twin: Twin
    model: Any
    splats: Splats
    T_world_body: Mapping[str, np.ndarray]  # in the model's own posture

    @classmethod
    def of(cls, twin: Twin) -> Drawn:
        """The twin's scene compiled, and its splats in a group for each body."""
        model: Any = Scene.of(twin).nominal()
        named = [body for body in twin.bodies if body.splats is not None]
        splats = read_ply(twin.path("splats.ply"))
        group = np.zeros(len(splats), dtype=np.int64)
        for k, body in enumerate(named, 1):
            assert body.splats is not None
            group[body.splats[0] : sum(body.splats)] = k
        splats = replace(splats, group=group, groups=("loose", *(body.name for body in named)))
        return cls(twin, model, splats, _poses(model, np.array(model.qpos0)))

    def beside(self, label: str | None) -> Drawn:
        """The same without objects, but for the one that an episode with this label shows."""
        away = {body.name for body in self.twin.bodies if body.layer == "object" and body.name != label}
        gone = [k for k, name in enumerate(self.splats.groups) if name in away]
        return replace(self, splats=self.splats.take(~np.isin(self.splats.group, gone)))

    def qpos(self, angles: Mapping[str, float]) -> np.ndarray:
        """The model's own posture with these joints at these angles."""
        qpos = np.array(self.model.qpos0)
        for name, angle in angles.items():
            if _has_joint(self.model, name):
                qpos[int(self.model.joint(name).qposadr[0])] = angle
        return qpos

    def through(self, camera: Camera, qpos: np.ndarray) -> np.ndarray:
        """What a camera sees of the splats, bodies moved to where they are in a posture."""
        now = _poses(self.model, qpos)
        known = set(self.splats.groups)
        moves = {name: now[name] @ np.linalg.inv(rest) for name, rest in self.T_world_body.items() if name in known}
        picture = render(self.splats, camera, moved=moves).over(GREY)
        return np.round(255 * picture).astype(np.uint8)


def _has_joint(model: Any, name: str) -> bool:
    return name in {model.joint(k).name for k in range(model.njnt)}


def _poses(model: Any, qpos: np.ndarray) -> dict[str, np.ndarray]:
    data: Any = posed(model, qpos)
    found = {}
    for k in range(1, model.nbody):
        pose = np.eye(4)
        pose[:3, :3], pose[:3, 3] = data.xmat[k].reshape(3, 3), data.xpos[k]
        found[model.body(k).name] = pose
    return found


def illustrated(found: Gathered) -> Gathered:
    """The same with pictures drawn from the twin, where none were given."""
    return found if found.pictures else replace(found, pictures=pictures_of(found.twin, found.split.parts()[0]))


def pictures_of(twin: Twin, calibration: Calibration) -> dict[str, bytes]:
    """PNG by name; empty where the twin has no splats or the recording no picture from a camera that stands still."""
    if not any(body.splats for body in twin.bodies):
        return {}
    rig, drawn = calibration.recording.rig, Drawn.of(twin)
    found: dict[str, np.ndarray] = {}
    still = [name for name, camera in twin.cameras.items() if camera.mount.parent == "world" and name in rig.cameras]
    episode = _episode(twin, calibration, still)
    for name in still if episode is not None else ():
        if episode is not None and name in episode.videos:
            found |= _camera(drawn.beside(episode.labels.get("object")), rig, episode, name)
    for body in twin.bodies:
        if body.layer == "object" and body.splats is not None and body.visual is not None and still:
            found |= _close_up(drawn, body.name, twin.cameras[still[0]])
    return {f"{name}.png": png_bytes(picture) for name, picture in found.items()}


def _episode(twin: Twin, calibration: Calibration, cameras: list[str]) -> Episode | None:
    """An episode that the twin was made of, seen by its cameras; one with an object that the twin has comes first."""
    objects = {body.name for body in twin.bodies if body.layer == "object"}
    fitting = [
        each for each in calibration.recording.episodes if each.id in twin.episodes and set(cameras) & set(each.videos)
    ]
    fitting.sort(key=lambda each: (each.labels.get("object") not in objects, each.id))
    return fitting[0] if fitting else None


def _camera(drawn: Drawn, rig: Rig, episode: Episode, name: str) -> dict[str, np.ndarray]:
    """The photograph, and the twin from where the camera was stated to be and from where it was found."""
    video, stated, believed = episode.videos[name], rig.cameras[name], drawn.twin.cameras[name]
    with video.reader() as reader:
        index = int(AT_SHARE * (len(video) - 1))
        photo = reader.frame(index)
    photo = photo if photo.ndim == 3 else np.repeat(photo[..., None], 3, axis=2)
    size, time_s = (photo.shape[1], photo.shape[0]), float(video.time_s[index]) + stated.clock_offset_s
    found = {f"camera_{name}_photo": photo}
    if stated.mount is not None and stated.mount.parent == "world" and stated.intrinsics is not None:
        camera = Camera(_lens(stated.intrinsics, size), stated.mount.T_parent_camera)
        found[f"camera_{name}_before"] = drawn.through(camera, drawn.qpos(_angles(episode, rig, time_s)))
    told: Any = drawn.twin.audits.get("calibration") or {}
    late_s = float(told.get("cameras", {}).get(name, {}).get("clock_offset_s", 0.0))
    angles = {
        joint: angle - drawn.twin.start.get(f"joint.{joint}.offset", 0.0)
        for joint, angle in _angles(episode, rig, time_s + late_s).items()
    }
    camera = Camera(_lens(believed.intrinsics, size), believed.mount.T_parent_camera)
    found[f"camera_{name}_after"] = drawn.through(camera, drawn.qpos(angles))
    return found


def _lens(k: Intrinsics, size: tuple[int, int]) -> Lens:
    return Lens(*size, k.fx, k.fy, k.cx, k.cy, k.distortion)


def _angles(episode: Episode, rig: Rig, time_s: float) -> dict[str, float]:
    """Joint angles at a moment of the robot's clock, as logged."""
    found = {}
    for signal in episode.of_kind("joint_position"):
        offset_s = rig.signals[signal.name].clock_offset_s if signal.name in rig.signals else 0.0
        for k, column in enumerate(signal.columns):
            known = np.ones(len(signal.time_s), bool) if signal.missing is None else ~signal.missing[:, k]
            found[column.name] = float(np.interp(time_s - offset_s, signal.time_s[known], signal.value[known, k]))
    return found


def _close_up(drawn: Drawn, name: str, camera: TwinCamera) -> dict[str, np.ndarray]:
    """An object from a camera's side, near: by its mesh and by its splats."""
    own = drawn.splats.of(name).means
    centre, size_m = own.mean(axis=0), float(np.ptp(own, axis=0).max())
    ahead = centre - camera.mount.T_parent_camera[:3, 3]
    away_m = float(np.linalg.norm(ahead))
    ahead = ahead / away_m
    right = np.cross(ahead, (0.0, 0.0, 1.0))
    if np.linalg.norm(right) < 1e-6:  # straight from above
        right = np.array([1.0, 0.0, 0.0])
    right = right / np.linalg.norm(right)
    pose = np.eye(4)
    pose[:3, :3] = np.stack([right, np.cross(ahead, right), ahead], axis=1)
    pose[:3, 3] = camera.mount.T_parent_camera[:3, 3]
    focal = CLOSE_UP[1] * away_m / (ROOM * max(size_m, 1e-3))
    view = Camera(Lens(*CLOSE_UP, focal, focal, (CLOSE_UP[0] - 1) / 2, (CLOSE_UP[1] - 1) / 2), pose)
    qpos = np.array(drawn.model.qpos0)
    seen = Rays().render(drawn.model, qpos, view, ("rgb", "segmentation"))
    assert seen.rgb is not None
    assert seen.geom is not None
    mesh = np.where((seen.geom < 0)[..., None], np.uint8(EMPTY), seen.rgb)
    geoms = np.flatnonzero(drawn.model.geom_bodyid == drawn.model.body(name).id)
    if not _textured(drawn.model, geoms):
        mesh = _painted(drawn, name, view, mesh, np.isin(seen.geom, geoms))
    return {f"object_{name}_mesh": mesh, f"object_{name}_splats": drawn.through(view, qpos)}


def _textured(model: Any, geoms: np.ndarray) -> bool:
    """Whether the scene itself has a picture for one of these geoms."""
    materials = [int(k) for k in model.geom_matid[geoms] if k >= 0]
    return bool((model.mat_texid[materials] >= 0).any())


def _painted(drawn: Drawn, name: str, view: Camera, plain: np.ndarray, own: np.ndarray) -> np.ndarray:
    """The picture with the object in the colours of its mesh file, which MuJoCo does not read, shaded by its slope.

    `own` are the pixels in which the object is in front.
    """
    body = next(body for body in drawn.twin.bodies if body.name == name)
    if body.visual is None or not body.visual.lower().endswith((".obj", ".ply")):
        return plain
    mesh = read_mesh(drawn.twin.path(body.visual)).moved(drawn.T_world_body[name])
    if mesh.colours is None:
        return plain
    seen = rasterise(mesh, view)
    mine = (seen.face >= 0) & own
    corners = mesh.vertices[mesh.faces[seen.face[mine]]]
    slope = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    slope /= np.maximum(np.linalg.norm(slope, axis=1, keepdims=True), 1e-12)
    light = 0.55 + 0.45 * np.abs(slope @ view.T_world_camera[:3, 2])
    colour = np.einsum("nc,ncd->nd", seen.weights[mine], mesh.colours[mesh.faces[seen.face[mine]]])
    found = plain.copy()
    found[mine] = np.round(255 * np.clip(colour * light[:, None], 0, 1)).astype(np.uint8)
    return found
