"""What docs/how_to_add.md shows works as it stands."""

from __future__ import annotations

import json
import re
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from twinproof.ingest.assemble import Tolerances, assemble
from twinproof.nouns.errors import PolicyError
from twinproof.nouns.rig import Joint, Rig, SignalRule
from twinproof.sim.fields import Fields
from twinproof.sim.scene import Scene
from twinproof.tasks.named import task_named

ROOT = Path(__file__).parents[1]
SPRUNG = """
<mujoco>
  <compiler angle="radian"/>
  <worldbody>
    <body name="door"><joint name="hinge" stiffness="2" springref="0.1"/><geom type="box" size=".1 .1 .1"/></body>
  </worldbody>
</mujoco>"""


@pytest.fixture(scope="module")
def shown() -> dict[str, Any]:
    names: dict[str, Any] = {"__name__": __name__}
    text = (ROOT / "docs" / "how_to_add.md").read_text(encoding="utf-8")
    for example in re.findall(r"```python\n(.*?)```", text, re.DOTALL):
        exec(compile(example, "how_to_add.md", "exec", dont_inherit=True), names)
    return names


def test_a_parameter_writes_and_pokes_the_same(shown):
    parameter, scene = shown["JointRest"]("hinge"), Scene(SPRUNG)
    nominal = scene.nominal()
    assert parameter.id == "joint.hinge.springref"
    assert parameter.read(nominal) == pytest.approx(0.1)
    spec = scene.spec()
    parameter.write(spec, 0.4)
    fields = Fields(nominal, 2)
    parameter.poke(fields, np.array([0.4, 0.5]))
    assert np.allclose(spec.compile().qpos_spring, fields["qpos_spring"][0])
    assert fields["qpos_spring"][1, 0] == 0.5


def test_a_reader_gives_episodes_that_a_rig_makes_whole(shown, tmp_path):
    np.savez(tmp_path / "take_1.npz", t=np.arange(4) / 10, state=np.full((4, 1), 90.0))
    reader = shown["NpzReader"](tmp_path)
    assert [signal.source for signal in reader.probe().signals] == ["state"]
    rule = SignalRule("state", "joint_position", "deg", columns=("hinge",))
    rig = Rig("door", (Joint("hinge"),), signals={"state": rule})
    (raw,) = reader.episodes(rig)
    episode = assemble(raw, rig, tmp_path, Tolerances())
    assert np.allclose(episode.signals["state"].value, np.pi / 2)
    assert reader.describe()["kind"] == "npz"


def test_the_task_that_is_named_is_there():
    assert (ROOT / "examples" / "own_task" / "hover.py").is_file()
    assert callable(task_named)


class Answering(BaseHTTPRequestHandler):
    """A policy that moves towards nought."""

    def do_POST(self) -> None:
        seen = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        body = json.dumps({"actions": [[-value for value in seen["state"]]]}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        pass


def test_a_client_asks_and_says_when_nobody_answers(shown):
    server = HTTPServer(("127.0.0.1", 0), Answering)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        client = shown["JsonClient"](f"http://127.0.0.1:{server.server_port}", timeout_s=20.0)
        assert np.array_equal(client.ask({"state": np.array([1.0, -2.0])})["actions"], [[-1.0, 2.0]])
        client.reset()
    finally:
        server.shutdown()
        server.server_close()
    with pytest.raises(PolicyError, match="gave no answer"):
        client.ask({"state": np.zeros(2)})
    client.close()
