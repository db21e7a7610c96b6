"""The text of every error a user can cause is pinned in tests/messages.txt: changing one is a decision.

After a decision: `python -m tests.laws.test_messages` writes the file anew.
"""

from __future__ import annotations

import ast
import inspect
import sys
from pathlib import Path

from twinproof.nouns import errors

ROOT = Path(__file__).parents[2]
PINNED = ROOT / "tests" / "messages.txt"
KINDS = {name for name, kind in inspect.getmembers(errors, inspect.isclass) if issubclass(kind, errors.TwinproofError)}


def template(node: ast.expr) -> str:
    """The text of a message with its gaps as {code}."""
    if isinstance(node, ast.Constant):
        return str(node.value)
    if isinstance(node, ast.JoinedStr):
        return "".join(
            part.value if isinstance(part, ast.Constant) else "{" + ast.unparse(part.value) + "}"  # type: ignore[attr-defined]
            for part in node.values
        )
    return "{" + ast.unparse(node) + "}"


def messages() -> list[str]:
    """`kind | text` of every error that the source raises with a text of its own."""
    found = []
    for path in sorted((ROOT / "src" / "twinproof").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            call = node.exc if isinstance(node, ast.Raise) else None
            if not (isinstance(call, ast.Call) and call.args and isinstance(call.func, ast.Name)):
                continue
            if call.func.id in KINDS or call.func.id == "error":
                found.append(f"{call.func.id} | {template(call.args[0])}")
    return sorted(set(found))


def test_no_message_changed_without_a_decision():
    pinned = PINNED.read_text(encoding="utf-8").splitlines()
    now = messages()
    assert sorted(set(now) - set(pinned)) == [], "new or changed messages: run `python -m tests.laws.test_messages`"
    assert sorted(set(pinned) - set(now)) == [], "messages that are gone: run `python -m tests.laws.test_messages`"


def test_every_message_is_made_of_whole_sentences():
    texts = [line.split(" | ", 1)[1] for line in messages()]
    unfinished = [text for text in texts if not text.endswith((".", "?", "}"))]
    assert unfinished == []


if __name__ == "__main__":
    PINNED.write_text("\n".join(messages()) + "\n", encoding="utf-8")
    sys.stdout.write(f"{len(messages())} messages pinned\n")
