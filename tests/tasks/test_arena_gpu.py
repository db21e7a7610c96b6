"""The arena on a GPU: as on the CPU within float32, and a GPU that is asked for and absent is said."""

from __future__ import annotations

import importlib.util
import sys

import numpy as np
import pytest

from tests.tasks.scenes import home, lab_scene
from twinproof.nouns.errors import ConfigError, MissingExtra, SimError, TaskError
from twinproof.nouns.theta import Theta
from twinproof.tasks.arena import Arena, Play
from twinproof.tasks.backing import check_room
from twinproof.tasks.finite import WAIT, Finite
from twinproof.tasks.named import task_named


def _missing() -> str:
    for package in ("torch", "warp", "mujoco_warp"):
        if importlib.util.find_spec(package) is None:
            return f"worlds on the GPU need {package}: pip install 'twinproof[gpu]'"
    import torch

    return "" if torch.cuda.is_available() else "this machine has no CUDA device"


on_gpu = pytest.mark.skipif(bool(_missing()), reason=_missing() or "-")
PLAY = Play(bank=8, nthread=1)


@pytest.mark.gpu
@on_gpu
@pytest.mark.parametrize(("name", "bench"), [("reach", "pendulum"), ("reach", "push"), ("push", "push")])
def test_the_gpu_does_what_the_cpu_does(name, bench):
    task = task_named(name, lab_scene(bench), home=home(bench))
    draws = [Theta({}), Theta({f"joint.{task.machine.joints[0]}.damping": 0.7})]
    host = Arena(task.machine.scene, task, 8, draws=draws, play=PLAY)
    device = Arena(task.machine.scene, task, 8, draws=draws, play=PLAY, device="cuda:0")
    rng = np.random.default_rng(0)
    for _ in range(10):
        spread = 0.3 if task.machine.torque_driven else 0.02
        action = host.sensed.last + rng.normal(0, spread, host.sensed.last.shape)
        ours, theirs = host.step(action), device.step(device.backing.array(action))
        for channel, rows in ours.observations.items():
            found = theirs.observations[channel].cpu().numpy()
            np.testing.assert_allclose(found, rows, atol=5e-3, err_msg=channel)
        for term, rows in ours.rewards.items():
            np.testing.assert_allclose(theirs.rewards[term].cpu().numpy(), rows, atol=2e-2, err_msg=term)


@pytest.mark.gpu
@on_gpu
def test_worlds_on_the_gpu_begin_anew_by_themselves():
    task = task_named("reach", lab_scene("pendulum"))
    arena = Arena(task.machine.scene, task, 64, play=PLAY, device="cuda:0")
    arena.restart(0, spread=True)
    done = 0
    for _ in range(task.ticks):
        done += int(arena.step(arena.sensed.last * 0).done.sum())
    assert done >= 64


@pytest.mark.gpu
@on_gpu
def test_ticks_that_are_replayed_are_the_ticks_that_run_kernel_by_kernel():
    import torch

    from twinproof.train.vec_env import VecEnv

    task = task_named("push", lab_scene("push"), home=home("push"), relative=True)
    worlds = [Arena(task.machine.scene, task, 64, play=Play(bank=64), device="cuda:0") for _ in range(2)]
    plain, replayed = (VecEnv(arena, "cuda:0", graphs=k == 1) for k, arena in enumerate(worlds))
    assert replayed.replays
    assert not plain.replays
    for begin in (0, 3):  # a restart records anew
        for env in (plain, replayed):
            env.restart(begin, spread=True)
        ended = 0
        for k in range(60):
            action = torch.full((64, plain.num_actions), 0.2 * (k % 3 - 1), device="cuda:0")
            one, other = plain.step(action), replayed.step(action)
            torch.testing.assert_close(one[0]["policy"], other[0]["policy"], atol=2e-3, rtol=1e-3)
            torch.testing.assert_close(one[1], other[1], atol=2e-3, rtol=1e-3)
            assert bool((one[2] == other[2]).all())
            ended += int(one[2].sum())
        assert ended > 0
        assert plain.counted() == pytest.approx(replayed.counted(), abs=1e-2)


def test_a_gpu_that_is_absent_is_said(monkeypatch):
    import torch

    task = task_named("reach", lab_scene("pendulum"))
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(ConfigError, match="worlds were asked for on 'cuda:0', and torch sees no CUDA device"):
        Arena(task.machine.scene, task, 2, play=PLAY, device="cuda:0")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setitem(sys.modules, "twinproof.sim.worlds_gpu", None)
    with pytest.raises(MissingExtra, match=r"worlds on 'cuda:0' need mujoco-warp .* pip install 'twinproof\[gpu\]'"):
        Arena(task.machine.scene, task, 2, play=PLAY, device="cuda:0")
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(MissingExtra, match=r"tensors need torch. Install it with pip install 'twinproof\[learn\]'"):
        Arena(task.machine.scene, task, 2, play=PLAY, arrays="torch")


def test_what_cannot_be_looked_at_at_once_is_remembered_with_its_step():
    import torch

    finite = Finite(torch, patient=False, task="juggle")
    step = torch.zeros(3, dtype=torch.long)
    for k in range(WAIT - 1):
        value = torch.zeros(3)
        value[2] = float("nan") if k in (5, 9) else 0.0
        finite.check("reward term", {"weight": torch.ones(3), "height": value}, step + k)
        finite.passed()
    finite.check("reward term", {"weight": torch.ones(3), "height": torch.zeros(3)}, step + WAIT)
    said = "the reward term 'height' of the task 'juggle' is NaN or infinite in world 2 at step 5"
    with pytest.raises(TaskError, match=said):
        finite.passed()


def test_worlds_without_room_for_their_contacts_are_said():
    check_room(np.zeros(4, dtype=np.int32))
    with pytest.raises(SimError, match="2 worlds on the GPU, the first of them 1, had more contacts or constraints"):
        check_room(np.array([0, 1, 0, 2]))
