"""USDZ in: the package is scanned before USD opens it, every asset path before the stage is composed.

A USDZ stores its files plainly, so it cannot grow. USD itself follows absolute paths out of a package: layers are
opened one by one, and a path that is not a file of the package is refused before anything is resolved.
"""

from __future__ import annotations

import posixpath
import zipfile
from pathlib import Path
from typing import Any

import numpy as np

from twinproof.export.glb_read import decoded
from twinproof.export.read_back import ReadBack
from twinproof.export.usd_looks import check_splats
from twinproof.export.usdz import usd
from twinproof.nouns.errors import TwinError
from twinproof.nouns.mesh import Mesh
from twinproof.nouns.mesh_glb import UP, to_display
from twinproof.nouns.splats import Splats, joined
from twinproof.sim.splat.placed import placed
from twinproof.sim.surface import Surface

LAYERS = (".usdc", ".usda", ".usd")
PICTURES = (".png", ".jpg", ".jpeg")
MOST_FILES = 10_000
MOST_PRIMS = 200_000


def read_usdz(path: Path) -> ReadBack:
    """The visible meshes, splats, masses and joints of a package, in metres, z up."""
    names = scanned(path)
    usd()
    from pxr import Usd, UsdGeom

    for name in names:
        if name.lower().endswith(LAYERS):
            _check_layer(path, name, names)
    stage = Usd.Stage.Open(str(path))
    outside = [layer for layer in stage.GetUsedLayers(False) if not layer.anonymous and not _within(path, layer)]
    if outside:
        raise TwinError(
            f"it pulls in {outside[0].identifier!r}, which is not inside of it. Pack everything into one file."
        )
    metres = UsdGeom.GetStageMetersPerUnit(stage)
    turn = np.eye(4) if UsdGeom.GetStageUpAxis(stage) == UsdGeom.Tokens.z else UP
    if not 1e-6 <= metres <= 1e6:
        raise TwinError(f"its unit is {metres} m. Write it in metres.")
    return _Reader(path, stage, turn @ np.diag([metres, metres, metres, 1.0])).read()


def scanned(path: Path) -> tuple[str, ...]:
    """The names of a package's files, after nothing is packed, hidden, doubled or leads outside."""
    try:
        with zipfile.ZipFile(path) as archive:
            entries = archive.infolist()
    except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError) as problem:
        raise TwinError(f"it is no sound zip ({problem}). It was cut, or it is something else.") from None
    if not entries or len(entries) > MOST_FILES:
        raise TwinError(f"it holds {len(entries)} files; 1 to {MOST_FILES} are read. Pack it again.")
    for entry in entries:
        name = entry.filename
        if entry.compress_type != zipfile.ZIP_STORED or entry.compress_size != entry.file_size or entry.flag_bits & 1:
            raise TwinError(
                f"it holds {name[:80]!r} packed or encrypted; a USDZ stores its files plainly. Pack it again."
            )
        if name.startswith(("/", "\\")) or ".." in name.replace("\\", "/").split("/") or ":" in name or "\0" in name:
            raise TwinError(f"it holds a file named {name[:80]!r}, which leads out of it. Pack it again.")
        if not name.lower().endswith((*LAYERS, *PICTURES)):
            raise TwinError(f"it holds {name[:80]!r}; layers and pictures are read, nothing else. Take it out.")
    names = [entry.filename for entry in entries]
    size = sum(entry.file_size for entry in entries)
    if len(set(names)) != len(names) or size > path.stat().st_size:
        raise TwinError("its directory lists files twice, or more bytes than there are. It is made to deceive.")
    if not names[0].lower().endswith(LAYERS):
        raise TwinError(f"its first file is {names[0][:80]!r}; a USDZ begins with its root layer. Pack it again.")
    return tuple(names)


def _check_layer(path: Path, name: str, names: tuple[str, ...]) -> None:
    """Every asset path in a layer names a file of the package."""
    from pxr import Sdf, Tf

    layer, told = None, "it is no layer"
    try:
        layer = Sdf.Layer.OpenAsAnonymous(f"{path}[{name}]")
    except Tf.ErrorException as problem:
        told = " ".join(str(problem).split())[-160:]
    if layer is None:
        raise TwinError(f"its layer {name!r} cannot be read ({told}). It was cut, or it is something else.")
    found, prims = list(layer.GetCompositionAssetDependencies()), list[Any]()
    layer.Traverse(Sdf.Path.absoluteRootPath, prims.append)
    if len(prims) > MOST_PRIMS:
        raise TwinError(
            f"its layer {name!r} has {len(prims)} prims and properties; {MOST_PRIMS} are read. Simplify it."
        )
    for spec_path in prims:
        spec = layer.GetObjectAtPath(spec_path)
        if spec is None:
            continue
        for key in spec.ListInfoKeys():
            if key in ("clips", "clipSets"):
                raise TwinError(f"its layer {name!r} plays value clips, which name other files. Write them out.")
            if key != "subLayerOffsets":  # the one that Python cannot be handed, and no path
                found += _assets(spec.GetInfo(key))
        if isinstance(spec, Sdf.AttributeSpec):
            found += [asset for time in layer.ListTimeSamplesForPath(spec_path)
                      for asset in _assets(layer.QueryTimeSample(spec_path, time))]  # fmt: skip
    for asset in found:
        target = posixpath.normpath(posixpath.join(posixpath.dirname(name), asset))
        if target not in names:
            raise TwinError(
                f"its layer {name!r} names {asset[:120]!r}, which is not inside of it. Pack everything into one file."
            )


def _assets(value: Any) -> list[str]:
    from pxr import Sdf

    if isinstance(value, Sdf.AssetPath):
        return [value.path] if value.path else []
    if isinstance(value, Sdf.AssetPathArray):
        return [each.path for each in value if each.path]
    if isinstance(value, dict):
        return [asset for each in value.values() for asset in _assets(each)]
    return []


def _within(path: Path, layer: Any) -> bool:
    return str(layer.realPath or layer.identifier).split("[")[0] == str(path)


class _Reader:
    """Walks through a stage; `T` takes the stage's world to ours."""

    def __init__(self, path: Path, stage: Any, T: np.ndarray) -> None:
        from pxr import UsdGeom

        self.path, self.stage, self.T = path, stage, T
        self.poses = UsdGeom.XformCache()
        self.pictures: dict[str, np.ndarray] = {}

    def read(self) -> ReadBack:
        from pxr import UsdGeom, UsdPhysics, UsdVol

        shown, splats, masses, joints = list[Surface](), list[Splats](), dict[str, float](), list[str]()
        for prim in self.stage.Traverse():
            if prim.IsA(UsdGeom.Imageable) and UsdGeom.Imageable(prim).ComputePurpose() == UsdGeom.Tokens.guide:
                continue
            if prim.IsA(UsdGeom.Mesh):
                shown.append(self.surface(UsdGeom.Mesh(prim)))
            elif prim.IsA(UsdVol.ParticleField3DGaussianSplat):
                splats.append(self.splats(prim))
            elif prim.IsA(UsdPhysics.Joint):
                joints.append(prim.GetDisplayName() or prim.GetName())
            if prim.HasAPI(UsdPhysics.MassAPI):
                mass = UsdPhysics.MassAPI(prim).GetMassAttr().Get()
                masses[prim.GetDisplayName() or prim.GetName()] = float(mass or 0.0)
        return ReadBack(tuple(shown), joined(splats) if splats else None, masses, tuple(joints))

    def pose(self, prim: Any) -> np.ndarray:
        """T_world_prim; USD multiplies rows from the left."""
        return np.asarray(self.T @ np.array(self.poses.GetLocalToWorldTransform(prim)).T)

    def surface(self, mesh: Any) -> Surface:
        from pxr import UsdGeom, UsdShade

        prim = mesh.GetPrim()
        points, T = np.array(mesh.GetPointsAttr().Get() or [], float).reshape(-1, 3), self.pose(prim)
        counts = np.array(mesh.GetFaceVertexCountsAttr().Get() or [], int)
        index = np.array(mesh.GetFaceVertexIndicesAttr().Get() or [], int)
        if not len(counts) or counts.min() < 3 or counts.sum() != len(index):
            raise TwinError(f"{prim.GetPath()}: its faces do not fit its corners. It was cut, or it lies.")
        first = np.cumsum(counts) - counts
        fans = [np.stack([first, first + k, first + k + 1], axis=1)[counts > k + 1] for k in range(1, counts.max() - 1)]
        corners = np.concatenate(fans)
        placed_at = points @ T[:3, :3].T + T[:3, 3]
        primvars, colours = UsdGeom.PrimvarsAPI(prim), None
        tint, texture = self._look(UsdShade.MaterialBindingAPI(prim).ComputeBoundMaterial()[0])
        colour = mesh.GetDisplayColorPrimvar()
        values = np.array(colour.Get() or [], float).reshape(-1, 3)
        if colour.GetInterpolation() == "vertex" and len(values) == len(points):
            colours, tint = to_display(values), np.ones(3)
        elif tint is None:
            tint = values[0] if len(values) else np.full(3, 0.18)
        st, primvar = None, primvars.GetPrimvar("st")
        if texture is not None and primvar:
            flat = np.array(primvar.ComputeFlattened() or [], float).reshape(-1, 2)
            whole = primvar.GetInterpolation() == "faceVarying"
            if len(flat) != (len(index) if whole else len(points)):
                raise TwinError(
                    f"{prim.GetPath()}: its texture coordinates do not fit its corners. It was cut, or it lies."
                )
            st = flat[corners] if whole else flat[index[corners]]
            st = np.stack([st[..., 0], 1 - st[..., 1]], axis=-1)
        red, green, blue = to_display(tint).tolist()
        shape = Mesh(placed_at, index[corners], colours)
        name, link = prim.GetDisplayName() or prim.GetName(), prim.GetParent()
        return Surface(
            name, link.GetDisplayName() or link.GetName(), shape, (red, green, blue, 1.0), st,
            texture if st is not None else None,
        )  # fmt: skip

    def _look(self, material: Any) -> tuple[np.ndarray | None, np.ndarray | None]:
        """Linear tint and texture of a preview material."""
        from pxr import UsdShade

        shader = material.ComputeSurfaceSource()[0] if material else None
        colour = shader.GetInput("diffuseColor") if shader else None
        if not colour:
            return None, None
        source = colour.GetConnectedSources()[0]
        if not source:
            value = colour.Get()
            return (None if value is None else np.array(value, float)), None
        reader = UsdShade.Shader(source[0].source.GetPrim())
        if reader.GetIdAttr().Get() != "UsdUVTexture":
            return None, None
        name = reader.GetInput("file").Get().path.removeprefix("./")
        if name not in self.pictures:
            with zipfile.ZipFile(self.path) as archive:
                self.pictures[name] = decoded(archive.read(name), name)
        scale = reader.GetInput("scale")
        tint = np.array(scale.Get(), float)[:3] if scale and scale.Get() is not None else np.ones(3)
        return tint, self.pictures[name]

    def splats(self, prim: Any) -> Splats:
        check_splats(prim)
        field = {name: np.array(prim.GetAttribute(name).Get()) for name in ("positions", "scales", "opacities")}
        quats = np.roll(np.array(prim.GetAttribute("orientations").Get()), 1, axis=1)  # USD keeps them as x y z w
        degree = int(prim.GetAttribute("radiance:sphericalHarmonicsDegree").Get())
        sh = np.array(prim.GetAttribute("radiance:sphericalHarmonicsCoefficients").Get()).reshape(
            -1, (degree + 1) ** 2, 3
        )
        T = self.pose(prim)
        size = float(np.cbrt(np.linalg.det(T[:3, :3])))
        rigid = T.copy()
        rigid[:3, :3] /= size if size > 0 else 1.0
        if size <= 0 or np.abs(rigid[:3, :3] @ rigid[:3, :3].T - np.eye(3)).max() > 1e-4:
            raise TwinError(f"{prim.GetPath()}: its splats are sheared or mirrored by a transform. Apply it first.")
        opacity = field["opacities"].astype(float).clip(1e-6, 1 - 1e-6)
        name = prim.GetParent().GetDisplayName() or prim.GetParent().GetName()
        own = Splats(
            field["positions"], quats, np.log(np.maximum(field["scales"], 1e-12)), np.log(opacity / (1 - opacity)), sh,
            np.zeros(len(quats), np.int32), (name,),
        )  # fmt: skip
        return placed(own, rigid, size)
