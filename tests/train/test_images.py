"""Learning from pictures: a student that sees no pose learns where the cube is, and acts alike in every runtime."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import onnxruntime
import pytest
import torch

from tests.tasks.looks import red_cube
from twinproof.evaluate.cameras import TwinEyes, cameras_in, on_cameras, pictures_in, seeing
from twinproof.nouns.errors import ConfigError, PolicyError
from twinproof.nouns.policy import Policy
from twinproof.nouns.randomization import Randomization, Range
from twinproof.nouns.source import Declared
from twinproof.policies.load import actor_of
from twinproof.policies.network import Layout
from twinproof.randomize.augment import Augment
from twinproof.sim.parameters.resolve import parameter
from twinproof.tasks import push
from twinproof.tasks.arena import Arena, Play
from twinproof.tasks.eyes import SplatEyes, with_pictures
from twinproof.train import command
from twinproof.train.ground import Asked
from twinproof.train.gym import TaskVectorEnv
from twinproof.train.images import Look, Seeing
from twinproof.train.imitate import Dagger, DaggerLearner, Fit
from twinproof.train.onnx_export import onnx_bytes
from twinproof.train.ppo import Ppo, PpoLearner
from twinproof.train.torch_extra import quiet_torch
from twinproof.train.vec_env import VecEnv
from twinproof.train.written import Origin, policy_of

HOME = {"turn": 0.0}
SMALL = Look((8, 8), (5, 3), (2, 2))


@pytest.fixture(scope="module")
def twin(tmp_path_factory):
    return red_cube(tmp_path_factory.mktemp("twin"))


def arena_of(twin, count: int, width: int = 32, seed: int = 0) -> Arena:
    eyes = SplatEyes(twin, ("above",), width=width)
    task = with_pictures(push.of(twin, home=HOME, horizon_s=0.5), eyes, tracker=False)
    return Arena(twin, task, count, play=Play(bank=64, nthread=1, privileged=True), eyes=eyes, seed=seed)


def colours() -> Randomization:
    """Light and noise of the pictures."""
    rows = (("image.brightness", 0.8, 1.2, 1.0), ("image.noise", 0.0, 0.02, 0.01))
    return Randomization(
        tuple(
            Range(parameter(id).info, low, high, point, Declared("a test"), "visual", "light", "a look", "a test")
            for id, low, high, point in rows
        ),
        {"posterior": "9" * 64},
    )


class Pointer:
    """Turns the hand towards the cube, whose pose it knows."""

    def __init__(self, contract) -> None:
        self.contract = contract

    def reset(self, count, seed, which=None) -> None:
        pass

    def act(self, seen):
        x, y, _ = np.asarray(seen["object_position"]).T
        return np.arctan2(y, x)[:, None, None]


def student_of(twin, **more) -> DaggerLearner:
    arena = arena_of(twin, 12)
    dagger = Dagger(Fit(updates=120, batch=128, hidden=(32,), noise=0.0, **more), ticks=4)
    env = VecEnv(arena, dress=Augment(colours()))
    return DaggerLearner(env, Pointer(arena.task.deployable), dagger, seed=0, look=SMALL)


def test_a_student_learns_from_pictures_where_the_cube_is(twin):
    with quiet_torch():
        mine = student_of(twin)
        for k in range(4):
            mine.restart(k)
            told = mine.iterate()
    assert mine.rows.pictures[0].shape == (4 * 4 * 12, 24, 32, 3)
    arena = arena_of(twin, 24, seed=1)
    contract = arena.task.deployable
    actor = actor_of(policy_of(mine.trained(), contract, Origin({})))
    actor.reset(24, 0)
    seen = arena.reset()
    wanted = Pointer(contract).act(seen)[:, 0, 0]
    error = np.abs(actor.act(seen)[:, 0, 0] - wanted)
    assert np.std(wanted) > 0.1
    assert np.median(error) < 0.4 * np.std(wanted), told


@pytest.mark.parametrize("history", [1, 3])
def test_torch_numpy_and_onnx_give_the_same_action(twin, history):
    with quiet_torch():
        mine = student_of(twin, history=history)
        mine.restart(0)
        mine.iterate()
        policy = policy_of(mine.trained(), replace(mine.env.arena.task.deployable, history=history), Origin({}))
        rng = np.random.default_rng(0)
        shapes = {c.name: c.shape for c in policy.contract.observations}
        ticks = []
        for _ in range(history):
            ticks.append({n: rng.normal(size=(20, *s)).astype(np.float32) for n, s in shapes.items()})
            ticks[-1]["image.above"] = rng.integers(0, 256, (20, 24, 32, 3), dtype=np.uint8)
        flat = [c for c in policy.contract.observations if c.name != "image.above"]
        rows = np.stack([np.concatenate([t[c.name].reshape(20, -1) for c in flat], axis=1) for t in ticks], axis=1)
        with torch.no_grad():
            y = mine.student(torch.as_tensor(rows), [torch.as_tensor(ticks[-1]["image.above"])]).numpy()
    actor = actor_of(policy)
    actor.reset(20, 0)
    acted = [actor.act(tick) for tick in ticks][-1]
    low, high = (np.array([getattr(a, end) for a in policy.contract.actions]) for end in ("low", "high"))
    np.testing.assert_allclose(acted[:, 0], (low + high) / 2 + (high - low) / 2 * y, atol=1e-5, rtol=1e-6)
    alone = actor_of(policy)
    alone.reset(1, 0)
    one = [alone.act({name: value[3:4] for name, value in tick.items()}) for tick in ticks][-1]
    np.testing.assert_array_equal(one[0], acted[3])
    stacked = ticks[-1] if history == 1 else {n: np.stack([t[n] for t in ticks], axis=1) for n in ticks[0]}
    session = onnxruntime.InferenceSession(onnx_bytes(policy))
    np.testing.assert_allclose(session.run(None, stacked)[0], acted, atol=1e-5, rtol=1e-6)


def test_a_student_that_was_stopped_goes_on_with_its_pictures(twin):
    with quiet_torch():
        mine, again = student_of(twin), student_of(twin)
        mine.restart(0)
        mine.iterate()
        again.restore(mine.arrays(), mine.told())
        losses = []
        for each in (mine, again):
            torch.manual_seed(0)
            each.restart(1)
            losses.append(each.iterate()["loss/imitation"])
    assert losses[0] == losses[1]


def test_ppo_learns_from_bytes_and_its_critic_from_the_state(twin):
    with quiet_torch():
        env = VecEnv(arena_of(twin, 4))
        observed = env.get_observations()
        assert observed["images/image.above"].dtype == torch.uint8
        mine = PpoLearner(env, Ppo(rollout=4, epochs=1, minibatches=1, hidden=(16,)), 0, Seeing(SMALL))
        before = [weight.copy() for weight, _ in mine.trained().eyes.layers]
        mine.restart(0)
        for _ in range(3):
            told = mine.iterate()
        after = [weight for weight, _ in mine.trained().eyes.layers]
        assert np.isfinite(told["loss/value"])
        assert not any(np.array_equal(a, b) for a, b in zip(before, after, strict=True))
        again = PpoLearner(env, mine.ppo, 1, Seeing(SMALL))
        again.restore(mine.arrays(), mine.told())
        observed = env.get_observations()
        with torch.no_grad():
            y = mine.algorithm.get_policy()(observed).numpy()
            assert np.array_equal(y, again.algorithm.get_policy()(observed).numpy())
    policy = policy_of(mine.trained(), env.arena.task.deployable, Origin({}))
    actor = actor_of(policy)
    actor.reset(4, 0)
    half = np.array([(c.high - c.low) / 2 for c in policy.contract.actions])
    np.testing.assert_allclose(actor.act(env.seen)[:, 0], half * y, atol=1e-5)


def test_pictures_are_dressed_the_same_after_the_same_restart(twin):
    env = VecEnv(arena_of(twin, 2), dress=Augment(colours()))
    first = env.restart(3)["images/image.above"].clone()
    assert not torch.equal(first, torch.as_tensor(env.seen["image.above"]))
    env.step(torch.zeros(2, 1))
    assert torch.equal(env.restart(3)["images/image.above"], first)
    assert not torch.equal(env.restart(4)["images/image.above"], first)


def test_the_command_writes_a_policy_that_sees(twin, tmp_path):
    twin.save(tmp_path / "twin")
    more = {"worlds": 2, "steps": 2 * 32 * 2, "hidden": (8,), "probe": False, "judged": 2, "home": ("turn=0",)}
    asked = Asked(
        tmp_path / "twin", None, "push", "ppo", tmp_path / "out", cameras=("above",), pixels=32, onnx=True, **more
    )
    command.run(asked)
    policy = Policy.load(tmp_path / "out")
    assert policy.deployable
    assert [c.name for c in policy.contract.observations][-1] == "image.above"
    assert "object_position" not in {c.name for c in policy.contract.observations}
    assert Layout.of(policy.architecture).eyes.features == 64
    assert (tmp_path / "out" / "policy.onnx").is_file()
    with pytest.raises(ConfigError, match="--cameras are for ppo, dagger, clone, student without --split"):
        replace(asked, algo="rma", history=4)


def test_eyes_that_do_not_fit_are_refused(twin):
    arena = arena_of(twin, 2, width=16)
    with pytest.raises(PolicyError, match="a picture of 16 × 12 is too small for eyes with the kernels"):
        PpoLearner(VecEnv(arena), Ppo(rollout=2), 0, Seeing(Look((8,) * 4, (5,) * 4, (2,) * 4)))
    with pytest.raises(PolicyError, match="give one of each for every layer, at least 1"):
        Layout.of({"layers": [3, 2], "eyes": {"filters": [8], "kernels": [5, 3], "strides": [2]}})


def test_a_policy_that_sees_acts_in_a_panels_twin_as_where_it_was_trained(twin):
    with quiet_torch():
        learner = PpoLearner(VecEnv(arena_of(twin, 3)), Ppo(rollout=2, hidden=(16,)), 0, Seeing(SMALL))
        policy = policy_of(learner.trained(), learner.env.arena.task.deployable, Origin({}))
    channels = on_cameras(pictures_in(policy.contract), cameras_in(twin))
    task = seeing(push.of(twin, home=HOME, horizon_s=0.5), channels)
    panel = Arena(twin, task, 3, play=Play(bank=64, nthread=1), eyes=TwinEyes(twin, channels))
    acted = []
    for arena in (panel, arena_of(twin, 3)):
        actor = actor_of(policy)
        actor.reset(3, 0)
        acted.append(actor.act(arena.reset(seeds=[5, 6, 7])))
    np.testing.assert_array_equal(*acted)


def test_gymnasium_shows_pictures_as_bytes(twin):
    env = TaskVectorEnv(arena_of(twin, 2))
    seen, _ = env.reset(seed=3)
    assert env.single_observation_space["image.above"].dtype == np.uint8
    assert seen["image.above"].dtype == np.uint8
    assert env.observation_space.contains(seen)
