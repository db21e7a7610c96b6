"""The code in docs/tasks.md runs as it stands."""

from __future__ import annotations

import re
from pathlib import Path

from tests.tasks.scenes import home, lab_scene

DOCS = Path(__file__).parents[2] / "docs" / "tasks.md"


def test_the_code_in_the_docs_runs(capsys):
    known = {"scene": lab_scene("push"), "home": home("push")}
    for block in re.findall(r"```python\n(.*?)```", DOCS.read_text(encoding="utf-8"), re.DOTALL):
        exec(compile(block, str(DOCS), "exec"), known)
    said = capsys.readouterr().out
    assert "of the episodes that ended were successes" in said
    assert "the expert succeeded in 4 of 4 episodes" in said
    assert "(1, 1, 7)" in said
