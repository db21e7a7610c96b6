"""The rig: strict reading, sentences for every mistake, and a round trip through TOML."""

from __future__ import annotations

import tomllib

import pytest

from tests.generator import practice_rig
from twinproof.nouns.errors import RigError
from twinproof.nouns.hashing import hash_file
from twinproof.nouns.rig import read_rig, rig_from
from twinproof.nouns.strict import plain
from twinproof.nouns.toml_text import to_toml


def test_a_rig_survives_toml():
    assert rig_from(tomllib.loads(to_toml(plain(practice_rig())))) == practice_rig()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("robot = ", "not readable TOML"),
        ("[x]", "unknown key 'x'"),
        ("robot = 3", "rig.robot: a text is needed, found 3"),
        ("", "'robot' is missing"),
        ("robot='r'\nrobots='q'", "Did you mean 'robot'?"),
        ("robot='r'\nformat='twinproof/rig/9'", "format is 'twinproof/rig/9'"),
        ("robot='r'\n[[joints]]\nname='a'\n[[joints]]\nname='a'", "'a' is listed twice"),
        ("robot='r'\n[[joints]]\nname='a'\nrange=[2,1]", "low must be below high"),
        ("robot='r'\n[[arms]]\nname='l'\njoints=['a']", "arm 'l' names the joint 'a'"),
        ("robot='r'\n[signals.s]\nsource='s'\nkind='joints'", "signals.s.kind is 'joints'"),
        ("robot='r'\n[signals.s]\nsource='s'\ntime='wall'", "signals.s.time is 'wall'"),
        ("robot='r'\n[signals.'a/b']\nsource='s'", "letters, digits"),
        ("robot='r'\n[signals.s]\nsource='s'\ncolumns=['a']\nunits=['m','m']", "1 columns and 2 units"),
        ("robot='r'\n[cameras.c]\nsource='c'\nintrinsics={fx=0,fy=1,cx=1,cy=1}", "focal length"),
        (
            "robot='r'\n[cameras.c]\nsource='c'\nintrinsics_unknown=true\nintrinsics={fx=1,fy=1,cx=1,cy=1}",
            "says they are unknown",
        ),
        ("robot='r'\n[cameras.c]\nsource='c'\nmount={quat_wxyz=[1,1,0,0]}", "unit quaternion"),
        ("robot='r'\n[cameras.c]\nsource='c'\nmount={position_m=[1,2]}", "a list of 3 is needed"),
        ("robot='r'\n[model]\npath='none.xml'", "does not exist"),
        ("robot='r'\n[model]\npath='../none.xml'", "leaves its folder"),
    ],
)
def test_every_mistake_has_its_sentence(tmp_path, text, words):
    path = tmp_path / "rig.toml"
    path.write_text(text)
    with pytest.raises(RigError, match=words.replace("?", r"\?")):
        read_rig(path)


def test_the_models_hash_is_filled_in_and_a_changed_model_is_noticed(tmp_path):
    (tmp_path / "robot.xml").write_text("<mujoco/>")
    path = tmp_path / "rig.toml"
    path.write_text("robot='r'\n[model]\npath='robot.xml'\n")
    rig = read_rig(path)
    assert rig.model is not None
    assert rig.model.hash == hash_file(tmp_path / "robot.xml")
    path.write_text(to_toml(plain(rig)))
    (tmp_path / "robot.xml").write_text("<mujoco model='other'/>")
    with pytest.raises(RigError, match="It was changed"):
        read_rig(path)


def test_a_missing_rig_names_the_command_that_writes_one(tmp_path):
    with pytest.raises(RigError, match="--suggest-rig"):
        read_rig(tmp_path / "rig.toml")
