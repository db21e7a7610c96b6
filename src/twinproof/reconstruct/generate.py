"""Generative completion: a model that the user supplies makes a whole shape of one picture and a mask.

`complete(rgb, mask, depth_m, intrinsics)` gives a mesh of unit size in a frame of its own (and splats, if the model has
them). Where and how large it is comes from our fit (generate_fit), whether it may enter a twin from our checks
(generate_check). Three ways to reach a model (TRELLIS, Hunyuan3D, TripoSR, SAM 3D and kin), chosen by constructing:

InProcess(call)        a Python function: call(rgb, mask, depth_m, intrinsics) -> Mesh, or (Mesh, Splats)
Subprocess(command)    a program in the model's own environment. It is run as `command … REQUEST OUT`: REQUEST is a JSON
                       file {"format": "twinproof/generate/1", "picture": "picture.png", "mask": "mask.png", "depth":
                       "depth.png" (16 bits, mm) or null, "intrinsics": {"fx", "fy", "cx", "cy"} or null} beside these
                       files; into the folder OUT it writes answer.json {"mesh": "NAME.glb, .obj, .ply or .stl",
                       "splats": "NAME.ply" or null, "name": "what made it"} and the files it names.
HttpGenerator(url)     POST {url}/complete with the same in one JSON, the files as base64 in "picture", "mask", "depth";
                       answers {"mesh": base64, "mesh_format": "glb", "splats": base64 or null, "name": …}.
"""

from __future__ import annotations

import base64
import binascii
import json
import os
import signal
import subprocess
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import numpy as np

from twinproof.nouns.errors import ConfigError, MeshError, RecordingError, SplatError
from twinproof.nouns.files import inside, write_json
from twinproof.nouns.hashing import Json
from twinproof.nouns.mesh import Mesh
from twinproof.nouns.mesh_files import read_mesh
from twinproof.nouns.pictures import png_bytes
from twinproof.nouns.rig import Intrinsics
from twinproof.nouns.splat_files import read_ply
from twinproof.nouns.splats import Splats
from twinproof.reconstruct.ask_http import Server
from twinproof.sim.splat.placed import placed

if TYPE_CHECKING:
    from jaxtyping import Bool, Float, UInt8

FORMAT = "twinproof/generate/1"
MESHES = ("glb", "obj", "ply", "stl")
MOST_BYTES = 512 << 20
MOST_FACES = 2_000_000
TAIL = 600  # characters of what a program said last
Made = Mesh | tuple[Mesh, Splats | None]


@dataclass(frozen=True, eq=False)
class Generated:
    """A shape whose longest side is 1, with its middle at the origin; nothing about it was measured."""

    mesh: Mesh
    splats: Splats | None
    name: str


@dataclass(frozen=True, eq=False)
class Request:
    """What a model is given: a picture, the mask of the thing, and depth and lens where they are known."""

    rgb: UInt8[np.ndarray, "H W 3"]
    mask: Bool[np.ndarray, "H W"]
    depth_m: Float[np.ndarray, "H W"] | None
    intrinsics: Intrinsics | None

    def __post_init__(self) -> None:
        rgb, mask = np.asarray(self.rgb), np.asarray(self.mask)
        if rgb.dtype != np.uint8 or rgb.ndim != 3 or rgb.shape[2] != 3 or mask.shape != rgb.shape[:2]:
            raise RecordingError(
                f"a picture of {rgb.dtype} {rgb.shape} with a mask of {mask.shape}; needed is uint8 (H, W, 3), (H, W)."
            )
        if not mask.any():
            raise RecordingError("the mask is empty: there is nothing to complete. Segment the thing first.")
        if self.depth_m is not None and np.shape(self.depth_m) != mask.shape:
            raise RecordingError(f"depth of {np.shape(self.depth_m)} for a picture of {mask.shape}. Resize the depth.")

    def files(self) -> dict[str, bytes]:
        """picture.png, mask.png and depth.png where there is depth."""
        found = {"picture": png_bytes(self.rgb), "mask": png_bytes(255 * np.asarray(self.mask, np.uint8))}
        if self.depth_m is not None:
            millimetres = np.nan_to_num(np.asarray(self.depth_m) * 1e3).clip(0, 65535)
            found["depth"] = png_bytes(np.round(millimetres).astype(np.uint16))
        return found

    def lens(self) -> Json:
        """The pinhole as JSON; distortion is small beside what a model invents."""
        lens = self.intrinsics
        return None if lens is None else {"fx": lens.fx, "fy": lens.fy, "cx": lens.cx, "cy": lens.cy}


class Generator(ABC):
    """A way to reach a model. Subclasses are final."""

    def complete(
        self,
        rgb: UInt8[np.ndarray, "H W 3"],
        mask: Bool[np.ndarray, "H W"],
        depth_m: Float[np.ndarray, "H W"] | None = None,
        intrinsics: Intrinsics | None = None,
    ) -> Generated:
        """The shape in unit size. What cannot be a shape is refused with the model's name."""
        mesh, splats, name = self._made(Request(rgb, np.asarray(mask, bool), depth_m, intrinsics))
        if len(mesh.faces) > MOST_FACES:
            raise MeshError(
                f"{name}: {len(mesh.faces)} faces; {MOST_FACES} are taken. Ask the model for a coarser mesh."
            )
        low, high = mesh.vertices.min(axis=0), mesh.vertices.max(axis=0)
        size = float((high - low).max())
        if size <= 1e-9:
            raise MeshError(f"{name}: the mesh has no size. The model found nothing in the mask.")
        pose = np.eye(4)
        pose[:3, 3] = -(low + high) / 2 / size
        return Generated(mesh.moved(pose, 1 / size), None if splats is None else placed(splats, pose, 1 / size), name)

    @abstractmethod
    def _made(self, request: Request) -> tuple[Mesh, Splats | None, str]:
        """Mesh and splats in any scale and place, and the name of the model."""


@dataclass(frozen=True)
class InProcess(Generator):
    """A function in this process."""

    call: Callable[[np.ndarray, np.ndarray, np.ndarray | None, Intrinsics | None], Made]
    name: str = "a function of the user"

    def _made(self, request: Request) -> tuple[Mesh, Splats | None, str]:
        made = self.call(request.rgb, request.mask, request.depth_m, request.intrinsics)
        mesh, splats = made if isinstance(made, tuple) else (made, None)
        if not isinstance(mesh, Mesh) or not isinstance(splats, Splats | None):
            raise ConfigError(f"{self.name} gave {type(made).__name__}; needed is a Mesh, or a Mesh and Splats.")
        return mesh, splats, self.name


@dataclass(frozen=True)
class Subprocess(Generator):
    """A program in an environment of its own, stopped with all it started when the time is over."""

    command: tuple[str, ...]
    timeout_s: float = 600.0
    most_bytes: int = MOST_BYTES

    def _made(self, request: Request) -> tuple[Mesh, Splats | None, str]:
        with TemporaryDirectory(prefix="twinproof-generate-") as scratch:
            given, out = Path(scratch) / "given", Path(scratch) / "out"
            given.mkdir()
            out.mkdir()
            files = request.files()
            for name, data in files.items():
                (given / f"{name}.png").write_bytes(data)
            names: dict[str, Json] = {
                key: f"{key}.png" if key in files else None for key in ("picture", "mask", "depth")
            }
            write_json(given / "request.json", {"format": FORMAT, **names, "intrinsics": request.lens()})
            self._run([*self.command, str(given / "request.json"), str(out)], Path(scratch))
            return _answer(out, self.command[0], self.most_bytes)

    def _run(self, command: list[str], scratch: Path) -> None:
        # The model's environment is another Python: our paths would break its imports.
        environment = {key: value for key, value in os.environ.items() if key not in ("PYTHONPATH", "PYTHONHOME")}
        with (scratch / "said").open("wb") as said:
            try:
                child = subprocess.Popen(
                    command, stdin=subprocess.DEVNULL, stdout=said, stderr=said, env=environment, start_new_session=True
                )
            except OSError as problem:
                raise ConfigError(
                    f"{command[0]} cannot be started ({problem.strerror}). Name the program with its full path."
                ) from None
            try:
                code = child.wait(self.timeout_s)
            except BaseException as problem:
                os.killpg(child.pid, signal.SIGKILL)  # its own session: whatever it started ends with it
                child.wait()
                if not isinstance(problem, subprocess.TimeoutExpired):
                    raise
                raise RecordingError(
                    f"{command[0]} was not done after {self.timeout_s:g} s and was stopped. Give it more time."
                ) from None
        if code:
            words = (scratch / "said").read_bytes()[-TAIL:].decode(errors="replace").strip()
            raise RecordingError(f"{command[0]} ended with {code}. Its last words: {words or 'none'}.")


@dataclass(frozen=True)
class HttpGenerator(Generator):
    """A model behind HTTP; on this machine unless `elsewhere`."""

    url: str
    elsewhere: bool = False
    timeout_s: float = 600.0
    _server: Server = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_server", Server(self.url, self.elsewhere, self.timeout_s, 2 * MOST_BYTES))

    def _made(self, request: Request) -> tuple[Mesh, Splats | None, str]:
        files: dict[str, Json] = {name: base64.b64encode(data).decode() for name, data in request.files().items()}
        question: dict[str, Json] = {"format": FORMAT, "depth": None, **files, "intrinsics": request.lens()}
        answer = self._server.ask("complete", question)
        kind = answer.get("mesh_format", "glb")
        if kind not in MESHES:
            raise MeshError(f"{self.url}: the mesh's format is {kind!r}; known are {', '.join(MESHES)}.")
        with TemporaryDirectory(prefix="twinproof-generate-") as scratch:
            mesh = Path(scratch) / f"mesh.{kind}"
            mesh.write_bytes(_bytes(answer.get("mesh"), f"{self.url}: mesh"))
            splats = None
            if answer.get("splats") is not None:
                (Path(scratch) / "splats.ply").write_bytes(_bytes(answer["splats"], f"{self.url}: splats"))
                splats = _read_splats(Path(scratch) / "splats.ply")
            return read_mesh(mesh), splats, str(answer.get("name", self.url))[:200]


def _answer(out: Path, who: str, most: int) -> tuple[Mesh, Splats | None, str]:
    """What a program left in its folder; nothing outside of it is opened."""
    total = sum(path.lstat().st_size for path in out.rglob("*"))
    if total > most:
        raise RecordingError(f"{who} wrote {total >> 20} MB; {most >> 20} MB are taken. Ask it for a coarser mesh.")
    path = inside(out, "answer.json", RecordingError)
    try:
        answer: Any = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        answer = None
    if not isinstance(answer, dict) or not isinstance(answer.get("mesh"), str):
        raise RecordingError(f'{who} left no answer.json with a "mesh" in it. Write it last, after the files it names.')
    mesh = inside(out, answer["mesh"], MeshError)
    splats = answer.get("splats")
    scene = None if splats is None else _read_splats(inside(out, str(splats), SplatError))
    return read_mesh(mesh), scene, str(answer.get("name", who))[:200]


def _read_splats(path: Path) -> Splats:
    return read_ply(path, ("object",))


def _bytes(text: object, where: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True) if isinstance(text, str) else b""
    except (binascii.Error, ValueError):
        raise RecordingError(f"{where} is no base64. Compare the answer with our documents.") from None
