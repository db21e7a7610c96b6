"""What docs/policies.md shows works as it stands."""

from __future__ import annotations

import re
from pathlib import Path

from twinproof.policies.server import read_served, server_of

TEXT = (Path(__file__).parents[2] / "docs" / "policies.md").read_text(encoding="utf-8")


def test_the_examples_run(capsys):
    names: dict[str, object] = {}
    for example in re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL):
        exec(compile(example, "policies.md", "exec"), names)
    assert capsys.readouterr().out.startswith("horizon the horizon of 2 s is over.")


def test_the_map_is_one_that_is_read(tmp_path):
    (example,) = re.findall(r"```toml\n(.*?)```", TEXT, re.DOTALL)
    (tmp_path / "served.toml").write_text(example)
    assert server_of(read_served(tmp_path / "served.toml")).send[1].layout == "chw"
