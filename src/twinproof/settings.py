"""One resolved config for a command: defaults, then a TOML file, then the command line; printed, saved, hashed."""

from __future__ import annotations

import dataclasses
import inspect
import json
import math
import tomllib
import typing
from pathlib import Path
from typing import Any, TypeVar

from twinproof.nouns.errors import ConfigError
from twinproof.nouns.files import write_json
from twinproof.nouns.hashing import Json, content_hash
from twinproof.nouns.strict import convert, plain

Config = TypeVar("Config")


def parse(kind: type[Config], arguments: list[str], command: str) -> Config:
    """The settings of a command. `--config FILE` (TOML or config.json) gives defaults; the command line wins."""
    import tyro

    arguments, file = _config_file(arguments)
    default: Any = _defaults(kind, file) if file else None
    description = (
        f"{inspect.getdoc(kind)}\n\n--config FILE.toml (or a saved config.json) gives defaults for all of these."
    )
    config: Config = tyro.cli(
        kind, args=arguments, prog=f"twinproof {command}", description=description, default=default
    )
    return config


def _config_file(arguments: list[str]) -> tuple[list[str], Path | None]:
    for i, argument in enumerate(arguments):
        if argument == "--config":
            if i + 1 == len(arguments):
                raise ConfigError("--config needs a TOML file. Name one.")
            return arguments[:i] + arguments[i + 2 :], Path(arguments[i + 1])
        if argument.startswith("--config="):
            return arguments[:i] + arguments[i + 1 :], Path(argument.removeprefix("--config="))
    return arguments, None


def _defaults(kind: type[Config], file: Path) -> Config:
    import tyro

    try:
        text = file.read_text(encoding="utf-8")
        data = json.loads(text)["settings"] if file.suffix == ".json" else tomllib.loads(text)
    except (ValueError, KeyError, TypeError, OSError) as problem:
        raise ConfigError(
            f"{file} is neither readable TOML nor a config.json ({problem}). Mend it, or name another file."
        ) from None
    hints = typing.get_type_hints(kind)
    fields: dict[str, Any] = {}
    for field in dataclasses.fields(kind):  # type: ignore[arg-type]
        if field.name in data:
            fields[field.name] = convert(hints[field.name], data[field.name], f"{file}: {field.name}", ConfigError)
        elif field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING:
            fields[field.name] = tyro.MISSING
    if unknown := sorted(set(data) - {field.name for field in dataclasses.fields(kind)}):  # type: ignore[arg-type]
        known = ", ".join(field.name for field in dataclasses.fields(kind))  # type: ignore[arg-type]
        raise ConfigError(f"{file}: unknown key {unknown[0]!r}. Known keys: {known}.")
    return kind(**fields)


def resolved(config: Any, command: str) -> Json:
    """The settings as plain data with their hash; where results go and how they are shown does not count."""
    values = {name: _plain(value) for name, value in plain(config).items()}
    for name, value in values.items():
        for number in value if isinstance(value, list) else [value]:
            if isinstance(number, float) and not math.isfinite(number):
                raise ConfigError(f"--{name.replace('_', '-')} is {number}; a finite number is needed.")
    decides = {name: value for name, value in values.items() if name not in ("out", "json", "png")}
    return {"command": command, "settings": values, "hash": content_hash([command, decides])}


def _plain(value: Any) -> Json:
    if isinstance(value, Path):
        return str(value)
    return [_plain(item) for item in value] if isinstance(value, list) else value


def save(config: Json, folder: Path) -> None:
    """Puts the resolved config beside a command's result."""
    write_json(folder / "config.json", config)
