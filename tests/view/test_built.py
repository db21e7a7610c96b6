"""The page that is shipped was built from the sources in web/: where node is there it is built again and compared."""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
from importlib import resources
from pathlib import Path

import pytest

from twinproof.view.vr import BUILT

WEB = Path(__file__).parents[2] / "web"
SHIPPED = Path(str(resources.files("twinproof.view") / "web"))


def test_the_page_that_is_shipped_was_built_from_these_sources():
    named = sorted([*(f"src/{path.name}" for path in (WEB / "src").iterdir()), "build.mjs", "package-lock.json"])
    found = hashlib.sha256()
    for name in named:
        found.update(name.encode() + b"\0" + (WEB / name).read_bytes() + b"\0")
    stated = json.loads((SHIPPED / "built.json").read_bytes())
    assert stated["sources"] == found.hexdigest(), "web/ was changed: run `npm ci && npm run build` in it"
    assert stated["app.js"] == hashlib.sha256((SHIPPED / "app.js").read_bytes()).hexdigest()
    assert (SHIPPED / "index.html").read_bytes() == (WEB / "src" / "index.html").read_bytes()


def test_the_page_is_small_enough_and_names_the_licences():
    assert sum(len((SHIPPED / name).read_bytes()) for name in BUILT) < 5_000_000
    assert "three" in (SHIPPED / "LICENSES.txt").read_text()


def test_a_new_build_gives_the_same_files(tmp_path):
    node = shutil.which("node")
    if node is None or not (WEB / "node_modules" / "esbuild").is_dir():
        pytest.skip("node or web/node_modules is not there: run `npm ci` in web/")
    subprocess.run([node, "build.mjs", str(tmp_path)], cwd=WEB, check=True, timeout=120, capture_output=True)
    for name in (*BUILT, "built.json"):
        assert (tmp_path / name).read_bytes() == (SHIPPED / name).read_bytes(), name
