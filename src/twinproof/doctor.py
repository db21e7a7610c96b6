"""`twinproof doctor`: what this machine can do, and the command that adds what is missing."""

from __future__ import annotations

import ctypes
import json
import os
import platform
import shutil
import sys
import time
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from twinproof import __version__

CODECS = {"AV1 decode": ("libdav1d", "r"), "AV1 encode": ("libsvtav1", "w"), "lossless RGB": ("libx264rgb", "w")}


@dataclass(frozen=True)
class Check:
    """One line: what was looked at, whether it is there, what was found, and the cure where it is not."""

    what: str
    ok: bool
    found: str
    cure: str = ""


def run(*, as_json: bool) -> int:
    """Prints every check; exit code 1 when the core itself is not whole."""
    checks = [*machine(), *graphics(), *kernels(), *codecs(), *packages()]
    if as_json:
        sys.stdout.write(json.dumps([vars(check) for check in checks], indent=1) + "\n")
    else:
        _print(checks)
    return 0 if all(check.ok for check in checks if check.what.startswith("core")) else 1


def machine() -> list[Check]:
    """Versions, threads, memory, disk."""
    from twinproof.sim.threads import threads_usable

    pages = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2**30
    free = shutil.disk_usage(Path.cwd()).free / 2**30
    system = f"{platform.system()} {platform.machine()}, Python {platform.python_version()}"
    return [
        Check("twinproof", True, __version__),
        Check("system", True, system),
        Check("threads", True, f"{threads_usable()} usable, {pages:.1f} GiB memory"),
        Check("disk", free > 2, f"{free:.0f} GiB free here", "" if free > 2 else "free some space before ingesting"),
    ]


def graphics() -> list[Check]:
    """Whether pictures can be rendered by GL, and whether a CUDA device answers."""
    from twinproof.sim.render import best
    from twinproof.sim.render_gl import gl_device, gl_problem

    problem = gl_problem()
    found = problem or " ".join((gl_device().platform, gl_device().name))
    cure = "apt-get install libegl1 libgl1-mesa-dri (or libosmesa6); without GL, pictures are ray-cast on the CPU"
    gpu = _cuda_devices()
    return [
        Check("OpenGL", problem is None, found, cure if problem else ""),
        Check("pictures", True, best().why),
        Check(
            "GPU", bool(gpu), ", ".join(gpu) or "no CUDA device", "" if gpu else "none needed: the CPU is the reference"
        ),
    ]


def kernels() -> list[Check]:
    """Compiles what draws splats on the CPU, so that the first picture need not wait for it."""
    from twinproof.sim.splat import engine

    began = time.perf_counter()
    engine.warm()
    took = time.perf_counter() - began
    return [Check("splats on the CPU", True, f"kernels ready, {took:.0f} s (compiled once for a machine)")]


def _cuda_devices() -> list[str]:
    try:
        cuda = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return []
    count = ctypes.c_int()
    if cuda.cuInit(0) != 0 or cuda.cuDeviceGetCount(ctypes.byref(count)) != 0:
        return []
    names = []
    for index in range(count.value):
        text = ctypes.create_string_buffer(128)
        cuda.cuDeviceGetName(text, 128, index)
        names.append(text.value.decode(errors="replace"))
    return names


def codecs() -> list[Check]:
    """What the installed PyAV can decode and encode."""
    import av

    checks = []
    for what, (codec, mode) in CODECS.items():
        try:
            av.Codec(codec, mode)
            checks.append(Check(what, True, codec))
        except av.codec.codec.UnknownCodecError:
            checks.append(Check(what, False, f"no {codec}", "pip install --force-reinstall av"))
    return checks


def packages() -> list[Check]:
    """The core's packages, and each extra with what it still lacks."""
    from packaging.requirements import Requirement

    lacking: dict[str, list[str]] = {}
    sizes: dict[str, int] = {}
    for text in metadata.requires("twinproof") or []:
        need = Requirement(text)
        if need.name == "twinproof":
            continue
        for extra in _extras():
            if need.marker is None or need.marker.evaluate({"extra": extra}):
                group = "" if need.marker is None else extra
                sizes[group] = sizes.get(group, 0) + 1
                if (problem := _problem(need.name, need.specifier)) is not None:
                    lacking.setdefault(group, []).append(problem)
                if group == "":
                    break
    checks = [Check("core", not lacking.get(""), *_found("", lacking, sizes))]
    return checks + [Check(f"extra {e}", e not in lacking, *_found(e, lacking, sizes)) for e in _extras() if e in sizes]


def _extras() -> list[str]:
    return metadata.metadata("twinproof").get_all("Provides-Extra") or []


def _problem(name: str, specifier: object) -> str | None:
    try:
        version = metadata.version(name)
    except metadata.PackageNotFoundError:
        return f"{name} not installed"
    from packaging.specifiers import SpecifierSet

    assert isinstance(specifier, SpecifierSet)
    return None if specifier.contains(version, prereleases=True) else f"{name} {version} is not {specifier}"


def _found(group: str, lacking: dict[str, list[str]], sizes: dict[str, int]) -> tuple[str, str]:
    if group not in lacking:
        return f"{sizes.get(group, 0)} packages", ""
    target = f"twinproof[{group}]" if group else "twinproof"
    return "; ".join(lacking[group]), f"pip install '{target}'"


def _print(checks: list[Check]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, header_style="bold", pad_edge=False)
    for name in ("", "what", "found", "to add it"):
        table.add_column(name, overflow="fold")
    for check in checks:
        mark = Text("✓", style="green") if check.ok else Text("–", style="yellow")
        table.add_row(mark, Text(check.what), Text(check.found), Text(check.cure))
    Console(width=None if sys.stdout.isatty() else 140).print(table)
