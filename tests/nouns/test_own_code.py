"""A user's own Python file: the modules beside it that it imports are found without running it, and run with it."""

import sys

from twinproof.nouns.own_code import neighbours, run_own


def write(folder, files):
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder / next(iter(files))


def names(path):
    return [each.relative_to(path.parent).as_posix() for each in neighbours(path)]


def test_neighbours_are_followed_through_modules_and_packages(tmp_path):
    path = write(
        tmp_path,
        {
            "task.py": "import numpy\nimport shapes, tools.grips.wide as w\nfrom tools import plain\n"
            "def of():\n    from late import thing\n",
            "shapes.py": "import task, sizes\n",
            "sizes.py": "= no Python\n",
            "late.py": "thing = 1\n",
            "tools/__init__.py": "from . import common\n",
            "tools/common.py": "",
            "tools/plain.py": "from .grips import narrow\nfrom ..outside import x\n",
            "tools/grips/wide.py": "from .narrow import width\n",
            "tools/grips/narrow.py": "width = 1\n",
            "tools/unused.py": "",
            "unused.py": "",
        },
    )
    assert names(path) == [
        "late.py", "shapes.py", "sizes.py", "tools/__init__.py", "tools/common.py", "tools/grips/narrow.py",
        "tools/grips/wide.py", "tools/plain.py",
    ]  # fmt: skip


def test_a_relative_import_that_leaves_the_folder_names_nothing(tmp_path):
    (tmp_path / "above.py").write_text("")
    assert names(write(tmp_path / "deep", {"task.py": "from .. import above\nfrom .......... import far\n"})) == []


def test_each_file_runs_with_the_modules_beside_it_and_leaves_nothing_behind(tmp_path):
    before = (list(sys.path), set(sys.modules))
    for value in (1, 2):
        files = {"task.py": "from beside_it import value\n", "beside_it.py": f"value = {value}\n"}
        path = write(tmp_path / str(value), files)
        assert run_own(path)["value"] == value
        assert {each.name for each in path.parent.iterdir()} == set(files), "no compiled file"
    assert (list(sys.path), set(sys.modules)) == before
