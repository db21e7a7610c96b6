"""A user's own Python file (a task, a driver): which modules beside it it imports, and how it is run with them."""

from __future__ import annotations

import ast
import runpy
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any


def neighbours(path: Path) -> tuple[Path, ...]:
    """The modules beside a Python file that it imports, and those that they import, sorted; itself left out.

    Imports are read, not run: what is imported by a computed name, and data that is opened, is not seen.
    """
    root = path.absolute().parent
    found: dict[Path, None] = {path.absolute(): None}
    waiting = [path.absolute()]
    while waiting:
        file = waiting.pop()
        fresh = [each for each in _imported(file, root) if each not in found]
        found.update(dict.fromkeys(fresh))
        waiting += fresh
    return tuple(sorted(found.keys() - {path.absolute()}))


def run_own(path: Path, run_name: str = "<run_path>") -> dict[str, Any]:
    """The names that a user's file defines when it is run. What it imports at its top from beside it is found first
    there, belongs to this run alone, and leaves no compiled file behind."""
    folder, before, compiled = path.absolute().parent, set(sys.modules), sys.dont_write_bytecode
    sys.path.insert(0, str(folder))
    sys.dont_write_bytecode = True
    try:
        return runpy.run_path(str(path), run_name=run_name)
    finally:
        sys.dont_write_bytecode = compiled
        sys.path.remove(str(folder))
        own = {*map(str, neighbours(path))}
        for name in set(sys.modules) - before:
            if getattr(sys.modules[name], "__file__", None) in own:
                del sys.modules[name]  # the same name beside another file is another module


def _imported(file: Path, root: Path) -> Iterator[Path]:
    """Files below the root that the imports of one file name; none where it is no readable Python."""
    try:
        tree = ast.parse(file.read_bytes())
    except (SyntaxError, ValueError):  # whoever runs it will say what is wrong
        return
    for node in ast.walk(tree):
        names: list[str] = []
        start = root
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            start = root if node.level == 0 else file.parents[min(node.level, len(file.parents)) - 1]
            inner = [f"{node.module}.{alias.name}" if node.module else alias.name for alias in node.names]
            names = [node.module, *inner] if node.module else inner  # a name may be a module of the package
        if start.is_relative_to(root):
            for name in names:
                yield from _files(start, name.split("."))


def _files(start: Path, words: list[str]) -> Iterator[Path]:
    """What importing a dotted name from a folder runs: each package on the way, and the module."""
    for count in range(1, len(words) + 1):
        place = start.joinpath(*words[:count])
        for file in (place / "__init__.py", place.with_name(f"{place.name}.py")):
            if file.is_file():
                yield file
