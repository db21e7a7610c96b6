"""render(splats, camera, device): a picture of splats, without torch on the CPU, by gsplat on a GPU.

picture = render(splats, Camera(lens, T_world_camera))
picture = render(splats, camera, moved={"cube": T_world_cube}, what=("colour", "depth", "group"))
pictures = render_many(splats, cameras, device=CUDA)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from twinproof.nouns.errors import SplatError
from twinproof.nouns.splats import Splats
from twinproof.sim.render_camera import Camera
from twinproof.sim.threads import threads_usable

if TYPE_CHECKING:
    from jaxtyping import Float, Int

    Moves = Mapping[str, Float[np.ndarray, "4 4"]]

CHANNELS = ("colour", "alpha", "depth", "median", "normal", "group")


@dataclass(frozen=True)
class Device:
    """Where to draw: the CPU on some threads (0: all that this process may use), or a CUDA device."""

    kind: Literal["cpu", "cuda"] = "cpu"
    threads: int = 0
    index: int = 0


CPU, CUDA = Device(), Device("cuda")


@dataclass(frozen=True)
class SplatImage:
    """What a camera sees of splats. Channels that were not asked for are None.

    colour: linear in exposure, not clipped; what the light that passes shows (the background) is not added.
    depth: expected, m along the optical axis; 0 where nothing is seen. median: where half of the light is stopped, 0
    where less is. normal: world frame, towards the camera, unit length; 0 where nothing is seen.
    group: index of the group at the median depth, -1 where there is none.
    """

    colour: Float[np.ndarray, "H W 3"]
    alpha: Float[np.ndarray, "H W"]
    depth: Float[np.ndarray, "H W"] | None = None
    median: Float[np.ndarray, "H W"] | None = None
    normal: Float[np.ndarray, "H W 3"] | None = None
    group: Int[np.ndarray, "H W"] | None = None

    def over(self, background: Float[np.ndarray, "3"] | Sequence[float] = (0.0, 0.0, 0.0)) -> np.ndarray:
        """The colours over a background, clipped to 0 … 1, as float32."""
        picture = self.colour + (1 - self.alpha[..., None]) * np.asarray(background, np.float32)
        clipped: np.ndarray = np.clip(picture, 0, 1)
        return clipped


def render(
    splats: Splats,
    camera: Camera,
    device: Device = CPU,
    *,
    moved: Moves | None = None,
    exposure: Float[np.ndarray, "3 4"] | None = None,
    what: Sequence[str] = ("colour", "alpha"),
) -> SplatImage:
    """One picture. `moved` places groups (T_world_group, else where they are); `exposure` maps colours (3 × 4)."""
    return render_many(
        splats, [camera], device, moved=[moved or {}], exposures=None if exposure is None else [exposure], what=what
    )[0]


def render_many(
    splats: Splats,
    cameras: Sequence[Camera],
    device: Device = CPU,
    *,
    moved: Sequence[Moves] | None = None,
    exposures: Sequence[Float[np.ndarray, "3 4"]] | None = None,
    what: Sequence[str] = ("colour", "alpha"),
) -> list[SplatImage]:
    """A picture for each camera. Cameras may differ in size; those of one size are drawn together."""
    unknown = sorted(set(what) - set(CHANNELS))
    if unknown:
        raise SplatError(f"splats: no picture has {', '.join(unknown)}. There are {', '.join(CHANNELS)}.")
    more = not set(what) <= {"colour", "alpha"}
    placed = [placements(splats, where) for where in (moved if moved is not None else [{}] * len(cameras))]
    if len(placed) != len(cameras):
        raise SplatError(f"splats: {len(cameras)} cameras but {len(placed)} placements of groups. Give one for each.")
    match device.kind:
        case "cpu":
            images = _on_cpu(splats, cameras, placed, device.threads, more)
        case "cuda":
            from twinproof.sim.splat import cuda  # imported only when asked for: gsplat compiles when it is imported

            images = cuda.render_images(splats, cameras, placed, device.index, more)
    if exposures is not None:
        images = [exposed(image, gain) for image, gain in zip(images, exposures, strict=True)]
    return images


def placements(splats: Splats, moved: Moves) -> Float[np.ndarray, "G 4 4"]:
    """T_world_group of every group; those that are not named stay."""
    unknown = sorted(set(moved) - set(splats.groups))
    if unknown:
        raise SplatError(
            f"splats: there is no group {', '.join(map(repr, unknown))} to move; there are {', '.join(splats.groups)}."
        )
    poses = np.stack([np.array(moved.get(name, np.eye(4)), float) for name in splats.groups])
    for name, pose in zip(splats.groups, poses, strict=True):
        turn = pose[:3, :3]
        if not np.isfinite(pose).all() or np.abs(turn @ turn.T - np.eye(3)).max() > 1e-4 or np.linalg.det(turn) < 0:
            raise SplatError(
                f"splats: group {name!r} is moved by a matrix that is not rigid. Scale and shear no splats."
            )
    return poses


def exposed(image: SplatImage, exposure: Float[np.ndarray, "3 4"]) -> SplatImage:
    """The same with its colours mapped: exposure[:, :3] colour + exposure[:, 3] alpha (what is not seen stays 0)."""
    gain = np.asarray(exposure, np.float32)
    if gain.shape != (3, 4):
        raise SplatError(f"splats: an exposure is a 3 × 4 matrix, found {gain.shape}. The neutral one is [I | 0].")
    colour = image.colour @ gain[:, :3].T + image.alpha[..., None] * gain[:, 3]
    return SplatImage(colour, image.alpha, image.depth, image.median, image.normal, image.group)


def _on_cpu(
    splats: Splats, cameras: Sequence[Camera], placed: Sequence[np.ndarray], threads: int, more: bool
) -> list[SplatImage]:
    from twinproof.sim.splat import engine
    from twinproof.sim.splat.lens import packed
    from twinproof.sim.splat.project import Eye

    cloud = engine.cloud_of(
        splats.means, splats.quats_wxyz, splats.log_scales, splats.logit_opacities, splats.sh, splats.group
    )
    eyes = []
    for camera, poses in zip(cameras, placed, strict=True):
        V = np.ascontiguousarray((np.linalg.inv(camera.T_world_camera) @ poses)[:, :3])
        eyes.append(Eye(V, packed(camera.lens), engine.NEAR, splats.sh.shape[1]))
    kept = engine.forward_batch(cloud, eyes, splats.flat, more, threads or threads_usable())
    return [_image(each.picture, camera, more) for each, camera in zip(kept, cameras, strict=True)]


def _image(picture: object, camera: Camera, more: bool) -> SplatImage:
    from twinproof.sim.splat.blend import Picture

    assert isinstance(picture, Picture)
    alpha = 1 - picture.light
    if not more:
        return SplatImage(picture.colour, alpha)
    some = (alpha >= 0.5) & (picture.group >= 0)
    seen = alpha > 0
    depth = np.where(seen, picture.more[..., 0] / np.where(seen, alpha, 1), 0)
    return SplatImage(
        picture.colour,
        alpha,
        depth.astype(np.float32),
        np.where(some, picture.median_depth, np.float32(0)),
        to_world(picture.more[..., 1:], camera),
        np.where(some, picture.group, np.int32(-1)),
    )


def to_world(normal: np.ndarray, camera: Camera) -> np.ndarray:
    """Sums of normals in the camera's frame as unit normals in the world's; 0 stays 0."""
    length = np.linalg.norm(normal, axis=-1, keepdims=True)
    unit = np.where(length > 0, normal / np.where(length > 0, length, 1), 0)
    return np.asarray(unit @ camera.T_world_camera[:3, :3].T, np.float32)
