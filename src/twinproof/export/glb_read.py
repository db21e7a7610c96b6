"""GLB in, with materials and textures: surfaces that stand in the world."""

from __future__ import annotations

import io
from typing import Any

import numpy as np

from twinproof.nouns.errors import MeshError, RecordingError
from twinproof.nouns.mesh import Mesh
from twinproof.nouns.mesh_files import MOST_FACES
from twinproof.nouns.mesh_glb import GlbFile, counted, open_glb, to_display
from twinproof.nouns.pictures import picture_head
from twinproof.sim.surface import Surface

MOST_PIXELS = 1 << 26  # of one texture


def read_glb_surfaces(data: bytes) -> tuple[Surface, ...]:
    """All triangles of the default scene, one surface for each primitive."""
    file = open_glb(data)
    count = sum(len(part.faces) for part in file.parts)
    if count > MOST_FACES:
        raise MeshError(f"it has {count} faces; {MOST_FACES} are read. Simplify it.")
    pictures, found = dict[int, np.ndarray](), list[Surface]()
    for part in file.parts:
        try:
            name, rgba, texture = _material(file, part.material, pictures)
        except (KeyError, IndexError, TypeError, ValueError, AttributeError) as problem:
            raise MeshError(
                f"a material is not sound ({type(problem).__name__}: {problem}). Export it again."
            ) from None
        st = part.st[part.faces].astype(float) if part.st is not None and texture is not None else None
        mesh = Mesh(part.points, part.faces, part.colours)
        found.append(Surface(name, part.node, mesh, rgba, st, texture if st is not None else None))
    return tuple(found)


def _material(
    file: GlbFile, index: int | None, pictures: dict[int, np.ndarray]
) -> tuple[str, tuple[float, float, float, float], np.ndarray | None]:
    if index is None:
        return "", (1.0, 1.0, 1.0, 1.0), None
    material: dict[str, Any] = file.tree["materials"][counted(index)]
    look = material.get("pbrMetallicRoughness", {})
    r, g, b, a = (float(x) for x in look.get("baseColorFactor", (1, 1, 1, 1)))
    shown = to_display(np.array([r, g, b])).tolist()
    texture = None
    if "baseColorTexture" in look:
        which = counted(file.tree["textures"][counted(look["baseColorTexture"]["index"])]["source"])
        if which not in pictures:
            pictures[which] = decoded(_image(file, which), f"image {which}")
        texture = pictures[which]
    return str(material.get("name", "")), (shown[0], shown[1], shown[2], a), texture


def _image(file: GlbFile, index: int) -> bytes:
    image = file.tree["images"][index]
    if "bufferView" not in image:
        raise MeshError(f"image {index} lies outside of the file ({str(image.get('uri'))[:60]!r}). Put it inside.")
    view = file.tree["bufferViews"][counted(image["bufferView"])]
    begin, size = counted(view.get("byteOffset", 0)), counted(view["byteLength"])
    if begin + size > len(file.binary):
        raise MeshError(f"image {index} reaches beyond the {len(file.binary)} bytes that are there. It was cut.")
    return file.binary[begin : begin + size]


def decoded(data: bytes, where: str) -> np.ndarray:
    """The RGB pixels of a PNG or JPEG; its size is asked first."""
    import av

    try:
        head = picture_head(data, where)
        if head.width * head.height > MOST_PIXELS:
            raise MeshError(
                f"{where} says it is {head.width} × {head.height}; {MOST_PIXELS} pixels are read. Shrink it."
            )
        with av.open(io.BytesIO(data)) as container:
            frame = next(container.decode(video=0))
        return np.array(frame.to_ndarray(format="rgb24"))
    except (RecordingError, av.error.FFmpegError, StopIteration, OSError, IndexError) as problem:
        raise MeshError(f"{where} is no sound picture ({problem}). Export it again.") from None
