"""What the pages tell a reader to type is what the commands take today. Nothing is run but the parser."""

from __future__ import annotations

import dataclasses
import importlib.util
import inspect
import re
import shlex
from pathlib import Path

import pytest

from twinproof import settings
from twinproof.cli import COMMANDS

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")), *sorted((ROOT / "examples").glob("*/README.md"))]
FENCED = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
FLAG = re.compile(r"(?<![\w-])--[a-z][\w-]*")


def ours(text: str) -> list[str]:
    """The lines of a text that begin with `twinproof`, without it; a backslash joins two."""
    lines = (line.strip() for line in re.sub(r"\\\n\s*", " ", text).splitlines())
    return [line.removeprefix("twinproof ") for line in lines if line.startswith("twinproof ")]


def typed(page: Path) -> list[str]:
    """The commands that a page's blocks show, without `twinproof`."""
    shells = [
        block for kind, block in FENCED.findall(page.read_text(encoding="utf-8")) if kind in ("", "sh", "bash", "text")
    ]
    return ours("".join(shells))


def examples(command: str) -> list[str]:
    """The examples of a command's help; what stands after three spaces explains."""
    return [re.split(r" {3,}", line)[0] for line in ours(inspect.getdoc(COMMANDS[command][0]) or "")]


def named(words: list[str]) -> tuple[str, list[str]]:
    """A command and its arguments."""
    count = 2 if " ".join(words[:2]) in COMMANDS else 1
    return " ".join(words[:count]), words[count:]


def flags(command: str) -> set[str]:
    names = [field.name.replace("_", "-") for field in dataclasses.fields(COMMANDS[command][0])]
    return {"--config", "--help", *(f"--{name}" for name in names), *(f"--no-{name}" for name in names)}


def parse(line: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Fails where a command would not take its line up to a pipe; of one cut short by … the flags are looked at."""
    command, arguments = named(shlex.split(line.partition(" | ")[0], comments=True))
    assert command in COMMANDS, line
    if "…" in arguments:
        assert set(FLAG.findall(line)) <= flags(command), line
        return
    try:
        settings.parse(COMMANDS[command][0], arguments, command)
    except SystemExit:
        pytest.fail(f"twinproof {line}\n{capsys.readouterr().err}")


@pytest.mark.parametrize("page", [page for page in PAGES if typed(page)], ids=lambda page: str(page.relative_to(ROOT)))
def test_every_command_of_a_page_is_understood(page, capsys):
    for line in typed(page):
        parse(line, capsys)


@pytest.mark.parametrize("command", COMMANDS)
def test_every_example_of_a_help_is_understood(command, capsys):
    assert examples(command)
    for line in examples(command):
        parse(line, capsys)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_flag_that_a_text_names_exists(page):
    everywhere = {"--version"}.union(*(flags(command) for command in COMMANDS))
    for code in re.findall(r"`([^`]+)`", FENCED.sub("", page.read_text(encoding="utf-8"))):
        words = code.split()
        command = named(words[1:])[0] if words[:1] == ["twinproof"] else named(words)[0]
        known = flags(command) if command in COMMANDS else everywhere
        assert set(FLAG.findall(code)) <= known, code


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_module_that_a_page_runs_and_every_file_that_it_names_exists(page):
    text = page.read_text(encoding="utf-8")
    for module in re.findall(r"python -m ((?:bench|twinproof)[\w.]*)", text):
        assert module.endswith(".NAME") or importlib.util.find_spec(module.rstrip(".")), module
    for path in re.findall(r"\b(?:bench|tests|examples)/[\w/]+\.(?:py|md|toml)\b", text):
        assert (ROOT / path).is_file(), path


def test_every_page_is_in_the_site_and_its_links_stay_there():
    contents = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    for page in (page for page in PAGES if page.is_relative_to(ROOT / "docs")):
        assert f" {page.relative_to(ROOT / 'docs')}\n" in contents, page
        for link in re.findall(r"\]\(([^)#]+)", FENCED.sub("", page.read_text(encoding="utf-8"))):
            there = (page.parent / link).resolve()
            assert link.startswith("https://") or (there.is_file() and there.is_relative_to(ROOT / "docs")), link
