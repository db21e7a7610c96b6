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

from twinproof.job_files import PLACE, content_of
from twinproof.nouns.errors import ConfigError
from twinproof.nouns.hashing import Json
from twinproof.nouns.strict import build, plain

Config = TypeVar("Config")
STRAY = re.compile(r"(?:^|=)\{(\w+)\}")  # elsewhere braces are the command's own, as in scene_{object}
OWN = ("name", "seed", "budget_s", "full")  # what a job holds beside its stages
MADE = ("actuators", "residual", "lerobot")  # paths that a command writes to: they decide by where, not by content
FILES = {  # options of text that name files, and where in the text a path stands
    "robot": re.compile(r"^(?!lab:).+"),
    "task": re.compile(r".*[./].*"),  # a bare word is a task of ours
    "scenes": re.compile(r".+"),
    "policy": re.compile(r"(?<==)(?!(?:expert|mppi)$).+"),  # NAME=FOLDER
}


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

    def stages(self, order: tuple[str, ...]) -> list[str]:
        """The sections that it has, in the order in which they run."""
        return [name for name in order if name in self.sections]

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
    def put(name: str, value: Json) -> Json:
        if isinstance(value, list):
            return [put(name, item) for item in value]
        if not isinstance(value, str):
            return value
        lost = [place for place in STRAY.findall(value) if place not in places]
        if lost:
            raise ConfigError(
                f"{where}: {name} names {{{lost[0]}}}, which no earlier stage makes: {', '.join(places)}."
            )
        return PLACE.sub(lambda found: str(places.get(found[1], found[0])), value)

    return {name: put(name, value) for name, value in table.items()}


def _resolved(config: Config, folder: Path) -> Config:
    """The settings with every path whole: a relative one starts at the job's file."""

    def whole(name: str, value: Any) -> Any:
        if isinstance(value, tuple):
            return tuple(whole(name, item) for item in value)
        if isinstance(value, Path):
            return folder / value
        if isinstance(value, str) and name in FILES:
            return FILES[name].sub(lambda found: str(folder / found[0]), value)
        return value

    fields = dataclasses.fields(config)  # type: ignore[arg-type]
    found = {entry.name: whole(entry.name, getattr(config, entry.name)) for entry in fields}
    return dataclasses.replace(config, **found)  # type: ignore[type-var]


def decisive(config: object, places: Mapping[Path, str]) -> tuple[Json, tuple[Path, ...]]:
    """The settings as data that decides a result, and the results of this run among them.

    Those count by their keys, other files by their content and that of the files that they read in turn.
    """
    used: dict[Path, None] = {}

    def stands_for(name: str, value: Any) -> Json:
        if isinstance(value, (tuple, list)):
            return [stands_for(name, item) for item in value]
        if isinstance(value, Path):
            for folder, key in places.items():
                if value == folder or folder in value.parents:
                    used[folder] = None
                    return [key, value.relative_to(folder).as_posix()]
            return str(value) if name in MADE else content_of(value)
        if not isinstance(value, str):
            return plain(value)
        for folder, key in places.items():
            if str(folder) in value:
                used[folder] = None
                value = value.replace(str(folder), key)
        found = FILES[name].search(value) if name in FILES else None
        if found and Path(found[0]).is_absolute():
            return [value[: found.start()], content_of(Path(found[0]))]
        return value

    values = {entry.name: getattr(config, entry.name) for entry in dataclasses.fields(config)}  # type: ignore[arg-type]
    left_out = ("out", "plots", "json", "on")
    return {name: stands_for(name, value) for name, value in values.items() if name not in left_out}, tuple(used)
