"""Eliminating the starts of windows gives what a dense solve of everything gives."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.sim.motions import PENDULUM, swing
from twinproof.nouns.randomness import stream
from twinproof.sim.experiment import experiment
from twinproof.sim.least_squares import Linear, box_step, reduce
from twinproof.sim.scene import Scene
from twinproof.sim.shooting import Shooting


def linear(seed: int = 0) -> tuple[Linear, np.ndarray, np.ndarray, np.ndarray]:
    """Random gaps and slopes on the layout of two real episodes, the second parameter of each its own; weights."""
    rng = stream(seed, "linear")
    scene = Scene(PENDULUM)
    both = [experiment(swing(PENDULUM, seed=k, seconds=0.5), scene, group=k) for k in range(2)]
    shooting = Shooting(both, ("body.bob.mass", "joint.hinge.damping"), 0.12)
    M, S, width = len(shooting.window), len(shooting.seams), 2 * shooting.model.nv
    made = Linear(
        shooting,
        rng.normal(size=M),
        rng.normal(size=(M, 2)),
        rng.normal(size=(M, width)),
        rng.normal(size=(S, width)),
        rng.normal(size=(S, width, 2)),
        rng.normal(size=(S, width, width)),
        np.array([[0, 1], [0, 2]]),
    )
    root = rng.normal(size=(S, width, width))
    return made, rng.uniform(0.5, 2, M), root @ np.swapaxes(root, 1, 2) + np.eye(width), rng.uniform(0.1, 1, width)


def dense(
    made: Linear, weight: np.ndarray, seam_weight: np.ndarray | None, start_weight: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray]:
    """Design and right side of the whole problem, (θ, all starts) unknown, every row over its sd."""
    shooting = made.shooting
    assert made.by_start is not None
    assert made.seam_by_start is not None
    assert made.seam_by_parameter is not None
    width, total = made.by_start.shape[1], made.width
    size = total + shooting.windows * width

    def place(w: int) -> slice:
        return slice(total + w * width, total + (w + 1) * width)

    rows, right = [], []
    for m, w in enumerate(shooting.window):
        row = np.zeros(size)
        row[made.columns[shooting.group[w]]] = made.by_parameter[m]
        row[place(w)] = made.by_start[m]
        rows.append(np.sqrt(weight[m]) * row)
        right.append(np.sqrt(weight[m]) * made.gap[m])
    for s, w in enumerate(shooting.seams if seam_weight is not None else ()):
        assert seam_weight is not None
        block = np.zeros((width, size))
        block[:, made.columns[shooting.group[w]]] = made.seam_by_parameter[s]
        block[:, place(w)] = made.seam_by_start[s]
        block[:, place(w + 1)] -= np.eye(width)
        root = np.linalg.cholesky(seam_weight[s]).T
        rows += list(root @ block)
        right += list(-root @ made.seam[s])
    if start_weight is not None:
        for w in range(shooting.windows):
            block = np.zeros((width, size))
            block[:, place(w)] = np.diag(np.sqrt(start_weight))
            rows += list(block)
            right += [0.0] * width
    return np.array(rows), np.array(right)


@pytest.mark.parametrize("seams", [True, False])
@pytest.mark.parametrize("held", [True, False])
def test_parameters_and_starts_step_as_in_a_dense_solve(seams: bool, held: bool) -> None:
    made, weight, seam_weight, start_weight = linear()
    given = (seam_weight if seams else None, start_weight if held else None)
    found = reduce(made, weight, *given)
    A, b = dense(made, weight, *given)
    whole = np.linalg.lstsq(A, b, rcond=None)[0]
    step = np.linalg.solve(found.hessian, found.gradient)
    np.testing.assert_allclose(step, whole[:3], rtol=1e-8)
    starts = found.starts_step(step, made.shooting.windows, 2)
    np.testing.assert_allclose(starts.reshape(-1), whole[3:], rtol=1e-7, atol=1e-9)
    # the Hessian is what remains of the whole one: its inverse is the corner of the whole inverse
    np.testing.assert_allclose(np.linalg.inv(found.hessian), np.linalg.inv(A.T @ A)[:3, :3], rtol=1e-7)
    assert found.log_det_starts.sum() == pytest.approx(np.linalg.slogdet((A.T @ A)[3:, 3:])[1])
    gx = (A.T @ b)[3:]
    assert found.explained.sum() == pytest.approx(gx @ np.linalg.solve((A.T @ A)[3:, 3:], gx))


@pytest.mark.parametrize("seams", [True, False])
def test_scores_add_up_to_the_gradient_and_episodes_to_the_hessian(seams: bool) -> None:
    made, weight, seam_weight, start_weight = linear(1)
    found = reduce(made, weight, seam_weight if seams else None, start_weight)
    np.testing.assert_allclose(found.by_episode.sum(axis=0), found.hessian, rtol=1e-12)
    np.testing.assert_allclose(found.by_episode[0, :, 2], 0.0)  # the other episode's own parameter
    np.testing.assert_allclose(found.by_episode[1, 1], 0.0)
    assert found.score.shape == (made.shooting.blocks, 3)
    whole, _, _, _ = linear(1)
    np.testing.assert_allclose(reduce(whole, weight, None).score.sum(axis=0), reduce(whole, weight, None).gradient)
    # a prior on starts pulls too, and belongs to no block
    found = reduce(made, weight, seam_weight if seams else None)
    np.testing.assert_allclose(found.score.sum(axis=0), found.gradient, rtol=1e-8, atol=1e-8)


def test_given_starts_make_ordinary_least_squares() -> None:
    made, weight, _, _ = linear(2)
    fixed = replace(made, by_start=None, seam_by_parameter=None, seam_by_start=None)
    found = reduce(fixed, weight, None)
    A = np.zeros((len(weight), 3))
    group = made.shooting.group[made.shooting.window]
    np.put_along_axis(A, made.columns[group], made.by_parameter, axis=1)
    np.testing.assert_allclose(found.hessian, (A * weight[:, None]).T @ A, rtol=1e-10)
    np.testing.assert_allclose(found.gradient, (A * weight[:, None]).T @ made.gap, rtol=1e-10)
    np.testing.assert_allclose(found.score.sum(axis=0), found.gradient, rtol=1e-10)
    assert found.back == ()


def test_what_diverged_has_no_weight() -> None:
    made, weight, seam_weight, start_weight = linear(3)
    lost = (made.shooting.window == 1) & (made.shooting.horizon > 0.05)
    gap = np.where(lost, np.nan, made.gap)
    seam = made.seam.copy()
    seam[1] = np.nan
    found = reduce(replace(made, gap=gap, seam=seam), np.where(lost, 0.0, weight), seam_weight, start_weight)
    none = seam_weight.copy()
    none[1] = 0.0
    same = reduce(replace(made, gap=np.where(lost, 0.0, made.gap)), np.where(lost, 0.0, weight), none, start_weight)
    np.testing.assert_allclose(found.hessian, same.hessian, rtol=1e-9)
    np.testing.assert_allclose(found.gradient, same.gradient, rtol=1e-9)


# ---- steps inside a box


def problem(seed: int, size: int = 5) -> tuple[np.ndarray, np.ndarray]:
    rng = stream(seed, "box")
    root = rng.normal(size=(size, size))
    scale = np.exp(rng.uniform(-5, 5, size))  # masses and delays are of very different sizes
    return root @ root.T * np.outer(scale, scale), rng.normal(size=size) * scale


@pytest.mark.parametrize("seed", range(5))
def test_a_step_inside_the_box_is_the_free_one(seed: int) -> None:
    hessian, gradient = problem(seed)
    free = np.linalg.solve(hessian, gradient)
    found = box_step(hessian, gradient, free - np.abs(free) - 1, free + np.abs(free) + 1)
    np.testing.assert_allclose(found, free, rtol=1e-6)


@pytest.mark.parametrize("seed", range(8))
def test_a_step_at_the_box_is_the_best_inside_it(seed: int) -> None:
    hessian, gradient = problem(seed)
    free = np.linalg.solve(hessian, gradient)
    rng = stream(seed, "limits")
    low, high = -rng.uniform(0.1, 1, 5) * np.abs(free), rng.uniform(0.1, 1, 5) * np.abs(free)
    found = box_step(hessian, gradient, low, high)
    assert ((found >= low) & (found <= high)).all()
    pull = gradient - hessian @ found
    scale = np.sqrt(np.diag(hessian))
    at_low, at_high = found - low < 1e-9 * (high - low), high - found < 1e-9 * (high - low)
    inside = ~at_low & ~at_high
    assert at_low.any() or at_high.any()
    np.testing.assert_allclose(pull[inside] / scale[inside], 0.0, atol=1e-6)
    assert (pull[at_low] / scale[at_low] < 1e-6).all()
    assert (pull[at_high] / scale[at_high] > -1e-6).all()


def test_the_step_is_the_same_in_other_units() -> None:
    # a delay known to a microsecond beside a damping known to a hundred N s/m
    hessian, gradient = np.array([[2.0, 0.5], [0.5, 1.0]]), np.array([1.0, -1.0])
    free = np.linalg.solve(hessian, gradient)
    for unit in (np.array([1.0, 1.0]), np.array([1e6, 1e-2])):
        told = hessian * np.outer(unit, unit), gradient * unit
        np.testing.assert_allclose(box_step(*told, -5 / unit, 5 / unit) * unit, free, rtol=1e-6)
        np.testing.assert_allclose(box_step(*told, -1 / unit, 5 / unit) * unit, [0.75, -1.0], rtol=1e-6)


def test_damping_shortens_the_step_and_what_is_not_told_does_not_move() -> None:
    hessian, gradient = problem(0)
    far = np.full(5, 1e6)
    steps = [box_step(hessian, gradient, -far, far, damping) for damping in (0.0, 1.0, 100.0)]
    sizes = [np.linalg.norm(step * np.sqrt(np.diag(hessian))) for step in steps]
    assert sizes[0] > sizes[1] > sizes[2]
    blind = np.zeros((6, 6))
    blind[:5, :5] = hessian
    found = box_step(blind, np.r_[gradient, 0.0], np.full(6, -1e6), np.full(6, 1e6))
    np.testing.assert_allclose(found[:5], steps[0], rtol=1e-6)
    assert found[5] == 0.0
