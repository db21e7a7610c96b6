"""Chunks become one action a tick: receding horizon, ensembling, late answers, answers from a thread."""

from __future__ import annotations

import threading

import numpy as np
import pytest

from twinproof.nouns.errors import PolicyError
from twinproof.nouns.policy import Channel, Contract
from twinproof.policies.background import Background
from twinproof.policies.chunks import Chunked, Delayed, Ensembled, Latency
from twinproof.policies.scripted import Replay, Scripted
from twinproof.policies.timing import Timed, Timing

CONTRACT = Contract((Channel("tick", "1"),), (Channel("asked", "1", 0, 1000), Channel("step", "1", 0, 1000)), 10.0)


def planner(chunk: int) -> Scripted:
    """Says at tick t: (t, 0), (t, 1), … so that an action tells when it was thought of and for which tick."""
    steps = np.arange(chunk)
    contract = Contract(CONTRACT.observations, CONTRACT.actions, 10.0, chunk=chunk)

    def script(seen):
        tick = seen["tick"]
        return np.stack([np.broadcast_to(tick[:, None], (len(tick), chunk)), tick[:, None] + steps], axis=-1)

    return Scripted(contract, script)


def play(actor, ticks: int, count: int = 1) -> np.ndarray:
    actor.reset(count, seed=0)
    return np.stack([actor.act({"tick": np.full(count, float(t))})[:, 0] for t in range(ticks)])


def test_a_receding_horizon_plays_some_actions_and_asks_again():
    given = play(Chunked(planner(4), execute=3), 7)[:, 0]
    assert given[:, 0].tolist() == [0, 0, 0, 3, 3, 3, 6]
    assert given[:, 1].tolist() == [0, 1, 2, 3, 4, 5, 6]  # each for its own tick


def test_a_world_that_is_reset_gets_a_fresh_chunk_and_the_others_go_on():
    actor = Chunked(planner(4))
    actor.reset(2, seed=0)
    asked = []
    for t in range(6):
        if t == 2:
            actor.reset(2, 0, np.array([False, True]))
        asked.append(actor.act({"tick": np.full(2, float(t))})[:, 0, 0])
    assert np.array(asked).T.tolist() == [[0, 0, 0, 0, 4, 4], [0, 0, 2, 2, 2, 2]]


def test_an_actor_that_remembers_is_asked_at_every_tick():
    asked = []
    inner = planner(2)
    act = inner.act
    inner.act = lambda seen: (asked.append(1), act(seen))[1]
    play(Chunked(inner), 4)
    assert len(asked) == 2
    play(Chunked(inner, remembers=True), 4)
    assert len(asked) == 6


def test_ensembling_averages_what_was_foreseen_with_the_oldest_first():
    given = play(Ensembled(planner(3), decay=0.5), 4)[:, 0]
    weight = np.exp(-0.5 * np.arange(3))
    wanted = [np.average(foreseen, weights=weight[: len(foreseen)]) for foreseen in ([0], [0, 1], [0, 1, 2], [1, 2, 3])]
    np.testing.assert_allclose(given[:, 0], wanted)
    np.testing.assert_allclose(given[:, 1], [0, 1, 2, 3])  # all agree on what to do now


def test_a_late_answer_skips_what_has_passed():
    given = play(Delayed(planner(6), Latency((0.2,)), execute=3), 9)[:, 0]
    assert given[:, 0].tolist() == [0, 0, 0, 0, 0, 3, 3, 3, 6]  # asked at 3, there at 5; asked at 6, there at 8
    assert given[:, 1].tolist() == list(range(9))


def test_a_chunk_that_ends_too_early_is_held_and_counted():
    actor = Delayed(planner(2), Latency((0.3,)), execute=2)
    given = play(actor, 6)[:, 0]
    assert given[:, 1].tolist() == [0, 1, 1, 1, 1, 3]  # asked at 2, there at 5: its two actions were for 2 and 3
    assert actor.starved.tolist() == [4]


def test_latency_is_drawn_the_same_for_every_world():
    latency = Latency((0.0, 0.1, 0.5))
    alone, many = (play(Delayed(planner(8), latency, execute=2), 30, count) for count in (1, 4))
    assert (many == alone).all()
    ticks = [latency.ticks(10.0, 0, call) for call in range(60)]
    assert set(ticks) == {0, 1, 5}


def test_answers_from_a_thread_arrive_while_the_old_chunk_goes_on():
    gate, asked = threading.Event(), threading.Event()
    inner = planner(6)
    act, first = inner.act, [True]

    def slow(seen):
        if first.pop() if first else False:
            return act(seen)
        asked.set()
        gate.wait()
        return act(seen)

    inner.act = slow
    actor = Background(inner, execute=3)
    actor.reset(1, seed=0)
    given = []
    for t in range(8):
        if t == 6:
            gate.set()
            actor._coming.result()
        given.append(actor.act({"tick": np.array([float(t)])})[0, 0].tolist())
    assert asked.is_set()
    assert given == [[0, 0], [0, 1], [0, 2], [0, 3], [0, 4], [0, 5], [3, 6], [3, 7]]
    assert actor.starved == 0
    actor.reset(1, seed=0)
    assert len(actor.latency_s) >= 2
    actor.close()


def test_a_thread_that_does_not_answer_in_time_is_an_error():
    gate, inner = threading.Event(), planner(2)
    act, first = inner.act, [True]
    inner.act = lambda seen: act(seen) if first and first.pop() else (gate.wait(), act(seen))[1]
    actor = Background(inner, patience=2)
    with pytest.raises(PolicyError, match="before it was reset"):
        actor.act({"tick": np.zeros(1)})
    with pytest.raises(PolicyError, match="drives one robot, and was reset for 2 worlds"):
        actor.reset(2, seed=0)
    actor.reset(1, seed=0)
    for t in range(4):
        actor.act({"tick": np.array([float(t)])})
    with pytest.raises(PolicyError, match="not answered for 2 ticks, and its last chunk ended 3 ticks ago"):
        actor.act({"tick": np.array([4.0])})
    assert actor.starved == 3
    gate.set()
    actor.close()


def test_an_error_in_the_thread_comes_out():
    inner = planner(2)
    act, first = inner.act, [True]

    def fails(seen):
        if first and first.pop():
            return act(seen)
        raise PolicyError("the server is gone.")

    inner.act = fails
    actor = Background(inner, execute=1)
    actor.reset(1, seed=0)
    for t in range(2):
        actor.act({"tick": np.array([float(t)])})
    actor._coming.exception()
    with pytest.raises(PolicyError, match="server is gone"):
        actor.act({"tick": np.array([2.0])})
    first.append(True)
    actor.reset(1, seed=0)
    for t in range(2):
        actor.act({"tick": np.array([float(t)])})
    with pytest.raises(PolicyError, match="server is gone"):
        actor.reset(1, seed=0)
    actor.close()


def test_logged_actions_are_played_again():
    actor = Replay(CONTRACT, np.array([[1, 2], [3, 4]]))
    assert play(actor, 2, 3)[:, 2].tolist() == [[1, 2], [3, 4]]
    with pytest.raises(PolicyError, match="the log has 2 actions, and one more was asked for"):
        actor.act({"tick": np.zeros(3)})
    actor.reset(3, 0, np.ones(3, bool))
    assert actor.act({"tick": np.zeros(3)})[0, 0].tolist() == [1, 2]
    with pytest.raises(PolicyError, match="logged actions of shape \\(3,\\)"):
        Replay(CONTRACT, np.zeros(3))


def test_calls_are_timed():
    actor = Timed(planner(1))
    play(actor, 5)
    timing = Timing.of(actor.latency_s)
    assert timing.count == 5
    assert 0 < timing.p50_s <= timing.p95_s <= timing.p99_s <= timing.worst_s
    with pytest.raises(PolicyError, match="no call was made"):
        Timing.of([])


def test_what_cannot_be_played_is_refused():
    for make, match in (
        (lambda: Chunked(planner(4), execute=5), "5 actions of each chunk are to be played, and a chunk has 4"),
        (lambda: Ensembled(planner(4), decay=-1.0), "a decay of -1.0"),
        (lambda: Latency(()), "latencies are \\[\\] s"),
        (lambda: Latency((-1.0,)), "latencies are \\[-1.0\\] s"),
    ):
        with pytest.raises(PolicyError, match=match):
            make()
    for actor in (Chunked(planner(2)), Ensembled(planner(2)), Delayed(planner(2), Latency((0.1,))), planner(2)):
        with pytest.raises(PolicyError, match="before it was reset"):
            actor.act({"tick": np.zeros(1)})


def test_a_script_that_gives_no_actions_is_refused():
    for given, match in (
        (np.zeros((1, 3)), "the script gave actions of shape \\(1, 3\\); the contract states \\(1, 1, 2\\)"),
        ("left", "the script gave str 'left', which is no array of numbers"),
        (np.array([[0, np.nan]]), "the script gave nan for 'step' in world 0, step 0"),
    ):
        actor = Scripted(CONTRACT, lambda seen, given=given: given)
        actor.reset(1, seed=0)
        with pytest.raises(PolicyError, match=match):
            actor.act({"tick": np.zeros(1)})
