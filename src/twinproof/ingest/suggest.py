"""`--suggest-rig`: a first rig.toml from what a source shows, for a person to complete."""

from __future__ import annotations

import json
import math

from twinproof.ingest.raw import Probe, ProbedCamera, ProbedSignal
from twinproof.nouns.rig import FORMAT

HEAD = """\
# A first rig, written from the source. Read every line; what is marked CHECK was guessed.
# Units are the source's; the recording is in SI. Docs: docs/rig.md
"""


def suggest_rig(probe: Probe) -> str:
    """The text of a rig.toml that this source can be read under, once the marked lines are checked."""
    names = _rig_names([*probe.signals, *probe.cameras])
    parts = [
        HEAD,
        f"format = {_text(FORMAT)}",
        f"robot = {_text(probe.robot)}  # CHECK",
        f"ignore = [{', '.join(map(_text, probe.ignore))}]",
        "",
    ]
    parts += ["# [model]", '# path = "robot.xml"  # MJCF or URDF beside this file', ""]
    parts += _joints(probe)
    for signal in probe.signals:
        parts += _signal(names[signal.source], signal)
    for camera in probe.cameras:
        parts += _camera(names[camera.source], camera)
    parts += _labels(probe.episodes)
    return "\n".join(parts) + "\n"


def _text(value: str) -> str:
    return json.dumps(value, ensure_ascii=False)  # a JSON string is a TOML string


def _key(name: str) -> str:
    return name if name and all(c.isalnum() or c in "_-" for c in name) and name.isascii() else _text(name)


def _rig_names(things: list[ProbedSignal | ProbedCamera]) -> dict[str, str]:
    """Short names that can be file names: the last telling part of the source's name, made unique."""
    names: dict[str, str] = {}
    for thing in things:
        parts = [part for part in thing.source.replace("/", ".").replace(":", ".").split(".") if part]
        plain = ["".join(c if c.isascii() and (c.isalnum() or c in "_-") else "_" for c in part) for part in parts]
        for take in range(1, len(plain) + 1):
            name = "_".join(plain[-take:]).lstrip("-")
            if name and name not in names.values():
                break
        else:
            name = f"signal_{len(names)}"
        names[thing.source] = name
    return names


def _joints(probe: Probe) -> list[str]:
    positions = [signal for signal in probe.signals if signal.kind == "joint_position"]
    lines: list[str] = []
    for signal in positions:
        for i, column in enumerate(signal.columns):
            lines += ["[[joints]]", f"name = {_text(column)}"]
            if signal.low:
                factor = math.pi / 180 if signal.unit == "deg" else 1.0
                seen = f"{signal.low[i] * factor:.3f} to {signal.high[i] * factor:.3f}"
                lines.append(f"# range = [-3.142, 3.142]  # rad or m; seen in the first episode: {seen}")
            if i == 0:
                lines.append(
                    "# source = \"…\"  # name is the model's; this is the source's, where it differs (docs/rig.md)"
                )
            lines.append("")
        lines += ["[[arms]]  # CHECK: one for each arm", 'name = "arm"']
        lines += [f"joints = [{', '.join(_text(c) for c in signal.columns)}]", '# gripper = "…"', ""]
    return lines


def _signal(name: str, signal: ProbedSignal) -> list[str]:
    lines = [f"[signals.{_key(name)}]", f"source = {_text(signal.source)}", f"kind = {_text(signal.kind)}  # CHECK"]
    if signal.units:  # fixed by the format
        lines.append(f"units = [{', '.join(_text(unit) for unit in signal.units)}]")
    elif signal.kind != "pose" or signal.unit is not None:
        guess = signal.unit or "1"
        lines.append(f"unit = {_text(guess)}  # CHECK; units = [...] where columns differ")
        if guess == "deg" and any("gripper" in column for column in signal.columns):
            lines.append(
                '# servo buses count a gripper in "% of range" and often all joints in "±% of range" (docs/rig.md)'
            )
    if signal.columns:
        lines.append(f"columns = [{', '.join(_text(column) for column in signal.columns)}]")
    if signal.time != "header":
        lines.append(f"time = {_text(signal.time)}  # the header stamps are not set")
    if signal.low:
        lines.append(f"# seen in the first episode: {min(signal.low):.4g} to {max(signal.high):.4g}")
    return [*lines, ""]


def _camera(name: str, camera: ProbedCamera) -> list[str]:
    lines = [f"[cameras.{_key(name)}]  # {camera.width}×{camera.height}", f"source = {_text(camera.source)}"]
    if camera.intrinsics is None:
        lines.append("intrinsics_unknown = true  # better: [cameras.…intrinsics] with fx, fy, cx, cy, distortion")
    lines += [f"# [cameras.{_key(name)}.mount]", '# parent = "world"', "# position_m = [0.0, 0.0, 0.0]"]
    lines += ["# quat_wxyz = [1.0, 0.0, 0.0, 0.0]  # camera looks along +z, x right, y down"]
    return [*lines, "# position_sd_m = 0.02", "# rotation_sd_rad = 0.05", ""]


def _labels(episodes: tuple[str, ...]) -> list[str]:
    last = len(episodes) - 1
    lines = [f"# The source has {len(episodes)} episodes, 0 to {last}. Labels keep a split honest: name every object,"]
    lines += ["# scene and session. Several [[labels]] may apply to one episode; later ones win.", "[[labels]]"]
    return [*lines, 'episodes = "*"', 'labels = { session = "1" }  # CHECK; e.g. object = "mug_3", operator = "A"']
