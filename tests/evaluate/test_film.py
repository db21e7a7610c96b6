"""Trials with cameras keep what those showed, and go out with it as a LeRobot dataset that our own reader reads."""

from __future__ import annotations

import tracemalloc
from dataclasses import replace

import numpy as np
import pytest

from tests.evaluate.filmed import CHANNEL, SIZE, contract_of, looked, orange_at
from tests.evaluate.swing import spring
from tests.evaluate.test_cameras import filmed, panel_of, task, twin  # noqa: F401
from twinproof.evaluate.contenders import Contender
from twinproof.evaluate.examine import examine
from twinproof.evaluate.film import WAITING, camera_of, filming, shown_at
from twinproof.evaluate.outgoing import trials_recording
from twinproof.ingest.lerobot_write import write_lerobot
from twinproof.ingest.read import ingest, own_rig
from twinproof.nouns.errors import RecordingError, TraceError
from twinproof.nouns.trials import Trials
from twinproof.policies.chunks import Chunked
from twinproof.policies.scripted import Scripted


def looking(task, chunk: int = 3, channel=CHANNEL) -> Contender:  # noqa: F811
    def act(seen):
        told = looked({**seen, CHANNEL.name: seen[channel.name]})
        return np.repeat(told[:, None], chunk, axis=1)

    return Contender("looks", Chunked(Scripted(contract_of(task, chunk, channel), act)), channel.name)


def test_what_a_policy_saw_goes_out_with_its_trials_and_comes_back(panel_of, task, tmp_path):  # noqa: F811
    found = examine(replace(panel_of(looking(task)), filmed=("twin",)))
    found.save(tmp_path / "trials")
    kept = Trials.load(tmp_path / "trials")
    assert kept == found
    assert set(kept.films) == {trial.trace for trial in kept.trials}
    for domain in ("real", "twin"):
        made = trials_recording(kept, task, domain)
        write_lerobot(made, tmp_path / domain, fps=round(task.contract.rate_hz))
        back = ingest(tmp_path / domain, own_rig(tmp_path / domain), tmp_path / f"{domain}_back")
        assert [e.labels["domain"] for e in back.episodes] == [domain] * len(made.episodes)
        for episode, source in zip(back.episodes, made.episodes, strict=True):
            video = episode.videos["cam_high"]
            joints = episode.signals["state"]
            assert (video.width, video.height) == SIZE
            assert len(video) >= len(source.videos["cam_high"]) - 1  # at every tick, though it is asked at every third
            right = [orange_at(p, q) for (_, p), q in zip(video.frames(), joints.value, strict=False)]
            assert np.mean(right) > 0.95  # the link stands in the picture where the joints say, tick by tick
            first = next(shown_at(source.videos["cam_high"], np.zeros(1)))
            assert np.abs(first.astype(int) - video.at(0.0)[1]).mean() < 6  # what AV1 costs


def test_trials_of_a_policy_that_sees_nothing_are_filmed_by_the_panels_cameras(panel_of, task):  # noqa: F811
    exam = panel_of(Contender("blind", spring(task, 0.4), "b"))
    found = examine(replace(exam, filmed=("twin",)))
    films = {trial.domain: found.films[trial.trace].videos["front"] for trial in found.trials}
    assert (films["real"].width, films["real"].height) == (2 * SIZE[0], 2 * SIZE[1])  # the robot's own
    assert (films["twin"].width, films["twin"].height) == (160, 120)  # as large as the panel states
    assert len(films["twin"]) == len(found.traces[found.trials[-1].trace].signals["state"].time_s)


def test_a_twin_is_filmed_only_where_it_is_asked_for(panel_of, task):  # noqa: F811
    found = examine(panel_of(Contender("blind", spring(task, 0.4), "b")))
    assert {trial.domain for trial in found.trials if trial.trace in found.films} == {"real"}


def test_policies_that_see_other_pictures_make_two_datasets(panel_of, task, tmp_path):  # noqa: F811
    small = replace(CHANNEL, name="image.front", shape=(36, 48, 3))
    other = replace(looking(task, 1, small), name="other")
    found = examine(panel_of(looking(task), other))
    with pytest.raises(TraceError, match="shows cam_high 48 × 36, and .* front 48 × 36: one dataset has one set"):
        trials_recording(found, task, "real")
    (alone,) = trials_recording(found, task, "real", "other").episodes
    assert list(alone.videos) == ["front"]
    with pytest.raises(TraceError, match="of the policy 'third' has a trace; domains are real, twin, policies looks"):
        trials_recording(found, task, "real", "third")


def test_a_long_trial_takes_no_more_memory_than_a_short_one(tmp_path):
    rng = np.random.default_rng(0)
    picture = rng.integers(0, 255, (240, 320, 3), dtype=np.uint8)
    with filming(tmp_path) as films:
        film = films.film()
        film.add("front", 0.0, picture)
        tracemalloc.start()
        for k in range(1, 200):
            film.add("front", k / 50, picture)
        _, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        video = film.end().videos["front"]
        assert len(video) == 200
        np.testing.assert_array_equal(video.at(2.0)[1], picture)  # without loss
    assert most < (WAITING + 8) * picture.nbytes


def test_a_camera_that_changes_its_size_is_told_and_nothing_is_left_behind(tmp_path):
    with filming(tmp_path) as films:
        film = films.film()
        film.add("front", 0.0, np.zeros((4, 6, 3), np.uint8))
        film.add("front", 0.1, np.zeros((6, 4, 3), np.uint8))
        with pytest.raises(RecordingError, match="A camera keeps one size"):
            film.end()
    assert not list(tmp_path.iterdir())
    with filming(tmp_path) as films:
        assert films.film().end() is None


def test_channels_are_called_as_their_cameras():
    assert [camera_of(name) for name in ("image.front", "observation/wrist")] == ["front", "observation_wrist"]
