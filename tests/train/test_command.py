"""`twinproof train`: from folders to a policy that acts, with its curve."""

from __future__ import annotations

import json

import numpy as np
import onnxruntime
import pytest

from tests.train.folders import folders
from twinproof import cli
from twinproof.nouns.errors import ConfigError, PolicyError, StoreError, TaskError
from twinproof.nouns.policy import Policy
from twinproof.policies.load import actor_of
from twinproof.tasks import reach
from twinproof.train import command
from twinproof.train.ground import Asked, Ground


@pytest.fixture(scope="module")
def practice(tmp_path_factory):
    return folders(tmp_path_factory.mktemp("practice"))


@pytest.fixture(autouse=True)
def _few_judged(monkeypatch):
    monkeypatch.setattr(command, "JUDGED", 8)
    monkeypatch.setattr(command, "JUDGED_OFTEN", 4)
    monkeypatch.setattr(command, "PROBED", 4)


def asked(practice, out, **more) -> Asked:
    small = {"worlds": 4, "steps": 4 * 32 * 2, "hidden": (8, 8)}
    chosen = {"task": "reach", "algo": "ppo", **small, **more}
    return Asked(**{"twin": practice[0], "randomization": practice[1], "out": out, **chosen})


def test_the_command_writes_a_policy_with_its_curve(practice, tmp_path, capsys):
    out = tmp_path / "policy"
    arguments = ["train", *practice, "--out", out, "--worlds", 4, "--steps", 256, "--hidden", 8, 8, "--onnx",
                 "--tensorboard"]  # fmt: skip
    with pytest.raises(SystemExit) as stop:
        cli.main([str(each) for each in arguments])
    assert stop.value.code == 0
    assert "of 8 fresh episodes in the twin succeed" in capsys.readouterr().out
    policy = Policy.load(out)
    assert policy.deployable
    assert set(policy.parents) == {"twin", "randomization"}
    assert policy.training["algorithm"] == "ppo"
    assert policy.training["judged_episodes"] == 8
    lines = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    assert [line["steps"] for line in lines] == [128, 256]
    assert (out / "curve.png").read_bytes().startswith(b"\x89PNG")
    assert (out / "tensorboard").is_dir()
    assert json.loads((out / "config.json").read_text())["settings"]["task"] == "reach"
    assert not (tmp_path / ".policy.training").exists()
    rng = np.random.default_rng(0)
    seen = {c.name: rng.normal(size=(3, *c.shape)).astype(np.float32) for c in policy.contract.observations}
    actor = actor_of(policy)
    actor.reset(3, 0)
    session = onnxruntime.InferenceSession(str(out / "policy.onnx"))
    np.testing.assert_allclose(session.run(None, seen)[0], actor.act(seen), atol=1e-5)


def test_ctrl_c_says_how_to_go_on(practice, tmp_path, capsys, monkeypatch):
    def stopped(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(command, "run", stopped)
    with pytest.raises(SystemExit) as stop:
        cli.main(["train", *map(str, practice), "--out", str(tmp_path / "policy")])
    assert stop.value.code == 130
    assert ".policy.training has the checkpoints; the same command goes on from there" in capsys.readouterr().err


def test_several_seeds_give_several_policies(practice, tmp_path):
    made = command.run(asked(practice, tmp_path / "many", seeds=2, seed=5))
    assert [each.policy.seed for each in made] == [5, 6]
    assert [each.folder.name for each in made] == ["seed5", "seed6"]
    assert (tmp_path / "many" / "curve.png").is_file()
    first, second = (Policy.load(each.folder).weights["layers.0.weight"] for each in made)
    assert not np.array_equal(first, second)


def test_a_teacher_and_its_student_and_a_correction_of_it(practice, tmp_path):
    command.run(asked(practice, tmp_path / "teacher", algo="teacher"))
    teacher = Policy.load(tmp_path / "teacher")
    assert not teacher.deployable
    follow = asked(practice, tmp_path / "student", algo="student", teacher=tmp_path / "teacher", history=3, steps=400)
    (student,) = command.run(follow)
    assert student.policy.deployable
    assert student.policy.contract.history == 3
    assert student.policy.parents["teacher"] == teacher.hash
    with pytest.raises(PolicyError, match="the base .* has another contract than is needed here"):
        Ground.of(asked(practice, tmp_path / "x", algo="residual", base=tmp_path / "student"))
    command.run(asked(practice, tmp_path / "base"))
    (better,) = command.run(asked(practice, tmp_path / "better", algo="residual", base=tmp_path / "base", share=0.2))
    assert better.policy.parents["base"] == Policy.load(tmp_path / "base").hash
    assert better.policy.architecture["residual_share"] == 0.2


def test_a_clone_of_the_expert_is_driven_by_it_alone(practice, tmp_path):
    (made,) = command.run(asked(practice, tmp_path / "clone", algo="clone", steps=800))
    assert made.policy.training["algorithm"] == "clone"


def test_a_run_that_was_stopped_with_other_settings_is_refused(practice, tmp_path):
    def stop(done, name, total=None):
        if done:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        command.run(asked(practice, tmp_path / "policy"), stop)
    with pytest.raises(PolicyError, match="other settings: worlds was 4, now 8"):
        command.run(asked(practice, tmp_path / "policy", worlds=8))
    (made,) = command.run(asked(practice, tmp_path / "policy"))
    assert made.outcome.iterations == 2
    with pytest.raises(StoreError, match="exists and is not empty. Nothing is overwritten"):
        command.run(asked(practice, tmp_path / "policy"))


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"algo": "student"}, "--algo student needs a policy to stand on. Give it with --teacher POLICY"),
        ({"algo": "residual"}, "--algo residual needs a policy to stand on. Give it with --base POLICY"),
        ({"worlds": 0}, "--worlds is 0; at least 1 is needed"),
        ({"judged": 0}, "--judged is 0; at least 1 is needed"),
        ({"mix": 2.0}, "--mix is 2 and --input-noise 0.02; both are shares from 0 to 1"),
        ({"history": 4}, "--history 4 is for dagger, clone, student and rma; ppo sees one tick"),
        ({"algo": "dagger", "device": "cuda"}, "--algo dagger trains on the CPU only"),
        ({"target": 95.0}, "--target is 95.0; it is a share above 0 and at most 1"),
    ],
)
def test_settings_that_do_not_fit_are_refused(practice, tmp_path, changes, said):
    with pytest.raises(ConfigError, match=said):
        asked(practice, tmp_path / "policy", **changes)


def test_a_task_that_cannot_be_done_is_told_before_anything_is_learned(practice, tmp_path, monkeypatch):
    monkeypatch.setattr(reach, "STAY_S", 60.0)
    with pytest.raises(TaskError, match="the task 'reach' never succeeds"):
        command.run(asked(practice, tmp_path / "policy"))
    assert not (tmp_path / ".policy.training").exists()


def test_a_task_of_ones_own_has_no_expert_to_follow(practice, tmp_path):
    own = tmp_path / "own.py"
    own.write_text("from twinproof.tasks.reach import of\n")
    ground = Ground.of(asked(practice, tmp_path / "policy", algo="dagger", task=str(own)))
    with pytest.raises(ConfigError, match="--algo dagger learns from an expert, and .*own.py has none. Use ppo"):
        ground.learner(0)
