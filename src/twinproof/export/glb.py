"""GLB: every link a node that can be posed, with its surfaces, colours and textures. Looks only: glTF knows no physics.

glTF has y up: a root node turns our frame, in which all else stays. Factors are linear light, textures are sRGB, as
glTF has it. Colours of vertices become a texture (atlas.py): not every tool reads them.
"""

from __future__ import annotations

import json
import math
import struct
from pathlib import Path
from typing import Any

import numpy as np

from twinproof.export.subject import Subject, Written
from twinproof.nouns.errors import TwinError
from twinproof.nouns.files import write_whole
from twinproof.nouns.mesh_glb import BINARY_CHUNK, JSON_CHUNK, MAGIC, WIDTHS, glb_chunk, to_linear
from twinproof.nouns.pictures import png_bytes
from twinproof.sim.surface import Surface

FLOAT, WHOLE = 5126, 5125
ARRAYS, INDICES = 34962, 34963  # targets of buffer views
MOST_BYTES = 0xFFFFFFF0


def write_glb(subject: Subject, folder: Path) -> Written:
    """Writes twin.glb; what it leaves out."""
    if not subject.surfaces:
        raise TwinError(
            f"{subject.twin.root} shows no surface (geom groups 0 to 2), so a GLB would be empty. Leave it out."
        )
    writer, shown = _Writer(), subject.textured()
    for k, link in enumerate(subject.anatomy.links):
        writer.link(k, link.name, link.T_parent_link, [each for each in shown if each.link == link.name])
    for k, link in enumerate(subject.anatomy.links[1:], 1):
        writer.child(next(i for i, other in enumerate(subject.anatomy.links) if other.name == link.parent), k)
    write_whole(folder / "twin.glb", writer.data(subject.twin.hash))
    lost = (
        "physics: masses, joints, colliders, friction (names of links are kept)",
        "splats (see the PLY, SPZ or USDZ)",
        "lights, cameras, shine and reflections",
        *subject.notes,
    )
    return Written(lost)


class _Writer:
    """Collects nodes, primitives, materials and bytes."""

    def __init__(self) -> None:
        self.binary = bytearray()
        self.views: list[dict[str, Any]] = []
        self.accessors: list[dict[str, Any]] = []
        self.nodes: list[dict[str, Any]] = []
        self.meshes: list[dict[str, Any]] = []
        self.materials: list[dict[str, Any]] = []
        self.pictures: dict[bytes, int] = {}
        self.images: list[dict[str, Any]] = []

    def link(self, index: int, name: str, T: np.ndarray, shown: list[Surface]) -> None:
        from scipy.spatial.transform import Rotation

        assert index == len(self.nodes)
        turn = Rotation.from_matrix(T[:3, :3]).as_quat().tolist()  # x y z w, as glTF has it; animations need it apart
        node: dict[str, Any] = {"name": name, "translation": T[:3, 3].tolist(), "rotation": turn}
        if index == 0:
            half = math.sqrt(0.5)
            node = {"name": name, "rotation": [-half, 0.0, 0.0, half]}  # z up becomes y up
        if shown:
            self.meshes.append({"name": name, "primitives": [self.primitive(each) for each in shown]})
            node["mesh"] = len(self.meshes) - 1
        self.nodes.append(node)

    def child(self, parent: int, index: int) -> None:
        self.nodes[parent].setdefault("children", []).append(index)

    def primitive(self, surface: Surface) -> dict[str, Any]:
        points, faces, st = split_corners(surface)
        attributes = {"POSITION": self.array(points, "VEC3", bounds=True)}
        if st is not None:
            attributes["TEXCOORD_0"] = self.array(st, "VEC2")
        indices = self.array(faces.reshape(-1, 1), "SCALAR")
        return {"attributes": attributes, "indices": indices, "material": self.material(surface)}

    def array(self, values: np.ndarray, kind: str, *, bounds: bool = False) -> int:
        whole = values.dtype.kind in "iu"
        rows = np.ascontiguousarray(values, "<u4" if whole else "<f4")
        accessor = {"bufferView": self.view(rows.tobytes(), INDICES if whole else ARRAYS), "type": kind}
        accessor |= {"componentType": WHOLE if whole else FLOAT, "count": rows.size // WIDTHS[kind]}
        if bounds:
            accessor |= {"min": rows.min(axis=0).tolist(), "max": rows.max(axis=0).tolist()}
        self.accessors.append(accessor)
        return len(self.accessors) - 1

    def view(self, data: bytes, target: int | None = None) -> int:
        self.binary += b"\0" * (-len(self.binary) % 4)
        view: dict[str, Any] = {"buffer": 0, "byteOffset": len(self.binary), "byteLength": len(data)}
        self.views.append(view if target is None else {**view, "target": target})
        self.binary += data
        return len(self.views) - 1

    def material(self, surface: Surface) -> int:
        factor = [*to_linear(np.array(surface.rgba[:3])).tolist(), surface.rgba[3]]
        surface_of: dict[str, Any] = {"baseColorFactor": factor, "metallicFactor": 0.0, "roughnessFactor": 1.0}
        if surface.texture is not None:
            surface_of["baseColorTexture"] = {"index": self.picture(surface.texture)}
        material: dict[str, Any] = {"name": surface.name, "pbrMetallicRoughness": surface_of}
        if surface.rgba[3] < 1:
            material["alphaMode"] = "BLEND"
        self.materials.append(material)
        return len(self.materials) - 1

    def picture(self, texture: np.ndarray) -> int:
        data = png_bytes(texture)
        if data not in self.pictures:
            self.pictures[data] = len(self.images)
            self.images.append({"bufferView": self.view(data), "mimeType": "image/png"})
        return self.pictures[data]

    def data(self, parent: str) -> bytes:
        tree: dict[str, Any] = {
            "asset": {"version": "2.0", "generator": "twinproof", "extras": {"twin": parent}},
            "scene": 0,
            "scenes": [{"nodes": [0]}],
            "nodes": self.nodes,
            "meshes": self.meshes,
            "materials": self.materials,
            "accessors": self.accessors,
            "bufferViews": self.views,
            "buffers": [{"byteLength": len(self.binary)}],
        }
        if self.images:
            tree |= {"images": self.images, "textures": [{"source": k} for k in range(len(self.images))]}
        text = json.dumps(tree, separators=(",", ":"), allow_nan=False).encode()
        chunks = glb_chunk(JSON_CHUNK, text, b" ") + glb_chunk(BINARY_CHUNK, bytes(self.binary), b"\0")
        assert len(chunks) < MOST_BYTES
        return struct.pack("<III", MAGIC, 2, 12 + len(chunks)) + chunks


def split_corners(surface: Surface) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
    """Points, faces and texture coordinates with one row a vertex: vertices stand twice at seams."""
    mesh = surface.mesh
    if surface.st is None:
        return mesh.vertices, mesh.faces, None
    corners = np.concatenate([mesh.faces.reshape(-1, 1), surface.st.reshape(-1, 2)], axis=1)
    rows, inverse = np.unique(corners, axis=0, return_inverse=True)
    return mesh.vertices[rows[:, 0].astype(int)], inverse.reshape(-1, 3), rows[:, 1:]
