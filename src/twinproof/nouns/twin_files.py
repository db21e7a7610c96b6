"""What can be said about a twin's files without simulating: the scene's references, splat headers, closed meshes."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from xml.parsers import expat

import numpy as np

from twinproof.nouns.errors import TwinError
from twinproof.nouns.files import inside

SCENE_LIMIT = 64 << 20  # bytes
HEADER_LIMIT = 64 << 10
NUMBERS = {
    **{"char": "<i1", "uchar": "<u1", "int8": "<i1", "uint8": "<u1", "short": "<i2", "ushort": "<u2"},
    **{"int16": "<i2", "uint16": "<u2", "int": "<i4", "uint": "<u4", "int32": "<i4", "uint32": "<u4"},
    **{"float": "<f4", "float32": "<f4", "double": "<f8", "float64": "<f8"},
}  # fmt: skip
SPLAT_FIELDS = (
    *("x", "y", "z", "f_dc_0", "f_dc_1", "f_dc_2", "opacity"),
    *("scale_0", "scale_1", "rot_0", "rot_1", "rot_2", "rot_3"),  # surfels have no scale_2
)


@dataclass(frozen=True)
class Scene:
    """What an MJCF scene names: its bodies, and its files relative to the twin's folder."""

    bodies: tuple[str, ...]
    files: tuple[str, ...]


def read_scene(root: Path) -> Scene:
    """The names in `root`/scene.xml; every file exists and lies inside the root, every body has a name."""
    path = root / "scene.xml"
    if not path.is_file():
        raise TwinError(f"{path} does not exist. A twin's physics is one MJCF file of that name.")
    if path.stat().st_size > SCENE_LIMIT:
        raise TwinError(
            f"{path} is larger than {SCENE_LIMIT >> 20} MB. Put meshes and textures into files of their own."
        )
    references = _References(path)
    files = tuple(sorted(set(references.found())))
    for name in files:
        if not inside(root, name, TwinError).is_file():
            raise TwinError(f"{path} names {name!r}, which is not in the twin's folder. Copy it there.")
    if "" in references.bodies:
        raise TwinError(f"{path} has a body without a name. Name every body: the twin says where each came from.")
    return Scene(tuple(references.bodies), files)


class _References:
    """Walks through a scene once and collects file names; what could reach outside the folder is refused."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.folders = {"mesh": "", "texture": ""}
        self.strip = False
        self.files: list[tuple[str, str]] = []
        self.bodies: list[str] = []

    def found(self) -> list[str]:
        parser = expat.ParserCreate()
        parser.StartDoctypeDeclHandler = self._doctype
        parser.StartElementHandler = self._element
        try:
            parser.Parse(self.path.read_bytes(), True)
        except expat.ExpatError as problem:
            raise TwinError(f"{self.path} is not well-formed XML ({problem}). Write it again.") from None
        names = [(kind, PurePosixPath(name).name if self.strip else name) for kind, name in self.files]
        return [PurePosixPath(self.folders[kind], name).as_posix() for kind, name in names]

    def _doctype(self, *_: object) -> None:
        raise TwinError(f"{self.path} has a DOCTYPE, which can pull in other files. Remove it: MJCF needs none.")

    def _element(self, tag: str, attributes: dict[str, str]) -> None:
        if tag in ("include", "model") and "file" in attributes:
            raise TwinError(
                f"{self.path} pulls in {attributes['file']!r} with <{tag}>. A twin's scene is one file: write it out "
                "whole (MjSpec.to_xml does)."
            )
        if tag == "body":
            self.bodies.append(attributes.get("name", ""))
        if tag == "compiler":
            both = attributes.get("assetdir")
            for kind in self.folders:
                self.folders[kind] = attributes.get(f"{kind}dir", both if both is not None else self.folders[kind])
            self.strip = attributes.get("strippath", str(self.strip)).lower() == "true"
        kind = "texture" if tag == "texture" else "mesh"
        self.files += [(kind, value) for name, value in attributes.items() if name.startswith("file") and value]


@dataclass(frozen=True)
class SplatHeader:
    """How a splat PLY is laid out: count of records, their fields in order, and where the first begins."""

    count: int
    fields: tuple[str, ...]
    kinds: tuple[str, ...]  # of the fields, as PLY names them
    offset: int
    comments: tuple[str, ...] = ()

    @property
    def record_bytes(self) -> int:
        """The size of one splat."""
        return sum(int(NUMBERS[kind][2]) for kind in self.kinds)

    @property
    def dtype(self) -> np.dtype[np.void]:
        """One splat as a numpy record."""
        return np.dtype([(name, NUMBERS[kind]) for name, kind in zip(self.fields, self.kinds, strict=True)])


def splat_header(path: Path) -> SplatHeader:
    """The header of a splat PLY in the standard layout, believed only if it agrees with the file's size."""
    if not path.is_file():
        raise TwinError(f"{path} does not exist. Write the splats there, or say that the bodies lack them.")
    with path.open("rb") as handle:
        head = handle.read(HEADER_LIMIT)
    end = head.find(b"end_header\n")
    if not head.startswith(b"ply\n") or end < 0:
        raise TwinError(f"{path} has no PLY header. Splats are a binary PLY in the standard 3DGS layout.")
    header = _read_header(path, head[:end].decode("utf-8", "replace"), end + len(b"end_header\n"))
    count, fields, record = header.count, header.fields, header.record_bytes
    needed, size = header.offset + count * record, path.stat().st_size
    if needed != size:
        raise TwinError(
            f"{path}: the header promises {needed} bytes ({count} splats of {record}), the file has {size}. It was cut "
            "or its header lies: export it again."
        )
    lacking = [name for name in SPLAT_FIELDS if name not in fields]
    if lacking:
        raise TwinError(f"{path} lacks the fields {', '.join(lacking)} of the standard 3DGS layout. Export it again.")
    return header


def _read_header(path: Path, text: str, offset: int) -> SplatHeader:
    count, properties, comments = -1, dict[str, str](), list[str]()
    for line in text.splitlines()[1:]:
        match line.split():
            case ["format", "binary_little_endian", "1.0"]:
                pass
            case ["comment", *_]:
                comments.append(line.strip().removeprefix("comment").strip())
            case ["format", kind, *_]:
                raise TwinError(f"{path} is {kind}; splats are read as binary_little_endian 1.0. Export it as that.")
            case ["element", "vertex", number] if number.isdecimal() and len(number) < 16 and count < 0:
                count = int(number)
            case ["property", kind, name] if kind in NUMBERS and count >= 0 and name not in properties:
                properties[name] = kind
            case ["property", kind, name] if kind not in NUMBERS:
                raise TwinError(
                    f"{path}: the property {name[:40]} has the unknown type {kind[:40]!r}. Write it as float."
                )
            case _:
                raise TwinError(f"{path}: the header says {line[:60]!r}, which no standard splat file does.")
    return SplatHeader(count, tuple(properties), tuple(properties.values()), offset, tuple(comments))


def closed_volume(path: Path) -> float | None:
    """The volume in m³ of a closed OBJ or binary STL; None for other formats. An open mesh is an error."""
    match path.suffix.lower():
        case ".obj":
            corners, faces = _read_obj(path)
        case ".stl":
            corners, faces = _read_stl(path)
        case _:
            return None
    if not len(faces):
        raise TwinError(f"{path} has no faces. A collision shape is a closed mesh of triangles.")
    edges = np.concatenate([faces[:, [0, 1]], faces[:, [1, 2]], faces[:, [2, 0]]])
    # Closed and with its faces turned alike: every directed edge stands once, and so does its opposite.
    once = {tuple(edge) for edge in edges.tolist()}
    lonely = sum((b, a) not in once for a, b in once) + len(edges) - len(once)
    if lonely:
        raise TwinError(
            f"{path} is not closed: {lonely} of {len(edges)} edges have no opposite. Fill its holes and turn its "
            "faces alike, or leave it out of the collision shapes."
        )
    a, b, c = (corners[faces[:, k]] - corners[faces[0, 0]] for k in range(3))
    return float(np.einsum("fi,fi->f", a, np.cross(b, c)).sum() / 6)


def _read_stl(path: Path) -> tuple[np.ndarray, np.ndarray]:
    data = path.read_bytes()
    count = struct.unpack_from("<I", data, 80)[0] if len(data) >= 84 else -1
    if len(data) != 84 + 50 * count:
        raise TwinError(f"{path} is no binary STL: {len(data)} bytes do not hold the triangles its header counts.")
    record = np.dtype([("normal", "<f4", 3), ("corners", "<f4", (3, 3)), ("colour", "<u2")])
    triangles = np.frombuffer(data, record, offset=84)["corners"].reshape(-1, 3)
    corners, inverse = np.unique(triangles, axis=0, return_inverse=True)
    return corners.astype(np.float64), inverse.reshape(-1, 3)


def _read_obj(path: Path) -> tuple[np.ndarray, np.ndarray]:
    corners, faces = list[list[float]](), list[list[int]]()
    try:
        for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
            match line.split():
                case ["v", x, y, z, *_]:
                    corners.append([float(x), float(y), float(z)])
                case ["f", *names]:
                    index = [int(name.split("/")[0]) for name in names]
                    index = [i - 1 if i > 0 else len(corners) + i for i in index]
                    faces += [[index[0], index[k], index[k + 1]] for k in range(1, len(index) - 1)]
        points, triangles = np.array(corners, float).reshape(-1, 3), np.array(faces, int).reshape(-1, 3)
        if triangles.size and not 0 <= triangles.min() <= triangles.max() < len(points):
            raise ValueError("a face names a corner that does not exist")
    except ValueError as problem:
        raise TwinError(f"{path} is no readable OBJ ({problem}). Export it again.") from None
    return points, triangles
