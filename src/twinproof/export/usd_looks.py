"""What is seen, in USD: meshes with preview materials, and splats as particle fields, each below its link's prim."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from twinproof.nouns.errors import TwinError
from twinproof.nouns.mesh_glb import to_linear
from twinproof.nouns.pictures import png_bytes
from twinproof.nouns.splats import BANDS, Splats
from twinproof.sim.surface import Surface

REACH = 3.0  # standard deviations that a splat's extent counts


class Paint:
    """Preview materials in one scope; textures lie beside the layer, each once."""

    def __init__(self, stage: Any, scope: str, folder: Path) -> None:
        self.stage, self.scope, self.folder = stage, scope, folder
        self.files: dict[bytes, str] = {}
        self.count = 0

    def material(self, surface: Surface) -> Any:
        """A material that shows the surface's colours: one colour, a texture, or the colours of its vertices."""
        from pxr import Gf, Sdf, UsdShade

        path = f"{self.scope}/paint_{self.count}"
        self.count += 1
        material = UsdShade.Material.Define(self.stage, path)
        shader = UsdShade.Shader.Define(self.stage, f"{path}/surface")
        shader.CreateIdAttr("UsdPreviewSurface")
        shader.CreateInput("roughness", Sdf.ValueTypeNames.Float).Set(1.0)
        shader.CreateInput("metallic", Sdf.ValueTypeNames.Float).Set(0.0)
        shader.CreateInput("opacity", Sdf.ValueTypeNames.Float).Set(surface.rgba[3])
        colour = shader.CreateInput("diffuseColor", Sdf.ValueTypeNames.Color3f)
        tint = to_linear(np.array(surface.rgba[:3]))
        if surface.texture is not None:
            colour.ConnectToSource(self._texture(path, surface.texture, tint), "rgb")
        elif surface.mesh.colours is not None:
            colour.ConnectToSource(self._reader(f"{path}/colours", "float3", "displayColor"), "result")
        else:
            colour.Set(Gf.Vec3f(*tint.tolist()))
        material.CreateSurfaceOutput().ConnectToSource(shader.ConnectableAPI(), "surface")
        return material

    def _texture(self, path: str, texture: np.ndarray, tint: np.ndarray) -> Any:
        from pxr import Gf, Sdf, UsdShade

        data = png_bytes(texture)
        if data not in self.files:
            name = f"textures/{len(self.files)}.png"
            (self.folder / "textures").mkdir(exist_ok=True)
            (self.folder / name).write_bytes(data)
            self.files[data] = name
        shader = UsdShade.Shader.Define(self.stage, f"{path}/texture")
        shader.CreateIdAttr("UsdUVTexture")
        shader.CreateInput("file", Sdf.ValueTypeNames.Asset).Set(Sdf.AssetPath(f"./{self.files[data]}"))
        shader.CreateInput("sourceColorSpace", Sdf.ValueTypeNames.Token).Set("sRGB")
        for wrap in ("wrapS", "wrapT"):
            shader.CreateInput(wrap, Sdf.ValueTypeNames.Token).Set("repeat")
        shader.CreateInput("scale", Sdf.ValueTypeNames.Float4).Set(Gf.Vec4f(*tint.tolist(), 1.0))
        shader.CreateInput("st", Sdf.ValueTypeNames.Float2).ConnectToSource(
            self._reader(f"{path}/st", "float2", "st"), "result"
        )
        shader.CreateOutput("rgb", Sdf.ValueTypeNames.Float3)
        return shader.ConnectableAPI()

    def _reader(self, path: str, kind: str, primvar: str) -> Any:
        from pxr import Sdf, UsdShade

        shader = UsdShade.Shader.Define(self.stage, path)
        shader.CreateIdAttr(f"UsdPrimvarReader_{kind}")
        shader.CreateInput("varname", Sdf.ValueTypeNames.String).Set(primvar)
        shader.CreateOutput("result", getattr(Sdf.ValueTypeNames, kind.capitalize()))
        return shader.ConnectableAPI()


def define_mesh(stage: Any, path: str, vertices: np.ndarray, faces: np.ndarray) -> Any:
    """A triangle mesh, no subdivision, with its extent."""
    from pxr import UsdGeom, Vt

    mesh = UsdGeom.Mesh.Define(stage, path)
    points = np.ascontiguousarray(vertices, np.float32)
    mesh.CreatePointsAttr(Vt.Vec3fArray.FromNumpy(points))
    mesh.CreateFaceVertexCountsAttr(Vt.IntArray.FromNumpy(np.full(len(faces), 3, np.int32)))
    mesh.CreateFaceVertexIndicesAttr(Vt.IntArray.FromNumpy(np.ascontiguousarray(faces, np.int32).ravel()))
    mesh.CreateSubdivisionSchemeAttr("none")
    mesh.CreateExtentAttr(Vt.Vec3fArray.FromNumpy(np.stack([points.min(axis=0), points.max(axis=0)])))
    return mesh


def define_surface(stage: Any, path: str, surface: Surface, paint: Paint) -> None:
    """A visible surface with its material."""
    from pxr import Sdf, UsdGeom, UsdShade, Vt

    mesh = define_mesh(stage, path, surface.mesh.vertices, surface.mesh.faces)
    mesh.CreateDoubleSidedAttr(True)
    mesh.GetPrim().SetDisplayName(surface.name)
    tint = to_linear(np.array(surface.rgba[:3]))
    if surface.mesh.colours is not None:
        shown, where = to_linear(surface.mesh.colours) * tint, "vertex"
    else:
        shown, where = tint[None], "constant"
    mesh.CreateDisplayColorPrimvar(where).Set(Vt.Vec3fArray.FromNumpy(np.ascontiguousarray(shown, np.float32)))
    if surface.st is not None:
        st = np.stack([surface.st[..., 0], 1 - surface.st[..., 1]], axis=-1).reshape(-1, 2)  # USD: from the bottom
        primvar = UsdGeom.PrimvarsAPI(mesh).CreatePrimvar("st", Sdf.ValueTypeNames.TexCoord2fArray, "faceVarying")
        primvar.Set(Vt.Vec2fArray.FromNumpy(np.ascontiguousarray(st, np.float32)))
    UsdShade.MaterialBindingAPI.Apply(mesh.GetPrim()).Bind(paint.material(surface))


def define_splats(stage: Any, path: str, splats: Splats) -> None:
    """A particle field of Gaussians in the frame of the prim above it."""
    from pxr import UsdVol, Vt

    field = UsdVol.ParticleField3DGaussianSplat.Define(stage, path)
    prim = field.GetPrim()
    quats = splats.quats_wxyz / np.linalg.norm(splats.quats_wxyz, axis=1, keepdims=True)
    scales = np.exp(splats.log_scales)
    values: dict[str, Any] = {
        "positions": Vt.Vec3fArray.FromNumpy(np.ascontiguousarray(splats.means)),
        "orientations": Vt.QuatfArray.FromNumpy(np.ascontiguousarray(np.roll(quats, -1, axis=1), np.float32)),
        "scales": Vt.Vec3fArray.FromNumpy(np.ascontiguousarray(scales, np.float32)),
        "opacities": Vt.FloatArray.FromNumpy(
            (1 / (1 + np.exp(-splats.logit_opacities.clip(-50, 50)))).astype(np.float32)
        ),
        "radiance:sphericalHarmonicsDegree": splats.degree,
        "radiance:sphericalHarmonicsCoefficients": Vt.Vec3fArray.FromNumpy(
            np.ascontiguousarray(splats.sh.reshape(-1, 3))  # all of a splat, then the next: as the schema has it
        ),
    }
    for name, value in values.items():
        prim.GetAttribute(name).Set(value)
    # The colours were fitted to pictures as they are displayed, and are blended as such.
    prim.GetAttribute("radiance:sphericalHarmonicsCoefficients").SetColorSpace("srgb_rec709_scene")
    reach = REACH * scales.max(axis=1, keepdims=True)
    box = np.stack([(splats.means - reach).min(axis=0), (splats.means + reach).max(axis=0)])
    field.CreateExtentAttr(Vt.Vec3fArray.FromNumpy(np.ascontiguousarray(box, np.float32)))
    check_splats(prim)


def check_splats(prim: Any) -> None:
    """Lengths and values of a particle field fit together: no validator of USD looks at them (VG.035 asks for it)."""
    names = ("positions", "orientations", "scales", "opacities")
    found = {name: np.array(prim.GetAttribute(name).Get() or []) for name in names}
    count, where = len(found["positions"]), prim.GetPath()
    for name, values in found.items():
        if len(values) != count:
            raise TwinError(f"{where}: {len(values)} {name} for {count} positions. Each splat has one: write it again.")
        if not np.isfinite(values).all():
            raise TwinError(f"{where}: some {name} are not finite. Remove these splats, and write it again.")
    if not ((found["opacities"] >= 0) & (found["opacities"] <= 1)).all() or (found["scales"] < 0).any():
        raise TwinError(f"{where}: opacities lie between 0 and 1 and scales are positive; some do not. Write it again.")
    degree = prim.GetAttribute("radiance:sphericalHarmonicsDegree").Get()
    colours = np.array(prim.GetAttribute("radiance:sphericalHarmonicsCoefficients").Get() or []).reshape(-1, 3)
    if degree not in BANDS.values() or len(colours) != count * (degree + 1) ** 2 or not np.isfinite(colours).all():
        raise TwinError(
            f"{where}: {len(colours)} colours of degree {degree} for {count} splats; needed are (degree + 1)² "
            "finite ones for each, degree 0 to 3. Write it again."
        )
