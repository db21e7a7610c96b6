"""Mesh files: OBJ, PLY, binary STL and GLB in and out; what lies about its size is refused before it is believed.

mesh = read_mesh(path)           by the ending of its name; metres, in the file's own frame (GLB: turned to z up)
write_mesh(path, mesh)           colours of vertices stay in OBJ, PLY and GLB; STL knows none
write_mesh(path, baked)          with a texture: OBJ (and a .mtl and .png beside it) and GLB
"""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np

from twinproof.nouns.baked import Baked
from twinproof.nouns.errors import MeshError
from twinproof.nouns.files import write_whole
from twinproof.nouns.mesh import Mesh
from twinproof.nouns.pictures import png_bytes
from twinproof.nouns.twin_files import HEADER_LIMIT, NUMBERS

MOST_BYTES = 1 << 30
MOST_FACES = 20_000_000
FORMATS = (".obj", ".ply", ".stl", ".glb")
_STL = np.dtype([("normal", "<f4", 3), ("corners", "<f4", (3, 3)), ("attribute", "<u2")])


def read_mesh(path: Path) -> Mesh:
    """The triangles in a file; polygons become fans. Normals, materials and textures are passed over."""
    if not path.is_file():
        raise MeshError(f"{path} does not exist. Check the path.")
    if path.stat().st_size > MOST_BYTES:
        raise MeshError(f"{path} has {path.stat().st_size >> 20} MB, {MOST_BYTES >> 20} MB are read. Simplify it.")
    data = path.read_bytes()
    try:
        match path.suffix.lower():
            case ".obj":
                return _read_obj(data)
            case ".ply":
                return _read_ply(data)
            case ".stl":
                return _read_stl(data)
            case ".glb":
                from twinproof.nouns.mesh_glb import read_glb

                return read_glb(data)
            case other:
                raise MeshError(f"no mesh format has the ending {other!r}; there are {', '.join(FORMATS)}.")
    except MeshError as problem:
        raise MeshError(f"{path}: {problem}") from None


def write_mesh(path: Path, mesh: Mesh | Baked) -> None:
    """Writes a mesh in the format of its ending; readers see the old file or the new one, never a part."""
    plain, baked = (mesh.mesh, mesh) if isinstance(mesh, Baked) else (mesh, None)
    match path.suffix.lower():
        case ".obj":
            data = _obj(path, plain, baked)
        case ".ply" if baked is None:
            data = _ply(plain)
        case ".stl" if baked is None:
            data = _stl(plain)
        case ".glb":
            from twinproof.nouns.mesh_glb import glb_bytes

            data = glb_bytes(mesh)
        case other:
            what = "no mesh format" if baked is None else "no format with a texture"
            known = FORMATS if baked is None else (".obj", ".glb")
            raise MeshError(f"{path}: {what} has the ending {other!r}; there are {', '.join(known)}.")
    try:
        write_whole(path, data)
    except OSError as problem:
        raise MeshError(f"{path} cannot be written ({problem.strerror}). Name a place that you may write to.") from None


def welded(mesh: Mesh) -> Mesh:
    """The same with vertices at the same place made one (colours averaged); faces that collapse are left out."""
    points, inverse = np.unique(mesh.vertices, axis=0, return_inverse=True)
    inverse = inverse.reshape(-1)
    faces = inverse[mesh.faces]
    whole = (faces[:, 0] != faces[:, 1]) & (faces[:, 1] != faces[:, 2]) & (faces[:, 2] != faces[:, 0])
    colours = None
    if mesh.colours is not None:
        colours = np.zeros_like(points)
        np.add.at(colours, inverse, mesh.colours)
        colours /= np.bincount(inverse, minlength=len(points))[:, None]
    return Mesh(points, faces[whole], colours)


def _triangles(count: int) -> None:
    if count > MOST_FACES:
        raise MeshError(f"it has {count} faces; {MOST_FACES} are read. Simplify it.")


def _read_obj(data: bytes) -> Mesh:
    corners, faces = list[list[float]](), list[tuple[int, int, int]]()
    for number, line in enumerate(data.decode("utf-8", "replace").splitlines(), 1):
        words = line.split()
        try:
            if words[:1] == ["v"]:
                corners.append([float(word) for word in words[1:]])
            elif words[:1] == ["f"]:
                index = [int(word.split("/")[0]) for word in words[1:]]
                index = [i - 1 if i > 0 else len(corners) + i for i in index]
                if 0 in [int(word.split("/")[0]) for word in words[1:]] or min(index) < 0:
                    raise ValueError("a corner is counted from 1, or back from -1")
                faces += [(index[0], index[k], index[k + 1]) for k in range(1, len(index) - 1)]
        except ValueError as problem:
            raise MeshError(f"line {number} is not readable ({problem}). Export it again.") from None
    _triangles(len(faces))
    widths = {len(row) for row in corners}
    if not widths <= {3, 4} and widths != {6}:
        raise MeshError(
            f"its vertices have {sorted(widths)} numbers; x y z, or x y z r g b in all of them. Export it again."
        )
    rows = np.array([row[:6] if len(row) == 6 else row[:3] for row in corners], float).reshape(len(corners), -1)
    coloured = widths == {6}
    return Mesh(rows[:, :3].reshape(-1, 3), np.array(faces, np.int64).reshape(-1, 3), rows[:, 3:] if coloured else None)


def _obj(path: Path, mesh: Mesh, baked: Baked | None) -> bytes:
    lines = list[str]()
    if baked is not None:
        name = path.stem
        write_whole(path.with_suffix(".png"), png_bytes(baked.texture))
        write_whole(path.with_suffix(".mtl"), f"newmtl {name}\nKd 1 1 1\nmap_Kd {name}.png\n".encode())
        lines += [f"mtllib {name}.mtl", f"usemtl {name}"]
    rows = mesh.vertices if mesh.colours is None else np.concatenate([mesh.vertices, mesh.colours], axis=1)
    lines += ["v " + " ".join(f"{x:.9g}" for x in row) for row in rows.tolist()]
    if baked is None:
        lines += [f"f {a} {b} {c}" for a, b, c in (mesh.faces + 1).tolist()]
    else:
        uv, index = np.unique(baked.uv.reshape(-1, 2), axis=0, return_inverse=True)
        lines += [f"vt {u:.7g} {v:.7g}" for u, v in uv.tolist()]
        at = (index.reshape(-1, 3) + 1).tolist()
        both = zip((mesh.faces + 1).tolist(), at, strict=True)
        lines += ["f " + " ".join(f"{i}/{t}" for i, t in zip(face, uvs, strict=True)) for face, uvs in both]
    return ("\n".join(lines) + "\n").encode()


def _read_stl(data: bytes) -> Mesh:
    count = struct.unpack_from("<I", data, 80)[0] if len(data) >= 84 else -1
    if len(data) != 84 + 50 * count:
        raise MeshError(
            f"{len(data)} bytes do not hold the {count} triangles that the header counts. It was cut, or it is an "
            "ASCII STL: export it as binary STL."
        )
    _triangles(count)
    corners = np.frombuffer(data, _STL, offset=84)["corners"].reshape(-1, 3).astype(np.float64)
    return welded(Mesh(corners, np.arange(3 * count).reshape(-1, 3)))


def _stl(mesh: Mesh) -> bytes:
    rows = np.zeros(len(mesh.faces), _STL)
    corners = mesh.vertices[mesh.faces]
    normal = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    length = np.linalg.norm(normal, axis=1, keepdims=True)
    rows["normal"], rows["corners"] = normal / np.where(length > 0, length, 1), corners
    return b"twinproof".ljust(80, b" ") + struct.pack("<I", len(rows)) + rows.tobytes()


def _ply(mesh: Mesh) -> bytes:
    kinds = [(name, "<f8") for name in "xyz"]
    lines = [f"property double {name}" for name in "xyz"]
    if mesh.colours is not None:
        kinds += [(name, "u1") for name in ("red", "green", "blue")]
        lines += [f"property uchar {name}" for name in ("red", "green", "blue")]
    rows = np.zeros(len(mesh.vertices), kinds)
    for k, name in enumerate("xyz"):
        rows[name] = mesh.vertices[:, k]
    if mesh.colours is not None:
        for k, name in enumerate(("red", "green", "blue")):
            rows[name] = np.round(mesh.colours[:, k].clip(0, 1) * 255)
    faces = np.zeros(len(mesh.faces), [("count", "u1"), ("corners", "<i4", 3)])
    faces["count"], faces["corners"] = 3, mesh.faces
    head = [
        *("ply", "format binary_little_endian 1.0", f"element vertex {len(rows)}", *lines),
        *(f"element face {len(faces)}", "property list uchar int vertex_indices", "end_header\n"),
    ]
    return "\n".join(head).encode() + rows.tobytes() + faces.tobytes()


def _read_ply(data: bytes) -> Mesh:
    end = data.find(b"end_header\n", 0, HEADER_LIMIT)
    if not data.startswith(b"ply\n") or end < 0:
        raise MeshError("it has no PLY header. Write a PLY with vertices and faces.")
    layout, elements = _ply_header(data[:end].decode("utf-8", "replace"))
    body = data[end + len(b"end_header\n") :]
    if layout != "binary_little_endian":
        raise MeshError(f"it is {layout}; binary_little_endian is read. Export it as that.")
    (_, count, fields), (_, number, (index,)) = elements
    dtype = np.dtype([(name, NUMBERS[kind]) for name, kind in fields])
    size, corner = NUMBERS[index[1]], NUMBERS[index[2]]
    row = np.dtype([("count", size), ("corners", corner, 3)])
    needed = count * dtype.itemsize + number * row.itemsize
    if len(body) != needed:
        raise MeshError(
            f"the header promises {needed} bytes ({count} vertices, {number} triangles), the file has {len(body)}. It "
            "was cut, or its faces are no triangles: export it as triangles."
        )
    _triangles(number)
    rows = np.frombuffer(body, dtype, count)
    faces = np.frombuffer(body, row, number, offset=count * dtype.itemsize)
    if (faces["count"] != 3).any():
        raise MeshError("not all of its faces are triangles. Export it as triangles.")
    colours = None
    if {"red", "green", "blue"} <= set(dtype.names or ()):
        colours = np.stack([rows[name] for name in ("red", "green", "blue")], axis=1).astype(float)
        colours /= 255.0 if dtype["red"].kind in "iu" else 1.0
    return Mesh(np.stack([rows[name] for name in "xyz"], axis=1), faces["corners"].astype(np.int64), colours)


def _ply_header(text: str) -> tuple[str, list[tuple[str, int, list[tuple[str, ...]]]]]:
    """The layout, and for vertices and faces: name, count and fields. Other elements are refused."""
    layout, elements = "", list[tuple[str, int, list[tuple[str, ...]]]]()
    for line in text.splitlines()[1:]:
        match line.split():
            case ["format", layout, "1.0"]:
                pass
            case ["comment" | "obj_info", *_]:
                pass
            case ["element", name, number] if number.isdecimal() and len(number) < 12:
                elements.append((name, int(number), []))
            case ["property", "list", size, corner, name] if elements and {size, corner} <= set(NUMBERS):
                elements[-1][2].append((name, size, corner))
            case ["property", kind, name] if elements and kind in NUMBERS:
                elements[-1][2].append((name, kind))
            case _:
                raise MeshError(f"its header says {line[:60]!r}, which no mesh does. Export it again.")
    good = [name for name, _, _ in elements] == ["vertex", "face"]
    good = good and set("xyz") <= {field[0] for field in elements[0][2]} and all(len(f) == 2 for f in elements[0][2])
    good = good and len({field[0] for field in elements[0][2]}) == len(elements[0][2])
    if not good or [len(field) for field in elements[1][2]] != [3]:
        raise MeshError("its header does not name vertices with x y z, then faces with one list. Export it as a mesh.")
    return layout, elements
