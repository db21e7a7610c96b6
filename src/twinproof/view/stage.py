"""A Look on viser's stage: one frame for each link, with what belongs to it below; and a paler second one, the ghost.

/twin/3/mesh0, /twin/3/collision0, /twin/3/gap0, /twin/3/splats, /twin/3/camera0      3: the link's place in the Look
/ghost/3/mesh0
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from twinproof.nouns.mesh import Mesh
from twinproof.nouns.mesh_glb import glb_bytes
from twinproof.view.look import HALF_TURN, Look, Piece, base_colours, covariances, opacities, quats_wxyz

if TYPE_CHECKING:
    from jaxtyping import Float
    from viser import ViserServer

Layer = Literal["mesh", "splats", "collision", "gap", "camera"]
LAYERS: tuple[Layer, ...] = ("mesh", "splats", "collision", "gap", "camera")
GHOST_COLOUR = (38, 120, 255)
COLLISION_COLOUR = (255, 140, 20)
FRUSTUM_M = 0.06
SKIN_SHARE = 1e-3  # of the scene's size: how far the ghost's skin stands off, or both would flicker where they are one
Z_UP = (HALF_TURN, HALF_TURN, 0.0, 0.0)  # a GLB turns our frame to y up; this turns it back


class Stage:
    """What was put on a server, by layer, and the frames that move it."""

    def __init__(self, server: ViserServer, look: Look) -> None:
        self.look, self._server = look, server
        low, high = bounds(look)
        self._skin_m = SKIN_SHARE * float(np.linalg.norm(high - low))
        self.layers: dict[Layer, list[Any]] = {layer: [] for layer in LAYERS}
        self._frames = self._frames_of("twin")
        self._ghosts: list[Any] = []
        self._poses: dict[str, np.ndarray] = {}
        server.scene.set_up_direction("+z")
        self._light(server)
        for k in range(len(look.links)):
            self._furnish(k)
        self.pose(look.T_world_links)
        self.show("collision", False)
        self.show("gap", False)
        if look.splats and look.pieces:  # both would hide each other: splats are what the cameras saw
            self.show("mesh", False)
        self._look_from(server)

    def pose(self, T_world_links: Float[np.ndarray, "L 4 4"], ghost: bool = False) -> None:
        """Moves all links, or those of the ghost."""
        frames, which = (self._ghosts, "ghost") if ghost else (self._frames, "twin")
        turns = quats_wxyz(T_world_links)
        before = self._poses.get(which)
        for k, frame in enumerate(frames):
            if before is None or not np.array_equal(before[k], T_world_links[k]):
                frame.position, frame.wxyz = T_world_links[k, :3, 3], turns[k]
        self._poses[which] = np.array(T_world_links)

    def show(self, layer: Layer, shown: bool) -> None:
        """Shows or hides a layer."""
        for each in self.layers[layer]:
            each.visible = shown

    def haunt(self, present: bool) -> None:
        """Shows or hides the ghost; it is made when it is first seen."""
        if present and not self._ghosts:
            self._ghosts = self._frames_of("ghost")
            for k, link in enumerate(self.look.links):
                if link not in self.look.moving:
                    continue  # it would only hide the twin's
                for n, piece in enumerate(_on(self.look.pieces, link)):
                    self._plain(f"/ghost/{k}/mesh{n}", _wider(piece, self._skin_m), GHOST_COLOUR, 0.4)
        for frame in self._ghosts:
            frame.visible = present

    def _frames_of(self, root: str) -> list[Any]:
        add = self._server.scene.add_frame
        return [add(f"/{root}/{k}", show_axes=False) for k in range(len(self.look.links))]

    def _furnish(self, k: int) -> None:
        scene, link, root = self._server.scene, self.look.links[k], f"/twin/{k}"
        for n, piece in enumerate(_on(self.look.pieces, link)):
            self.layers["mesh"].append(scene.add_glb(f"{root}/mesh{n}", glb_bytes(piece.shape), wxyz=Z_UP))
        for n, piece in enumerate(_on(self.look.gaps, link)):
            self.layers["gap"].append(scene.add_glb(f"{root}/gap{n}", glb_bytes(piece.shape), wxyz=Z_UP))
        for n, piece in enumerate(_on(self.look.collision, link)):
            self.layers["collision"].append(self._plain(f"{root}/collision{n}", piece, COLLISION_COLOUR, 0.5))
        if link in self.look.splats:
            own = self.look.splats[link]
            clouds = scene.add_gaussian_splats(
                f"{root}/splats", own.means, covariances(own), base_colours(own), opacities(own)[:, None]
            )
            self.layers["splats"].append(clouds)
        for n, eye in enumerate(eye for eye in self.look.eyes if eye.link == link):
            T = eye.T_link_camera
            self.layers["camera"].append(
                scene.add_camera_frustum(
                    f"{root}/camera{n}",
                    eye.height_rad,
                    eye.aspect,
                    scale=FRUSTUM_M,
                    thickness=0.002,
                    wxyz=quats_wxyz(T),
                    position=T[:3, 3],
                )
            )

    def _plain(self, name: str, piece: Piece, colour: tuple[int, int, int], opacity: float) -> Any:
        vertices, faces = piece.mesh.vertices.astype(np.float32), piece.mesh.faces.astype(np.uint32)
        add = self._server.scene.add_mesh_simple
        return add(name, vertices, faces, color=colour, opacity=opacity, flat_shading=True, side="double",
                   cast_shadow=False, receive_shadow=False)  # fmt: skip

    def _light(self, server: ViserServer) -> None:
        """Even and plain: colours near those of the files, and no shadows, which would be invented."""
        server.scene.configure_default_lights(enabled=False)
        server.scene.configure_environment_map(hdri=None)
        server.scene.add_light_ambient("/light/all", intensity=1.9)
        server.scene.add_light_directional("/light/sun", intensity=1.6, position=(1.0, -2.0, 3.0), cast_shadow=False)

    def _look_from(self, server: ViserServer) -> None:
        low, high = bounds(self.look)
        middle, size = (low + high) / 2, max(float(np.linalg.norm(high - low)), 0.05)
        server.initial_camera.look_at = tuple(middle)
        server.initial_camera.position = tuple(middle + size * np.array([0.6, -0.7, 0.39]))
        server.initial_camera.up = (0.0, 0.0, 1.0)


def _on(pieces: tuple[Piece, ...], link: str) -> list[Piece]:
    return [piece for piece in pieces if piece.link == link]


def _wider(piece: Piece, by_m: float) -> Piece:
    """The piece with its vertices moved outwards."""
    mesh = piece.mesh
    corners = mesh.vertices[mesh.faces]
    across = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    outward = np.zeros_like(mesh.vertices)
    for k in range(3):
        np.add.at(outward, mesh.faces[:, k], across)
    length = np.linalg.norm(outward, axis=1, keepdims=True)
    moved = mesh.vertices + by_m * outward / np.where(length > 0, length, 1.0)
    return Piece(piece.name, piece.link, Mesh(moved, mesh.faces))


def bounds(look: Look) -> tuple[np.ndarray, np.ndarray]:
    """The corners of a box around everything that can move, or around all where nothing can."""
    found = list[np.ndarray]()
    for k, link in enumerate(look.links):
        points = [piece.mesh.vertices for piece in _on((*look.pieces, *look.collision), link)]
        if link in look.splats and not points:
            points = [look.splats[link].means]
        T = look.T_world_links[k]
        if k and points:
            found.append(np.concatenate(points) @ T[:3, :3].T + T[:3, 3])
    if not found:
        found = [piece.mesh.vertices for piece in look.pieces] + [each.means for each in look.splats.values()]
    whole = np.concatenate(found) if found else np.zeros((1, 3))
    return np.percentile(whole, 1, axis=0), np.percentile(whole, 99, axis=0)
