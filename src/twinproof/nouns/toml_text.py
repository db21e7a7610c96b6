"""TOML text of plain data, for files that people edit. Reading is the standard library's."""

from __future__ import annotations

import json
from collections.abc import Mapping

from twinproof.nouns.hashing import Json


def to_toml(data: Mapping[str, Json]) -> str:
    """A table as TOML: plain values first, then [tables] and [[lists of tables]]."""
    return "\n".join(_table(data, ())).lstrip("\n") + "\n"


def _table(data: Mapping[str, Json], path: tuple[str, ...]) -> list[str]:
    lines, below = [], []
    for key, value in data.items():
        if isinstance(value, Mapping) and value:
            below += ["", f"[{_path((*path, key))}]", *_table(value, (*path, key))]
        elif isinstance(value, (list, tuple)) and value and all(isinstance(item, Mapping) for item in value):
            for item in value:
                below += ["", f"[[{_path((*path, key))}]]", *(f"{_key(k)} = {_value(v)}" for k, v in item.items())]
        else:
            lines.append(f"{_key(key)} = {_value(value)}")
    return lines + below


def _path(parts: tuple[str, ...]) -> str:
    return ".".join(_key(part) for part in parts)


def _key(name: str) -> str:
    bare = name and name.isascii() and all(c.isalnum() or c in "_-" for c in name)
    return name if bare else json.dumps(name, ensure_ascii=False)


def _value(value: Json) -> str:
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{_key(k)} = {_value(v)}" for k, v in value.items()) + " }" if value else "{}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(_value(item) for item in value) + "]"
    if isinstance(value, float):
        return repr(value)
    return json.dumps(value, ensure_ascii=False)  # strings, whole numbers and booleans are written alike
