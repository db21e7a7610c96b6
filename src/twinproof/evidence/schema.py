"""JSON schemas of everything that nouns write, made from the dataclasses themselves.

After a noun changed: `python -m twinproof.evidence.schema docs/schema` writes them anew.
"""

from __future__ import annotations

import dataclasses
import sys
import types
import typing
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from twinproof.nouns.artifact import Artifact
from twinproof.nouns.drive import HEAD
from twinproof.nouns.episode import OUTCOMES
from twinproof.nouns.evidence import Evidence
from twinproof.nouns.files import json_bytes, write_whole
from twinproof.nouns.hashing import Json
from twinproof.nouns.panel import Panel
from twinproof.nouns.policy import Policy
from twinproof.nouns.posterior import Posterior
from twinproof.nouns.randomization import Randomization
from twinproof.nouns.rig import Rig
from twinproof.nouns.signal import KINDS, Column
from twinproof.nouns.split import Split
from twinproof.nouns.theta import Theta
from twinproof.nouns.trace import Trace
from twinproof.nouns.trials import Trials
from twinproof.nouns.twin import Twin, TwinCamera

DIALECT = "https://json-schema.org/draft/2020-12/schema"
HASH: Json = {"type": "string", "pattern": "^[0-9a-f]{64}$"}
TEXT: Json = {"type": "string"}
COUNT: Json = {"type": "integer", "minimum": 0}
FILES: Json = {"type": "object", "additionalProperties": TEXT, "description": "file beside this one -> its hash"}
PLAIN: dict[Any, Json] = {str: TEXT, int: {"type": "integer"}, float: {"type": "number"}, bool: {"type": "boolean"}}
ARTIFACTS: tuple[type[Artifact], ...] = (Twin, Posterior, Randomization, Policy, Panel, Trials, Trace, Evidence)
HASHES = ("hash", "recording", "split")  # fields of these names hold hashes


class Shapes:
    """The schemas of dataclasses that were met on the way; each is written once, below $defs."""

    def __init__(self) -> None:
        self.defs: dict[str, Json] = {}

    def of(self, hint: Any) -> Json:
        """The schema of an annotated type, as `strict.convert` reads it."""
        origin, arguments = typing.get_origin(hint), typing.get_args(hint)
        if origin in (types.UnionType, typing.Union):
            inner = [self.of(argument) for argument in arguments if argument is not type(None)]
            return inner[0] if len(inner) == 1 else {"oneOf": inner}
        if origin is typing.Literal:
            return {"enum": list(arguments)}
        if origin is tuple:
            if len(arguments) == 2 and arguments[1] is Ellipsis:
                return {"type": "array", "items": self.of(arguments[0])}
            entries = [self.of(argument) for argument in arguments]
            return {"type": "array", "prefixItems": entries, "minItems": len(entries), "maxItems": len(entries)}
        if origin is not None and issubclass(origin, Mapping):
            return {"type": "object", "additionalProperties": self.of(arguments[1])}
        if hint is Theta:
            return {
                "type": "object",
                "additionalProperties": {"type": "number"},
                "description": "parameter id -> SI value",
            }
        if dataclasses.is_dataclass(hint):
            return self._named(hint)
        return PLAIN.get(hint, {})

    def _named(self, kind: Any) -> Json:
        if kind.__name__ not in self.defs:
            self.defs[kind.__name__] = {}  # taken, should it name itself
            self.defs[kind.__name__] = self.table(kind)
        return {"$ref": f"#/$defs/{kind.__name__}"}

    def table(self, kind: Any, leave_out: tuple[str, ...] = ()) -> dict[str, Json]:
        """A dataclass as `strict.plain` writes it: fields that are None are left out, and no other name may stand."""
        parts = () if not issubclass(kind, Artifact) else kind.PARTS
        hints = typing.get_type_hints(kind)
        fields = [f for f in dataclasses.fields(kind) if f.init and f.name not in (*parts, *leave_out)]
        optional = {f.name for f in fields if type(None) in typing.get_args(hints[f.name])}
        return {
            "type": "object",
            "description": (kind.__doc__ or "").strip().splitlines()[0],
            "properties": {
                f.name: HASH if f.name in HASHES and hints[f.name] is str else self.of(hints[f.name]) for f in fields
            },
            "required": [f.name for f in fields if f.name not in optional],
            "additionalProperties": False,
        }


def _written(name: str, shape: dict[str, Json], defs: dict[str, Json], framed: Mapping[str, Json]) -> dict[str, Json]:
    """A whole schema: the shape, and what every file of its kind holds beside it."""
    stated = {"format": {"const": f"twinproof/{name}/1"}, **framed}
    return {
        "$schema": DIALECT,
        "$id": f"urn:twinproof:{name}:1",
        "title": f"twinproof {name}, version 1",
        **shape,
        "properties": {**stated, **shape["properties"]},
        "required": [*stated, *(name for name in shape["required"] if name not in stated)],
        **({"$defs": dict(sorted(defs.items()))} if defs else {}),
    }


def artifact_schema(kind: type[Artifact]) -> dict[str, Json]:
    """The schema of a noun's JSON: its fields, its hash, the hashes of its files, and the seal."""
    shapes = Shapes()
    shape = shapes.table(kind)
    if kind is Posterior:
        told = {"family": TEXT, "instances": _list(TEXT), "parameters": _list(TEXT)}
        shape["properties"]["population"] = _table(told, "a family of objects; its arrays are in samples.npz")
    if kind in (Posterior, Randomization):
        pair = {"type": "array", "items": {"type": "number"}, "minItems": 2, "maxItems": 2}
        told = {name: {"type": "object", "additionalProperties": {}} for name in HEAD}
        told["parameters"] = {"type": "object", "additionalProperties": pair}
        shape["properties"]["drive"] = _table(told, "what moves the twin beside its parameters; its arrays: drive.npz")
    if kind is Trace:
        column = {"type": "array", "prefixItems": [TEXT, TEXT, TEXT], "minItems": 3, "maxItems": 3}
        signal = _table({"kind": {"enum": list(KINDS)}, "columns": _list(column)}, "columns are [name, unit, frame]")
        shape["properties"]["signals"] = {"type": "object", "additionalProperties": signal}
        shape["required"].append("signals")
    return _written(kind.NAME, shape, shapes.defs, {"hash": HASH, "files": FILES, "seal": HASH})


def _list(items: Json) -> Json:
    return {"type": "array", "items": items}


def _table(properties: dict[str, Json], about: str = "") -> dict[str, Json]:
    made = {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}
    return {**made, "description": about} if about else made


def schemas() -> dict[str, dict[str, Json]]:
    """File name -> schema, for everything that a noun writes as JSON."""
    found = {kind.NAME: artifact_schema(kind) for kind in ARTIFACTS}
    shapes = Shapes()
    rig = shapes.of(Rig)
    entry = _table({"id": TEXT, "hash": HASH})
    told = {"hash": HASH, "rig": rig, "source": {"type": "object"}, "episodes": _list(entry), "seal": HASH}
    found["recording"] = _written("recording", _table(told, "Episodes of one rig."), shapes.defs, {})
    found["episode"] = _episode()
    shapes = Shapes()
    found["split"] = _written("split", shapes.table(Split, ("folder",)), shapes.defs, {"hash": HASH})
    sealed = _table({"hash": HASH, "bytes": COUNT})
    told = {
        "recording": HASH,
        "episodes": {"type": "object", "additionalProperties": HASH},
        "sealed": sealed,
        "key": HASH,
    }
    found["holdout"] = _written("holdout", _table(told, "What is sealed: ids and hashes, no arrays."), {}, {})
    shapes = Shapes()
    told = {"cameras": {"type": "object", "additionalProperties": shapes.of(TwinCamera)}}
    found["cameras"] = _written("cameras", _table(told, "The cameras of a twin."), shapes.defs, {})
    found["ledger-line"] = _ledger_line()
    return {f"{name}.1.json": found[name] for name in sorted(found)}


def _episode() -> dict[str, Json]:
    shapes = Shapes()
    column = shapes.of(Column)
    signal = {"name": TEXT, "kind": {"enum": list(KINDS)}, "samples": COUNT, "log_time": {"type": "boolean"}}
    video = {"camera": TEXT, "pixels": TEXT, "codec": TEXT, "width": COUNT, "height": COUNT, "packets_hash": TEXT}
    told = {
        "id": TEXT,
        "hash": HASH,
        "source": TEXT,
        "start_ns": {"type": "integer"},
        "labels": {"type": "object", "additionalProperties": TEXT},
        "outcome": {"enum": list(OUTCOMES)},
        "notes": _list(TEXT),
        "signals": _list(_table({**signal, "columns": _list(column)})),
        "videos": _list(_table({**video, "frames": COUNT})),
        "files": FILES,
        "seal": HASH,
    }
    return _written("episode", _table(told, "One take: its signals and videos lie beside it."), shapes.defs, {})


def _ledger_line() -> dict[str, Json]:
    """A line of openings.jsonl: what every line has; the other fields are those of its kind."""
    own = {"n": {"type": "integer", "minimum": 1}, "kind": TEXT, "at": TEXT, "prev": {"type": "string"}, "hash": HASH}
    shape = {**_table(own, "One line of a split's ledger, chained to the one before it."), "additionalProperties": True}
    made = _written("ledger-line", shape, {}, {})
    del made["properties"]["format"]
    made["required"].remove("format")
    fits = _table(
        {"name": TEXT, "artifact": TEXT, "episodes": _list(TEXT), "split": HASH, "started": TEXT, "ended": TEXT}
    )
    fits["additionalProperties"] = True
    made["if"], made["then"] = {"properties": {"kind": {"const": "fit"}}}, fits
    return made


def write(folder: Path) -> list[str]:
    """Writes every schema into a folder; returns their names."""
    folder.mkdir(parents=True, exist_ok=True)
    made = schemas()
    for name, schema in made.items():
        write_whole(folder / name, json_bytes(schema))
    return list(made)


if __name__ == "__main__":
    sys.stdout.write("\n".join(write(Path(sys.argv[1]))) + "\n")
