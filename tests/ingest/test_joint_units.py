"""Joints as servo buses count them become joints as the model counts them: other names, turns and zeros."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from twinproof.ingest.read import ingest
from twinproof.nouns.errors import RigError
from twinproof.nouns.rig import Joint, Rig, SignalRule


def source(folder: Path, columns: str, *rows: str) -> Path:
    """A folder with one episode of one table."""
    path = folder / "src" / "e" / "state.csv"
    path.parent.mkdir(parents=True)
    path.write_text("\n".join([f"time_s,{columns}", *(f"{k / 10},{row}" for k, row in enumerate(rows))]) + "\n")
    return folder / "src"


def one(joint: Joint, *units: str, kind: str = "joint_position", columns: tuple[str, ...] = ()) -> Rig:
    rule = SignalRule("state", kind, units=units, columns=columns)
    return Rig("bot", joints=(joint,), signals={"q": rule})


def values(folder: Path, rig: Rig) -> list[float]:
    made = ingest(folder / "src", rig, folder / "out")
    return np.asarray(made.episodes[0].signals["q"].value[:, 0]).tolist()


def test_a_place_between_the_ends_is_an_angle(tmp_path: Path) -> None:
    source(tmp_path, "jaw", "0", "50", "100")
    assert values(tmp_path, one(Joint("jaw", (-0.2, 1.8)), "% of range")) == pytest.approx([-0.2, 0.8, 1.8])


def test_so_is_one_that_is_counted_from_the_middle(tmp_path: Path) -> None:
    source(tmp_path, "jaw", "-100", "0", "50")
    assert values(tmp_path, one(Joint("jaw", (-0.2, 1.8)), "±% of range")) == pytest.approx([-0.2, 0.8, 1.3])


def test_a_place_counted_from_the_other_end_stays_between_the_ends(tmp_path: Path) -> None:
    source(tmp_path, "jaw", "0", "25", "100")
    found = values(tmp_path, one(Joint("jaw", (-0.2, 1.8), sign=-1), "% of range"))
    assert found == pytest.approx([1.8, 1.3, -0.2])


def test_the_model_may_call_a_joint_otherwise_and_count_it_otherwise(tmp_path: Path) -> None:
    source(tmp_path, "main_pan,spare", "0,1", "90,1", "-90,1")
    joint = Joint("pan", source="main_pan", sign=-1, zero=0.5)
    rig = Rig(
        "bot", joints=(joint,), signals={"q": SignalRule("state", "joint_position", "deg")}, ignore=("state/spare",)
    )
    made = ingest(tmp_path / "src", rig, tmp_path / "out")
    signal = made.episodes[0].signals["q"]
    assert [column.name for column in signal.columns] == ["pan"]
    assert signal.value[:, 0].tolist() == pytest.approx([0.5, 0.5 - math.pi / 2, 0.5 + math.pi / 2])


@pytest.mark.parametrize("columns", [("pan",), ("main_pan",)])
def test_columns_name_a_joint_by_either_name(tmp_path: Path, columns: tuple[str, ...]) -> None:
    source(tmp_path, "main_pan", "1", "2")
    rig = one(Joint("pan", source="main_pan"), "rad", columns=columns)
    made = ingest(tmp_path / "src", rig, tmp_path / "out")
    assert [column.name for column in made.episodes[0].signals["q"].columns] == ["pan"]


def test_speeds_turn_round_and_have_no_zero(tmp_path: Path) -> None:
    source(tmp_path, "pan", "1", "2")
    assert values(tmp_path, one(Joint("pan", sign=-1, zero=0.5), "rad/s", kind="joint_velocity")) == [-1, -2]


@pytest.mark.parametrize(
    ("joint", "kind", "said"),
    [
        (Joint("jaw"), "joint_position", r"does not say its range. Add range = \[low, high\]"),
        (Joint("jaw", (0, 1), zero=0.1), "joint_position", "leave out zero"),
        (Joint("jaw", (0, 1)), "joint_velocity", "State its unit"),
    ],
)
def test_a_place_that_cannot_be_told_is_an_error(tmp_path: Path, joint: Joint, kind: str, said: str) -> None:
    source(tmp_path, "jaw", "1", "2")
    with pytest.raises(RigError, match=said):
        values(tmp_path, one(joint, "% of range", kind=kind))


def test_two_joints_do_not_read_one_column() -> None:
    with pytest.raises(RigError, match="two joints read the column 'a'"):
        Rig("bot", joints=(Joint("a"), Joint("b", source="a")))


def test_a_rig_that_says_none_of_this_keeps_its_hash() -> None:
    assert Rig("bot", joints=(Joint("a"),)).hash == "3726b23db765c5a393215406687d78421815d59936c0d4112293980934d772ab"
