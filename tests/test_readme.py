"""What the README shows works as it stands."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np

ROOT = Path(__file__).parents[1]
SCENE = """
<mujoco>
  <worldbody>
    <geom name="table" type="plane" size="1 1 .1"/>
    <body name="cube" pos="0 0 .05"><freejoint/><geom name="cube" type="box" size=".02 .02 .02" mass=".1"/></body>
    <body name="finger" pos=".2 0 .05">
      <joint name="slide" type="slide" axis="1 0 0"/><geom name="finger" type="sphere" size=".02" mass=".1"/>
    </body>
  </worldbody>
  <actuator><position name="slide" joint="slide" kp="10" kv="1"/></actuator>
</mujoco>
"""


def test_the_example_of_the_simulator_runs(tmp_path, monkeypatch):
    (example,) = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), re.DOTALL)
    (tmp_path / "scene.xml").write_text(SCENE)
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {"controls": np.full((3, 1), 0.05)}
    exec(compile(example, "README.md", "exec"), names)
    worlds = names["worlds"]
    assert worlds.qpos.shape == (3, 8)  # type: ignore[attr-defined]
    assert not worlds.diverged.any()  # type: ignore[attr-defined]


def test_every_command_of_the_readme_exists_and_every_linked_file_is_there():
    from twinproof.cli import COMMANDS

    text = (ROOT / "README.md").read_text(encoding="utf-8")
    for words in re.findall(r"twinproof ([a-z]+(?: (?:record|fit|scan|convert|mesh|check|transfer))?)\b", text):
        assert words in COMMANDS or words in ("is", "on", "stands"), words
    for link in re.findall(r"\]\(([^)#]+)\)", text):
        assert link.startswith("https://") or (ROOT / link).is_file(), link


def test_the_figures_of_the_readme_are_those_of_the_results():
    from bench.readme import MARK, TABLES, filled

    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert {"real", "measured"} <= {name for _, name, _ in MARK.findall(text)} <= set(TABLES)
    assert filled(text) == text, "run python -m bench.readme"


def test_the_picture_of_the_readme_is_small():
    (picture,) = re.findall(r"!\[[^]]*\]\(([^)]+)\)", (ROOT / "README.md").read_text(encoding="utf-8"))
    assert (ROOT / picture).stat().st_size <= 300_000
