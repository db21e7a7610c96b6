"""Plain data to frozen dataclasses, strictly: unknown keys, missing keys and wrong types are errors with a place."""

from __future__ import annotations

import dataclasses
import difflib
import types
import typing
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

from twinproof.nouns.errors import TwinproofError
from twinproof.nouns.hashing import Json

Thing = TypeVar("Thing")


def build(
    kind: type[Thing], data: Json, where: str, error: type[TwinproofError], made: Mapping[str, Any] | None = None
) -> Thing:
    """An instance of a dataclass from a JSON or TOML table; `where` is how the user finds the place.

    Fields in `made` (arrays, things read from other files) are taken as they are.
    """
    if not isinstance(data, Mapping):
        raise error(f"{where}: a table is needed, found {_shown(data)}.")
    hints = typing.get_type_hints(kind)
    fields = {field.name: field for field in dataclasses.fields(kind) if field.init}  # type: ignore[arg-type]
    for key in data:
        if key not in fields:
            near = difflib.get_close_matches(str(key), fields, n=1)
            cure = f"Did you mean {near[0]!r}?" if near else f"Known keys: {', '.join(fields)}."
            raise error(f"{where}: unknown key {key!r}. {cure}")
    values = dict(made or {})
    for name, field in fields.items():
        if name in values:
            continue
        if name in data:
            values[name] = convert(hints[name], data[name], f"{where}.{name}", error)
        elif field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING:
            raise error(f"{where}: {name!r} is missing. Add it.")
    return kind(**values)


def plain(thing: Any) -> Json:
    """The JSON value of a dataclass, the inverse of `build`; fields that are None are left out."""
    if dataclasses.is_dataclass(thing) and not isinstance(thing, type):
        pairs = ((field.name, getattr(thing, field.name)) for field in dataclasses.fields(thing) if field.init)
        return {name: plain(value) for name, value in pairs if value is not None}
    if isinstance(thing, Mapping):
        return {str(key): plain(value) for key, value in thing.items()}
    if isinstance(thing, (tuple, list)):
        return [plain(value) for value in thing]
    return thing


def convert(hint: Any, value: Json, where: str, error: type[TwinproofError]) -> Any:
    """A JSON value as the annotated type; anything that does not fit is an error with its place."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (types.UnionType, typing.Union):
        if value is None:
            return None
        inner = [argument for argument in arguments if argument is not type(None)]
        return convert(inner[0] if len(inner) == 1 else _of_kind(inner, value, where, error), value, where, error)
    if hint is Any:
        return value
    if origin is typing.Literal:
        if value not in arguments:
            raise error(f"{where}: one of {', '.join(map(repr, arguments))} is needed, found {_shown(value)}.")
        return value
    if origin is tuple:
        return _convert_tuple(arguments, value, where, error)
    if origin is not None and issubclass(origin, Mapping):
        if not isinstance(value, Mapping):
            raise error(f"{where}: a table is needed, found {_shown(value)}.")
        return {str(key): convert(arguments[1], item, f"{where}.{key}", error) for key, item in value.items()}
    if dataclasses.is_dataclass(hint):
        return build(typing.cast("type[Any]", hint), value, where, error)
    if hint is Path and isinstance(value, str):
        return Path(value)
    if hint is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if not isinstance(value, hint) or (isinstance(value, bool) and hint is not bool):
        raise error(f"{where}: {_NAMES.get(hint, hint.__name__)} is needed, found {_shown(value)}.")
    return value


def _of_kind(choices: list[Any], value: Json, where: str, error: type[TwinproofError]) -> Any:
    """The dataclass among several whose `kind: Literal[...]` is the table's."""
    kinds = {typing.get_args(typing.get_type_hints(choice)["kind"])[0]: choice for choice in choices}
    found = value.get("kind") if isinstance(value, Mapping) else value
    if not isinstance(found, str) or found not in kinds:
        raise error(f"{where}: a table with kind {' or '.join(kinds)} is needed, found {_shown(found)}.")
    return kinds[found]


def _convert_tuple(arguments: tuple[Any, ...], value: Json, where: str, error: type[TwinproofError]) -> Any:
    if not isinstance(value, (list, tuple)):
        raise error(f"{where}: a list is needed, found {_shown(value)}.")
    if len(arguments) == 2 and arguments[1] is Ellipsis:
        kinds = [arguments[0]] * len(value)
    elif len(arguments) == len(value):
        kinds = list(arguments)
    else:
        raise error(f"{where}: a list of {len(arguments)} is needed, found {len(value)} entries.")
    pairs = enumerate(zip(kinds, value, strict=True))
    return tuple(convert(kind, item, f"{where}[{i}]", error) for i, (kind, item) in pairs)


_NAMES = {str: "a text", int: "a whole number", float: "a number", bool: "true or false"}


def _shown(value: Json) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
