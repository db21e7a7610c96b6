"""Pictures of many worlds at once on a GPU: one background, robot and objects placed anew in each world.

Nothing is copied to be moved: every group is projected by its own matrix for every world, and what is seen is blended
together. Where the cameras stand still, the background is drawn once and the moving groups are laid over it by depth.
Where they move, `detail` splats stand for the background (see simplify.py): a small picture shows no more.
Colours are those of degree 0: at these sizes the others cannot be told.
"""

# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls, allow-untyped-decorators
from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import torch

from twinproof.nouns.errors import SplatError
from twinproof.nouns.splats import Splats
from twinproof.sim.render_camera import Lens
from twinproof.sim.splat.cuda import TILE, gsplat, scene_of
from twinproof.sim.splat.engine import NEAR
from twinproof.sim.splat.harmonics import C0
from twinproof.sim.splat.project import BLUR, CAP
from twinproof.sim.splat.simplify import simplified

if TYPE_CHECKING:
    from jaxtyping import Float


class SplatWorlds:
    """Draws (B, H, W, 3) pictures of B worlds that share splats and differ in where groups and cameras are."""

    def __init__(
        self, splats: Splats, moving: Sequence[str], lens: Lens, *, detail: int = 25_000, device: str = "cuda"
    ) -> None:
        unknown = sorted(set(moving) - set(splats.groups))
        if unknown or lens.bent:
            raise SplatError(
                f"splats: worlds need groups that exist (unknown: {', '.join(unknown) or 'none'}) and a lens without "
                "distortion. Name the groups of the splats, undistort the pictures."
            )
        gsplat()
        self.lens, self.moving, self.device = lens, tuple(moving), device
        still = [k for k, name in enumerate(splats.groups) if name not in moving]
        background = splats.take(np.isin(splats.group, still))
        self._parts = [_Part(splats.of(name), device) for name in moving]
        self._whole, self._plain = _Part(background, device), _Part(simplified(background, detail), device)
        self._K = torch.tensor(
            [[lens.fx, 0, lens.cx + 0.5], [0, lens.fy, lens.cy + 0.5], [0, 0, 1]], device=device, dtype=torch.float32
        )

    def fixed(self, T_camera_world: Float[torch.Tensor, "C 4 4"]) -> Backdrop:
        """Cameras that stand still: their background, drawn once."""
        with torch.no_grad():
            colour, alpha, depth = self._drawn([(self._whole, T_camera_world.float())])
        return Backdrop(T_camera_world.float(), colour, alpha, depth)

    @torch.no_grad()
    def over(self, backdrop: Backdrop, T_world_group: Float[torch.Tensor, "B M 4 4"], camera: int = 0):
        """Pictures by one fixed camera: the moving groups over its background, by depth at every pixel."""
        view = backdrop.T_camera_world[camera] @ T_world_group.float()
        colour, alpha, depth = self._drawn([(part, view[:, k]) for k, part in enumerate(self._parts)])
        far = backdrop.depth[camera]
        light = 1 - backdrop.alpha[camera][..., None]
        shown = backdrop.colour[camera]
        front = colour + (1 - alpha[..., None]) * shown
        hidden = shown + light * colour
        return torch.where(((depth < far) | (far <= 0))[..., None], front, hidden)

    @torch.no_grad()
    def moved(
        self,
        T_camera_world: Float[torch.Tensor, "B 4 4"],
        T_world_group: Float[torch.Tensor, "B M 4 4"],
        lens: Float[torch.Tensor, "B 4"] | None = None,
    ):
        """Pictures by a camera of each world's own, its lens changed as `Lens.changed` says; the background in few
        splats, all blended together."""
        cameras = T_camera_world.float()
        views = cameras[:, None] @ T_world_group.float()
        parts = [(self._plain, cameras), *((part, views[:, k]) for k, part in enumerate(self._parts))]
        return self._drawn(parts, depth=False, K=None if lens is None else self._changed(lens.float()))[0]

    def _changed(self, lens):
        """The camera matrices (B, 3, 3) of changed lenses."""
        K, one = self._K.repeat(len(lens), 1, 1), self.lens
        K[:, 0, 0], K[:, 1, 1] = one.fx * lens[:, 0], one.fy * lens[:, 1]
        K[:, 0, 2], K[:, 1, 2] = K[:, 0, 2] + one.width * lens[:, 2], K[:, 1, 2] + one.height * lens[:, 3]
        return K

    def _drawn(self, parts, depth: bool = True, K=None):
        """Colour, alpha and expected depth (0 where nothing is seen) of parts, each with a matrix for every world."""
        library, lens = gsplat(), self.lens
        count = len(parts[0][1])
        K = self._K.expand(count, 3, 3).contiguous() if K is None else K
        columns = [part.projected(library, view, K, lens, depth) for part, view in parts]
        image, means2d, radii, depths, conics, opacity, colour = (
            torch.cat(column) for column in zip(*columns, strict=True)
        )
        order = torch.argsort(image, stable=True)
        image, means2d, radii, depths = image[order], means2d[order], radii[order], depths[order]
        conics, opacity, colour = conics[order], opacity[order], colour[order]
        across, down = -(-lens.width // TILE), -(-lens.height // TILE)
        _, keys, flat = library.isect_tiles(
            means2d, radii, depths, TILE, across, down, packed=True, n_images=count, image_ids=image,
            gaussian_ids=image,
        )  # fmt: skip
        offsets = library.isect_offset_encode(keys, count, across, down).reshape(count, down, across)
        picture, alpha = library.rasterize_to_pixels(
            means2d, conics, colour, opacity, lens.width, lens.height, TILE, offsets, flat, packed=True
        )
        alpha = alpha[..., 0]
        if not depth:
            return picture, alpha, None
        return picture[..., :3], alpha, torch.where(alpha > 0, picture[..., 3] / alpha.clamp(min=1e-6), 0)


class Backdrop:
    """What fixed cameras see of the background: colour, alpha and depth (0: nothing)."""

    def __init__(self, T_camera_world, colour, alpha, depth) -> None:
        self.T_camera_world, self.colour, self.alpha, self.depth = T_camera_world, colour, alpha, depth


class _Part:
    """Splats that move together, ready for gsplat."""

    def __init__(self, splats: Splats, device: str) -> None:
        scene = scene_of(splats, device)
        self.means, self.quats, self.scales = scene.means, scene.quats, scene.log_scales.exp()
        self.opacity = torch.sigmoid(scene.logits).clamp(max=CAP)
        self.colour = (C0 * scene.sh[:, 0] + 0.5).clamp(min=0)

    def projected(self, library, view, K, lens: Lens, depth: bool):
        """What each world's camera sees of it, packed."""
        _, image, which, radii, means2d, depths, conics, _ = library.fully_fused_projection(
            self.means, None, self.quats, self.scales, view.contiguous(), K, lens.width, lens.height, eps2d=BLUR,
            near_plane=NEAR, packed=True, opacities=self.opacity,
        )  # fmt: skip
        colour = self.colour[which]
        colour = torch.cat([colour, depths[:, None]], -1) if depth else colour
        return image, means2d, radii, depths, conics, self.opacity[which], colour
