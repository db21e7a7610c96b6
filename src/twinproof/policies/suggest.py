"""A first served.toml: what a recording has, under the keys that a server names, or that its framing usually has."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from twinproof.nouns.episode import Episode
from twinproof.nouns.errors import PolicyError
from twinproof.nouns.hashing import Json
from twinproof.nouns.rig import Rig
from twinproof.nouns.signal import Signal
from twinproof.nouns.toml_text import to_toml
from twinproof.policies.served import connected
from twinproof.policies.server import FORMAT, Framing, Received, Sent, Server

HEAD = """# A first map between a recording and a policy server. CHECK every line with what the policy was trained on:
# keys, order of joints, units (scale and offset turn degrees into radians), picture sizes, limits, rate and chunk.
# Then: twinproof policy check {address} --served THIS_FILE --recording RECORDING --out check
"""


def suggested(address: str, episode: Episode, rig: Rig) -> str:
    """The text of a served.toml for this server and this recording."""
    framing, about = _greeted(address)
    position, command = (_only(episode, kind) for kind in ("joint_position", "joint_command"))
    rate_hz = (len(command.time_s) - 1) / (command.time_s[-1] - command.time_s[0])
    send, receive, chunk = _keys(framing, about, position.name, sorted(episode.videos))
    server: dict[str, Json] = {"address": address, "framing": framing, "send": send, "receive": receive}
    server["instruction"] = str(episode.labels.get("task", ""))
    sent = {entry["channel"] for entry in send}
    seen = [(name, video) for name, video in sorted(episode.videos.items()) if name in sent]
    cameras = [{"name": name, "unit": "", "shape": [video.height, video.width, 3]} for name, video in seen]
    joints = {"name": position.name, "unit": position.columns[0].unit, "shape": [len(position.columns)]}
    data = {
        "format": FORMAT,
        "rate_hz": round(float(rate_hz), 3),
        "chunk": chunk,
        "server": server,
        "observations": [joints, *cameras],
        "actions": list(_actions(command, rig)),
    }
    return HEAD.format(address=address) + to_toml(data)


def _greeted(address: str) -> tuple[Framing, Mapping[str, Any]]:
    """The framing that the server answers in, and what it says of itself."""
    framing: Framing = "openpi" if address.startswith("ws") else "groot-flat"
    client = connected(Server(address, framing, (Sent(("x",), "x"),), (Received(("x",)),)))
    about = dict(client.about)
    client.close()
    keys = [key for entry in about.values() if isinstance(entry, Mapping) for key in entry.get("modality_keys", [])]
    if framing == "groot-flat" and not any("." in str(key) for key in keys):
        framing = "groot"
    return framing, about


def _keys(framing: Framing, about: Mapping[str, Any], state: str, cameras: list[str]) -> tuple[Json, Json, int]:
    """What is sent, what is received, and the length of a chunk."""
    if framing == "openpi":
        inputs = about.get("inputs")  # our LeRobot server tells its inputs
        own = inputs if isinstance(inputs, Mapping) else {}
        pictures = [key for key in own if "image" in str(key)] or [f"observation/{name}" for name in cameras]
        states = [key for key in own if "state" in str(key)] or ["observation/state"]
        chunk = about.get("chunk", 1)
        receive = [{"key": ["actions"]}]
        paths = {"picture": [[str(key)] for key in pictures], "state": [[str(key)] for key in states[:1]]}
    else:
        named = {kind: _modality(about, kind) for kind in ("video", "state", "action")}
        lead = [] if framing == "groot-flat" else ["{kind}"]
        paths = {"picture": [[*_filled(lead, "video"), key] for key in named["video"][0]],
                 "state": [[*_filled(lead, "state"), key] for key in named["state"][0]]}  # fmt: skip
        receive = [{"key": [key]} for key in named["action"][0]]
        chunk = named["action"][1]
    send: list[Json] = [{"key": path, "channel": state} for path in paths["state"]]
    for path, camera in zip(paths["picture"], cameras, strict=False):
        send.append({"key": path, "channel": camera, **({"size": [224, 224]} if framing == "openpi" else {})})
    return send, receive, int(chunk) if isinstance(chunk, int) else 1


def _filled(lead: list[str], kind: str) -> list[str]:
    return [part.format(kind=kind) for part in lead]


def _modality(about: Mapping[str, Any], kind: str) -> tuple[list[str], int]:
    entry = about.get(kind)
    if not isinstance(entry, Mapping):
        return [kind], 1
    return [str(key) for key in entry.get("modality_keys", [kind])], len(entry.get("delta_indices", [0]))


def _only(episode: Episode, kind: str) -> Signal:
    found = episode.of_kind(kind)
    if not found:
        raise PolicyError(
            f"the recording has no signal of kind {kind!r}, so no map can be suggested. Write one by hand."
        )
    return found[0]


def _actions(command: Signal, rig: Rig) -> list[dict[str, Json]]:
    """Each commanded column with the rig's range, or else with the range that was recorded."""
    ranges = {joint.name: joint.range for joint in rig.joints if joint.range}
    told = []
    for k, column in enumerate(command.columns):
        low, high = ranges.get(column.name) or (float(np.min(command.value[:, k])), float(np.max(command.value[:, k])))
        room = 0.0 if low < high else 1e-3
        told.append({"name": column.name, "unit": column.unit, "low": low - room, "high": high + room})
    return told
