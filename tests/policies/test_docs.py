"""What docs/policies.md shows works as it stands."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from twinproof.nouns.errors import PolicyError
from twinproof.nouns.robot import Limits
from twinproof.policies.safety_file import read_safety
from twinproof.policies.server import read_served, server_of

TEXT = (Path(__file__).parents[2] / "docs" / "policies.md").read_text(encoding="utf-8")


def test_the_examples_run(capsys):
    names: dict[str, object] = {}
    for example in re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL):
        exec(compile(example, "policies.md", "exec"), names)
    assert capsys.readouterr().out.startswith("horizon the horizon of 2 s is over.")


def test_the_map_is_one_that_is_read(tmp_path):
    served, safety = re.findall(r"```toml\n(.*?)```", TEXT, re.DOTALL)
    (tmp_path / "safety.toml").write_text(safety)
    limits = Limits(np.full(2, -2.0), np.full(2, 2.0), np.full(2, 3.0))
    with pytest.raises(PolicyError, match="states a workspace, and there is no scene to tell where tips are"):
        read_safety(tmp_path / "safety.toml", ("waist", "elbow"), limits, 20.0, None)
    (tmp_path / "served.toml").write_text(served)
    assert server_of(read_served(tmp_path / "served.toml")).send[1].layout == "chw"
