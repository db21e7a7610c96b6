"""GLB in and out: one file with JSON and a binary chunk. glTF has y up; our frame is kept and a node turns it.

write: one node, turned by -90° about x, with the mesh in our own frame (z up), its colours or its texture
read:  all triangles of the default scene, placed by their nodes, turned back to z up; vertices on seams are welded
"""

from __future__ import annotations

import json
import math
import struct
from typing import Any, NamedTuple

import numpy as np

from twinproof.nouns.baked import Baked
from twinproof.nouns.errors import MeshError
from twinproof.nouns.mesh import Mesh
from twinproof.nouns.pictures import png_bytes
from twinproof.nouns.rig import Mount

MAGIC, JSON_CHUNK, BINARY_CHUNK = 0x46546C67, 0x4E4F534A, 0x004E4942
KINDS = {5120: "<i1", 5121: "<u1", 5122: "<i2", 5123: "<u2", 5125: "<u4", 5126: "<f4"}
WIDTHS = {"SCALAR": 1, "VEC2": 2, "VEC3": 3, "VEC4": 4}
UP = np.array([[1.0, 0, 0, 0], [0, 0, -1, 0], [0, 1, 0, 0], [0, 0, 0, 1]])  # y up to z up
DEEPEST = 64  # nodes inside nodes


def glb_bytes(shape: Mesh | Baked) -> bytes:
    """A GLB of one mesh."""
    mesh, uv = shape.split() if isinstance(shape, Baked) else (shape, None)
    parts = [("POSITION", "VEC3", 5126, mesh.vertices.astype("<f4")), ("", "SCALAR", 5125, mesh.faces.astype("<u4"))]
    if isinstance(shape, Baked):
        assert uv is not None
        parts.append(("TEXCOORD_0", "VEC2", 5126, np.stack([uv[:, 0], 1 - uv[:, 1]], axis=1).astype("<f4")))
    elif mesh.colours is not None:
        parts.append(("COLOR_0", "VEC3", 5126, to_linear(mesh.colours).astype("<f4")))
    views, accessors, attributes, binary = [], [], dict[str, int](), b""
    for k, (name, kind, component, values) in enumerate(parts):
        views.append({"buffer": 0, "byteOffset": len(binary), "byteLength": values.nbytes})
        accessor = {"bufferView": k, "componentType": component, "type": kind, "count": values.size // WIDTHS[kind]}
        if name == "POSITION":
            accessor |= {"min": values.min(axis=0).tolist(), "max": values.max(axis=0).tolist()}
        accessors.append(accessor)
        binary += values.tobytes()
        if name:
            attributes[name] = k
    material: dict[str, Any] = {"pbrMetallicRoughness": {"metallicFactor": 0.0, "roughnessFactor": 1.0}}
    tree: dict[str, Any] = {
        "asset": {"version": "2.0", "generator": "twinproof"},
        "scene": 0,
        "scenes": [{"nodes": [0]}],
        "nodes": [{"mesh": 0, "rotation": [-math.sqrt(0.5), 0.0, 0.0, math.sqrt(0.5)]}],
        "meshes": [{"primitives": [{"attributes": attributes, "indices": 1, "material": 0}]}],
        "materials": [material],
        "accessors": accessors,
        "bufferViews": views,
    }
    if isinstance(shape, Baked):
        picture = png_bytes(shape.texture)
        views.append({"buffer": 0, "byteOffset": len(binary), "byteLength": len(picture)})
        binary += picture
        material["pbrMetallicRoughness"]["baseColorTexture"] = {"index": 0}
        tree |= {"images": [{"bufferView": len(views) - 1, "mimeType": "image/png"}], "textures": [{"source": 0}]}
    tree["buffers"] = [{"byteLength": len(binary)}]
    text = json.dumps(tree, separators=(",", ":")).encode()
    chunks = glb_chunk(JSON_CHUNK, text, b" ") + glb_chunk(BINARY_CHUNK, binary, b"\0")
    return struct.pack("<III", MAGIC, 2, 12 + len(chunks)) + chunks


def read_glb(data: bytes) -> Mesh:
    """The triangles of the default scene as one mesh, z up."""
    from twinproof.nouns.mesh_files import MOST_FACES, welded

    file = open_glb(data)
    counts = np.cumsum([0, *(len(part.points) for part in file.parts)])
    faces = np.concatenate([part.faces + start for part, start in zip(file.parts, counts[:-1], strict=True)])
    if len(faces) > MOST_FACES:
        raise MeshError(f"it has {len(faces)} faces; {MOST_FACES} are read. Simplify it.")
    shades = [part.colours for part in file.parts]
    known = [colour for colour in shades if colour is not None]
    colours = np.concatenate(known) if len(known) == len(shades) else None
    return welded(Mesh(np.concatenate([part.points for part in file.parts]), faces, colours))


def open_glb(data: bytes) -> GlbFile:
    """The tree of a GLB and the triangles of its default scene, apart as they stand in it; there are some."""
    tree, binary = glb_chunks(data)
    file = GlbFile(tree, binary)
    try:
        scene = tree["scenes"][int(tree.get("scene", 0))]
        for node in scene.get("nodes", []):
            file.walk(node, UP, 0)
    except (KeyError, IndexError, TypeError, ValueError, AttributeError, OverflowError) as problem:
        raise MeshError(f"it is no sound glTF ({type(problem).__name__}: {problem}). Export it again.") from None
    if not file.parts:
        raise MeshError("its default scene shows no triangles. Export it with a mesh.")
    return file


class GlbPart(NamedTuple):
    """Triangles of one primitive, placed in the world (z up)."""

    points: np.ndarray
    faces: np.ndarray
    colours: np.ndarray | None  # of vertices, as displayed
    st: np.ndarray | None  # texture coordinates of vertices: from the left, from the top
    material: int | None
    node: str


class GlbFile:
    """Walks through a glTF tree and collects triangles; every offset is checked against the bytes that are there."""

    def __init__(self, tree: dict[str, Any], binary: bytes) -> None:
        self.tree, self.binary = tree, binary
        self.parts: list[GlbPart] = []
        self.visited = 0

    def walk(self, index: int, outer: np.ndarray, depth: int) -> None:
        self.visited += 1
        if depth > DEEPEST or self.visited > 10_000:
            raise MeshError(f"its nodes stand more than {DEEPEST} deep, or in a ring. Export it again.")
        node = self.tree["nodes"][counted(index)]
        T = outer @ _placed(node)
        if "mesh" in node:
            for primitive in self.tree["meshes"][counted(node["mesh"])]["primitives"]:
                self.add(primitive, T, str(node.get("name", "")))
        for child in node.get("children", []):
            self.walk(child, T, depth + 1)

    def add(self, primitive: dict[str, Any], T: np.ndarray, node: str) -> None:
        if primitive.get("mode", 4) != 4 or "extensions" in primitive:
            raise MeshError("it has lines, points, strips or compressed parts. Export it as plain triangles.")
        attributes = primitive["attributes"]
        points = self.values(attributes["POSITION"])
        if points.shape[1:] != (3,):
            raise MeshError("a POSITION has not three numbers. Export it again.")
        index = self.values(primitive["indices"]).ravel() if "indices" in primitive else np.arange(len(points))
        if len(index) % 3 or (len(index) and not 0 <= index.min() <= index.max() < len(points)):
            raise MeshError("its indices name no whole triangles, or vertices that are not there. Export it again.")
        colours = self.values(attributes["COLOR_0"])[:, :3] if "COLOR_0" in attributes else None
        if colours is not None and (colours.shape != points.shape or not np.isfinite(colours).all()):
            raise MeshError("its colours do not fit its vertices. Export it again.")
        faces = index.astype(np.int64).reshape(-1, 3)
        if np.linalg.det(T[:3, :3]) < 0:  # a mirror turns faces inside out
            faces = faces[:, ::-1]
        placed = points.astype(float) @ T[:3, :3].T + T[:3, 3]
        st = self.values(attributes["TEXCOORD_0"]) if "TEXCOORD_0" in attributes else None
        if st is not None and (st.shape != (len(points), 2) or not np.isfinite(st).all()):
            raise MeshError("its texture coordinates do not fit its vertices. Export it again.")
        shades = None if colours is None else to_display(colours)
        self.parts.append(GlbPart(placed, faces, shades, st, primitive.get("material"), node))

    def values(self, index: int) -> np.ndarray:
        accessor = self.tree["accessors"][counted(index)]
        if "sparse" in accessor:
            raise MeshError("it has sparse accessors. Export it as plain triangles.")
        view = self.tree["bufferViews"][counted(accessor["bufferView"])]
        kind, width = np.dtype(KINDS[accessor["componentType"]]), WIDTHS[accessor["type"]]
        count, stride = counted(accessor["count"]), counted(view.get("byteStride", 0)) or kind.itemsize * width
        begin = counted(view.get("byteOffset", 0)) + counted(accessor.get("byteOffset", 0))
        length = (count - 1) * stride + kind.itemsize * width if count else 0
        inside = begin + length <= counted(view.get("byteOffset", 0)) + counted(view["byteLength"])
        if (
            counted(view.get("buffer", 0)) != 0
            or not inside
            or begin + length > len(self.binary)
            or stride < kind.itemsize * width
        ):
            raise MeshError(f"accessor {index} reaches beyond the {len(self.binary)} bytes that are there. It was cut.")
        rows = np.ndarray((count, width), kind, self.binary, begin, (stride, kind.itemsize))
        if kind.kind == "f" or accessor["type"] == "SCALAR":
            return rows
        return np.asarray(rows / float(np.iinfo(kind).max))  # colours in whole numbers are normalised


def counted(value: Any) -> int:
    """A number that can be an index or a size."""
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < 1 << 40:
        raise ValueError(f"{value!r} is no index or size")
    return value


def glb_chunk(kind: int, data: bytes, fill: bytes) -> bytes:
    """A chunk of a GLB, filled up to whole words."""
    padded = data + fill * (-len(data) % 4)
    return struct.pack("<II", len(padded), kind) + padded


def glb_chunks(data: bytes) -> tuple[dict[str, Any], bytes]:
    """The JSON and the binary chunk of a GLB; nothing outside of it is asked for."""
    head = struct.unpack_from("<III", data) if len(data) >= 12 else (0, 0, 0)
    if head[:2] != (MAGIC, 2) or head[2] != len(data):
        raise MeshError(f"{len(data)} bytes are no whole GLB of version 2. It was cut, or it is something else.")
    at, found = 12, dict[int, bytes]()
    while at + 8 <= len(data):
        size, kind = struct.unpack_from("<II", data, at)
        if at + 8 + size > len(data):
            raise MeshError(f"a chunk of {size} bytes does not fit into the file. It was cut.")
        found.setdefault(kind, data[at + 8 : at + 8 + size])
        at += 8 + size
    try:
        tree = json.loads(found.get(JSON_CHUNK, b""))
    except (ValueError, RecursionError) as problem:
        raise MeshError(f"its JSON is not readable ({problem}). Export it again.") from None
    if not isinstance(tree, dict) or tree.get("extensionsRequired"):
        raise MeshError("it needs extensions (compression, most likely). Export it as plain triangles.")
    return tree, found.get(BINARY_CHUNK, b"")


def _placed(node: dict[str, Any]) -> np.ndarray:
    if "matrix" in node:
        T = np.array(node["matrix"], float).reshape(4, 4).T
    else:
        x, y, z, w = node.get("rotation", (0.0, 0.0, 0.0, 1.0))
        T = Mount(quat_wxyz=(w, x, y, z)).T_parent_camera if any((x, y, z)) else np.eye(4)
        T[:3, :3] = T[:3, :3] * np.array(node.get("scale", (1, 1, 1)), float)
        T[:3, 3] = node.get("translation", (0, 0, 0))
    if not np.isfinite(T).all():
        raise ValueError("a node is placed by numbers that are not finite")
    return T


def to_linear(display: np.ndarray) -> np.ndarray:
    """glTF keeps colours of vertices as linear light; ours are as displayed (sRGB)."""
    c = display.clip(0, 1).astype(float)
    return np.asarray(np.where(c <= 0.04045, c / 12.92, ((c + 0.055) / 1.055) ** 2.4))


def to_display(linear: np.ndarray) -> np.ndarray:
    """Colours as displayed (sRGB) of linear light."""
    c = np.clip(linear.astype(float), 0, 1)
    return np.asarray(np.where(c <= 0.0031308, 12.92 * c, 1.055 * c ** (1 / 2.4) - 0.055))
