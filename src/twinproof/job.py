"""A job: one TOML file that says what a run does, a table for each stage with the options of its command.

name = "pendulum"
seed = 0                      the default of every stage's seed

[ingest]
source = "recordings"         a relative path starts at the job's file; {lab}, {twin}, … are results of this run
rig = "rig.toml"

[budget_s]                    optional: how long each stage may be expected to take, printed beside the time taken
identify = 60

[full.train]                  optional: what --full changes; here the options of [train] that it sets anew
steps = 4_000_000
"""

from __future__ import annotations

import dataclasses
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from twinproof.nouns.errors import ConfigError
from twinproof.nouns.files import file_hashes
from twinproof.nouns.hashing import Json, hash_file
from twinproof.nouns.strict import build, plain

Config = TypeVar("Config")
PLACE = re.compile(r"\{(\w+)\}")
OWN = ("name", "seed", "budget_s", "full")  # what a job holds beside its stages


@dataclass(frozen=True)
class Job:
    """Stage -> its command's options, as in the file. Which stages there are decides how far a run goes."""

    name: str
    folder: Path  # where relative paths start
    sections: Mapping[str, Mapping[str, Json]]
    seed: int = 0
    budget_s: Mapping[str, float] = field(default_factory=dict)
    on: str = ""  # where work that spreads runs, as --on names it; decides no result

    def config(self, section: str, kind: type[Config], places: Mapping[str, Path], given: Mapping[str, Path]) -> Config:
        """The settings of a stage's command: its table, the job's seed, results of earlier stages and where it goes."""
        where = f"job {self.name!r}, [{section}]"
        table = _with_places(dict(self.sections[section]), places, where)
        names = {entry.name for entry in dataclasses.fields(kind)}  # type: ignore[arg-type]
        for name in given:
            if name in table:
                raise ConfigError(f"{where}: {name!r} is not yours to set, the run does. Remove it.")
        if "seed" in names:
            table.setdefault("seed", self.seed)
        if "on" in names:
            table.setdefault("on", self.on)
        made = build(kind, table, where, ConfigError, made=dict(given))
        return _resolved(made, self.folder)

    def until(self, last: str, order: tuple[str, ...]) -> Job:
        """The job as far as a stage, that one included; all of it for an empty name."""
        if not last:
            return self
        if last not in self.sections:
            raise ConfigError(f"job {self.name!r} has no stage {last!r}. It has {', '.join(self.sections)}.")
        wanted = order[: order.index(last) + 1]
        return dataclasses.replace(self, sections={k: v for k, v in self.sections.items() if k in wanted})


def read_job(path: Path, known: tuple[str, ...], full: bool = False) -> Job:
    """The job in a TOML file, with what its [full] tables change where asked; tables that no stage has are errors."""
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as problem:
        raise ConfigError(f"{path} is no readable TOML ({problem}). Name a job, or mend it.") from None
    if full:
        data = _thorough(data, path)
    sections = {name: value for name, value in data.items() if name not in OWN}
    for name, value in sections.items():
        if name not in known:
            raise ConfigError(f"{path}: no stage is called {name!r}. Stages: {', '.join(known)}.")
        if not isinstance(value, Mapping):
            raise ConfigError(f"{path}: [{name}] must be a table of the command's options.")
    seed, budget = data.get("seed", 0), data.get("budget_s", {})
    if not isinstance(seed, int) or isinstance(seed, bool) or seed < 0:
        raise ConfigError(f"{path}: seed is {seed!r}; a whole number from 0 is needed.")
    if not isinstance(budget, Mapping) or not all(isinstance(value, (int, float)) for value in budget.values()):
        raise ConfigError(f"{path}: [budget_s] holds seconds for stages, as in identify = 60.")
    return Job(str(data.get("name", path.stem)), path.absolute().parent, sections, seed, dict(budget))


def _thorough(data: Mapping[str, Any], path: Path) -> dict[str, Any]:
    """The job's tables with the options of [full.NAME] in place of theirs; a stage that only --full has is added."""
    more = data.get("full")
    if not isinstance(more, Mapping) or not all(isinstance(table, Mapping) for table in more.values()):
        raise ConfigError(f"{path} has no [full.STAGE] tables, so --full would change nothing. Run it without.")
    return {**data, **{name: {**data.get(name, {}), **table} for name, table in more.items()}}


def _with_places(table: dict[str, Json], places: Mapping[str, Path], where: str) -> dict[str, Json]:
    def put(value: Json) -> Json:
        if isinstance(value, list):
            return [put(item) for item in value]
        if not isinstance(value, str):
            return value
        for name in PLACE.findall(value):
            if name in places:
                value = value.replace(f"{{{name}}}", str(places[name]))
        return value

    for name, value in table.items():
        found = PLACE.findall(value) if isinstance(value, str) else []
        lost = [place for place in found if place not in places]
        if lost and value.startswith(f"{{{lost[0]}}}"):  # elsewhere braces are the command's own, as in scene_{object}
            raise ConfigError(
                f"{where}: {name} names {{{lost[0]}}}, which no earlier stage makes: {', '.join(places)}."
            )
    return {name: put(value) for name, value in table.items()}


def _resolved(config: Config, folder: Path) -> Config:
    changes: dict[str, Any] = {}
    for entry in dataclasses.fields(config):  # type: ignore[arg-type]
        value = getattr(config, entry.name)
        if isinstance(value, Path) and not value.is_absolute():
            changes[entry.name] = folder / value
        elif isinstance(value, tuple) and value and all(isinstance(item, Path) for item in value):
            changes[entry.name] = tuple(folder / item for item in value)
        elif isinstance(value, tuple) and value and all(isinstance(item, str) for item in value):
            changes[entry.name] = tuple(_beside(item, folder) for item in value)
    return dataclasses.replace(config, **changes) if changes else config  # type: ignore[type-var]


def _beside(text: str, folder: Path) -> str:
    """NAME=FILE with a file that lies beside the job, by its whole path; any other text as it is."""
    name, sign, where = text.partition("=")
    there = sign and where and not Path(where).is_absolute() and (folder / where).is_file()
    return f"{name}={folder / where}" if there else text


def decisive(config: object, places: Mapping[Path, str]) -> tuple[Json, tuple[Path, ...]]:
    """The settings as data that decides a result, and the results of this run among them.

    Those count by their keys, other files by their content.
    """
    used: dict[Path, None] = {}

    def stands_for(value: Any) -> Json:
        if isinstance(value, Path):
            for folder, key in places.items():
                if value == folder or folder in value.parents:
                    used[folder] = None
                    return [key, value.relative_to(folder).as_posix()]
            if value.is_file():
                return hash_file(value)
            return file_hashes(value) if value.is_dir() else str(value)
        if isinstance(value, str):  # NAME=FOLDER, or NAME=FILE
            for folder, key in places.items():
                if str(folder) in value:
                    used[folder] = None
                    value = value.replace(str(folder), key)
            name, sign, where = value.partition("=")
            if sign and Path(where).is_absolute() and Path(where).is_file():
                return [name, hash_file(Path(where))]
            return value
        return [stands_for(item) for item in value] if isinstance(value, (tuple, list)) else plain(value)

    values = {entry.name: getattr(config, entry.name) for entry in dataclasses.fields(config)}  # type: ignore[arg-type]
    decides = {name: stands_for(value) for name, value in values.items() if name not in ("out", "plots", "json", "on")}
    return decides, tuple(used)
