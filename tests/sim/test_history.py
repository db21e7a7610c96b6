"""What delayed actuators and sensors remember is written where MuJoCo keeps it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from twinproof.sim.history import write_past, write_sensed
from twinproof.sim.world import compile_text

TEXT = """<mujoco><worldbody>
  <body><joint name="a" type="slide"/><joint name="b"/><joint name="c"/><geom size=".1"/>
    <body><joint name="ball" type="ball"/><geom size=".1"/></body></body></worldbody>
  <actuator><motor joint="a" nsample="3" delay=".004"/><motor joint="b"/>
    <motor joint="c" nsample="5" delay=".008"/></actuator>
  <sensor><jointpos joint="a"/><ballquat joint="ball" nsample="2" delay=".002"/>
    <jointvel joint="b" nsample="4" delay=".004"/></sensor></mujoco>"""
ROWS = 3


def buffers(model: Any, history: np.ndarray, counts: np.ndarray, addresses: np.ndarray, widths: np.ndarray) -> Any:
    """(cursor, times, values (count, width)) of each thing that has a buffer, in the first row."""
    for count, at, width in zip(counts[:, 0], addresses, widths, strict=True):
        if count:
            begin = at + 2 + count
            values = history[0, begin : begin + count * width].reshape(count, width)
            yield history[0, at + 1], history[0, at + 2 : begin], values


@pytest.mark.parametrize("steps", [1, 4, 20])
def test_actuators_remember_the_newest_commands_and_the_oldest_before(steps: int) -> None:
    model = compile_text(TEXT)
    history, past = np.full((ROWS, model.nhistory), 7.0), np.random.default_rng(0).normal(size=(ROWS, steps, 3))
    write_past(model, history, past, 0.5)
    numbers = zip(
        (3, 5), (0, 2), buffers(model, history, model.actuator_history, model.actuator_historyadr, np.ones(3, int)),
        strict=True,
    )  # fmt: skip
    for count, control, (cursor, times, values) in numbers:
        assert cursor == count - 1
        np.testing.assert_allclose(times, 0.5 + 0.002 * np.arange(-count, 0))
        wanted = [past[0, max(steps - count + k, 0), control] for k in range(count)]
        np.testing.assert_array_equal(values[:, 0], wanted)
    assert (history[:, model.actuator_historyadr[0]] == 7.0).all()  # the user's number is the user's


def test_sensors_remember_what_they_read_now() -> None:
    model = compile_text(TEXT)
    history, sensed = np.zeros((ROWS, model.nhistory)), np.random.default_rng(0).normal(size=(ROWS, model.nsensordata))
    write_sensed(model, history, sensed, np.array([0.1, 0.2, 0.3]))
    found = list(buffers(model, history, model.sensor_history, model.sensor_historyadr, model.sensor_dim))
    assert [values.shape for _, _, values in found] == [(2, 4), (4, 1)]
    for (_, times, values), first in zip(found, (1, 5), strict=True):
        np.testing.assert_allclose(times[-1], 0.1 - 0.002)
        np.testing.assert_array_equal(values, np.tile(sensed[0, first : first + values.shape[1]], (len(values), 1)))


def test_a_model_without_delays_has_nothing_to_remember() -> None:
    model = compile_text('<mujoco><worldbody><body><joint name="a"/><geom size=".1"/></body></worldbody></mujoco>')
    history = np.zeros((ROWS, model.nhistory))
    write_past(model, history, np.zeros((ROWS, 1, model.nu)))
    write_sensed(model, history, np.zeros((ROWS, model.nsensordata)))
    assert history.shape == (ROWS, 0)
