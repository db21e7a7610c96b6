"""Worlds on the GPU: as on the CPU within float32, and reset, flagged and given new physics without the host.

Needs CUDA. Without pytest, or on warp's CPU device: `python -m tests.sim.test_worlds_gpu [cpu]`.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.sim.models import ARM
from twinproof.nouns.errors import SimError
from twinproof.nouns.theta import Theta
from twinproof.sim.divergence import Limits
from twinproof.sim.scene import Scene
from twinproof.sim.worlds import Worlds

CUDA = "cuda:0"
SCENE = Scene(
    ARM.replace("</mujoco>", '<keyframe><key name="bent" qpos=".5 -.4 .8 0 .05 1 0 0 0"/></keyframe></mujoco>')
)
CHECKS: list[Callable[[str], None]] = []


def _missing() -> str:
    for package in ("torch", "warp", "mujoco_warp"):
        if importlib.util.find_spec(package) is None:
            return f"worlds on the GPU need {package}: pip install 'twinproof[gpu]'"
    import torch

    return "" if torch.cuda.is_available() else "this machine has no CUDA device"


pytestmark = [pytest.mark.gpu, pytest.mark.skipif(bool(_missing()), reason=_missing() or "-")]


def check(function: Callable[[str], None]) -> Callable[[], None]:
    """A test that runs on CUDA, and on another device when this file is run as a script."""
    CHECKS.append(function)

    def test() -> None:
        function(CUDA)

    return test


def made(scene: Scene, thetas: Any, device: str, **more: Any) -> Any:
    from twinproof.sim.worlds_gpu import GpuWorlds

    return GpuWorlds(scene, thetas, device=device, **more)


def sent(gpu: Any, values: Any) -> Any:
    import torch

    return torch.as_tensor(np.asarray(values), dtype=torch.float32, device=gpu.qpos.device)


def near(tensor: Any, array: np.ndarray, tolerance: float) -> None:
    np.testing.assert_allclose(tensor.cpu().numpy(), array, rtol=0, atol=tolerance)


@check
def test_the_gpu_does_what_the_cpu_does_within_float32(device: str) -> None:
    from bench.worlds_scenes import PARITY, parity

    for name in PARITY:
        found = parity(name, device)
        assert found["held"], (name, found)
        assert found["qvel"] < 100 * found["tolerance"], (name, found)


@check
def test_views_share_memory_and_describe_the_state_after_the_step(device: str) -> None:
    gpu = made(SCENE, 3, device)
    qpos, sensors, poses = gpu.qpos, gpu.sensordata, gpu.xpos
    for _ in range(3):  # as it is, then from the captured graph
        gpu.step(sent(gpu, np.full((3, 2), 0.3)), 7)
    near(sensors[:, :2], qpos[:, :2].cpu().numpy(), 0)
    near(poses[:, SCENE.nominal().body("cube").id], qpos[:, 2:5].cpu().numpy(), 1e-6)
    assert gpu.steps.tolist() == [21, 21, 21]
    qpos[1, 4] = 0.5
    gpu.refresh()
    assert float(poses[1, SCENE.nominal().body("cube").id, 2]) == 0.5


@check
def test_a_reset_by_a_mask_touches_only_its_worlds(device: str) -> None:
    import torch

    gpu, cpu = made(SCENE, 4, device), Worlds(SCENE, 4)
    mask = torch.tensor([False, True, False, True], device=gpu.qpos.device)
    for _ in range(2):
        gpu.step(sent(gpu, np.full((4, 2), 0.5)), 15)
        cpu.step(np.full((4, 2), 0.5), 15)
    gpu.reset(mask, keyframe="bent")
    cpu.reset([1, 3], keyframe="bent")
    gpu.step(sent(gpu, np.full((4, 2), 0.5)), 15)
    cpu.step(np.full((4, 2), 0.5), 15)
    assert gpu.steps.tolist() == [45, 15, 45, 15]
    near(gpu.qpos, cpu.qpos, 1e-4)


@check
def test_new_physics_come_from_the_host_or_from_a_bank_on_the_device(device: str) -> None:
    import torch

    drawn = [Theta({"body.lower.mass": 0.3 * k, "gravity.tilt_x": 0.02 * k}) for k in range(1, 4)]
    gpu, cpu = made(SCENE, [Theta(), drawn[0]], device), Worlds(SCENE, [Theta(), drawn[0]])
    gpu.reset([0, 1], thetas=[drawn[1], Theta()])
    cpu.reset([0, 1], thetas=[drawn[1], Theta()])
    for _ in range(3):
        gpu.step(sent(gpu, np.full((2, 2), 0.4)), 20)
        cpu.step(np.full((2, 2), 0.4), 20)
    near(gpu.qpos, cpu.qpos, 1e-4)
    gpu.fill_bank(drawn)
    everything = torch.ones(2, dtype=torch.bool, device=gpu.qpos.device)
    gpu.reset(everything, bank=torch.tensor([2, 0], device=gpu.qpos.device))
    cpu.reset(thetas=[drawn[2], drawn[0]])
    for _ in range(3):
        gpu.step(sent(gpu, np.full((2, 2), 0.4)), 20)
        cpu.step(np.full((2, 2), 0.4), 20)
    near(gpu.qpos, cpu.qpos, 1e-4)
    assert not np.allclose(cpu.qpos[0], cpu.qpos[1], atol=1e-3)
    assert gpu._fields.drawn(0) == drawn[2]


@check
def test_a_world_that_diverges_stays_and_the_others_go_on(device: str) -> None:
    gpu, alone = (made(SCENE, 3, device, limits=Limits(workspace_m=1.5)) for _ in range(2))
    gpu.qvel[1, 2] = 30.0
    gpu.refresh()
    for _ in range(30):
        gpu.step(sent(gpu, np.zeros((3, 2))), 2)
        alone.step(sent(alone, np.zeros((3, 2))), 2)
    assert gpu.diverged.tolist() == [False, True, False]
    near(gpu.qpos[[0, 2]], alone.qpos[[0, 2]].cpu().numpy(), 1e-6)
    assert abs(float(gpu.qpos[1, 2])) <= 1.5
    why = gpu.why(1)
    assert why is not None
    assert "body 'cube' is at 1.5" in why.cause
    assert gpu.why(0) is None
    gpu.reset(gpu.diverged)
    assert not bool(gpu.diverged.any())


@check
def test_a_control_that_is_no_number_flags_its_world(device: str) -> None:
    gpu = made(SCENE, 2, device)
    control = np.zeros((2, 2))
    control[1, 0] = np.nan
    gpu.step(sent(gpu, control))
    assert gpu.diverged.tolist() == [False, True]
    assert "a control that it was sent is not a finite number" in str(gpu.why(1))
    with pytest.raises(SimError, match=r"shape \(2, 3\); 2 worlds with 2 controls \(shoulder, elbow\) need \(2, 2\)"):
        gpu.step(sent(gpu, np.zeros((2, 3))))


@check
def test_delays_backlash_offsets_and_biases_act_as_on_the_cpu(device: str) -> None:
    theta = Theta({
        "actuator.elbow.delay": 0.02, "actuator.shoulder.backlash": 0.05, "joint.elbow.offset": 0.1,
        "sensor.shoulder.bias": 0.02, "sensor.elbow.delay": 0.01,
    })  # fmt: skip
    scene = SCENE.reserving(control_delay_s=0.02, sensor_delay_s=0.02)
    gpu, cpu = made(scene, [theta, Theta()], device, substeps=5), Worlds(scene, [theta, Theta()], substeps=5)
    start = np.array([0.3, -0.2])
    gpu.reset(keyframe="bent", ctrl=sent(gpu, start))
    cpu.reset(keyframe="bent", ctrl=start)
    for k in range(12):
        control = np.full((2, 2), 0.1 * np.sin(k))
        gpu.step(sent(gpu, control))
        cpu.step(control)
        near(gpu.ctrl, cpu.ctrl, 1e-6)
        near(gpu.measure(), cpu.measure(), 1e-4)
    near(gpu.qpos, cpu.qpos, 1e-4)


@check
def test_contacts_say_who_presses_on_whom(device: str) -> None:
    gpu = made(SCENE, [Theta({"body.cube.mass": 0.5}), Theta()], device, touch=[("cube", "floor"), ("lower", "cube")])
    for _ in range(20):
        gpu.step(sent(gpu, np.zeros((2, 2))), 25)
    touching, force = gpu.contacts()
    assert touching.tolist() == [[True, False], [True, False]]
    near(force[:, 0], np.array([0.5 * 9.81, 0.2 * 9.81]), 0.01)


@check
def test_what_the_gpu_cannot_do_is_refused(device: str) -> None:
    import torch

    with pytest.raises(
        SimError, match=r"geom.cube.scale needs a model compiled for every value: only worlds on the CPU"
    ):
        made(SCENE, [Theta({"geom.cube.scale": 2.0})], device)
    with pytest.raises(SimError, match="no worlds were asked for"):
        made(SCENE, 0, device)
    gpu = made(SCENE, 1, device)
    with pytest.raises(SimError, match="the bank is empty"):
        gpu.reset(bank=torch.zeros(1, dtype=torch.long))
    with pytest.raises(SimError, match="no keyframe 'bend'. Did you mean 'bent'"):
        gpu.reset(keyframe="bend")
    with pytest.raises(SimError, match="'qposs' is nothing that mujoco_warp keeps for each world. Did you mean 'qpos'"):
        gpu.view("qposs")
    with pytest.raises(SimError, match="1 worlds were given 2 Thetas"):
        gpu.set_thetas([0], [Theta(), Theta()])
    asleep = Scene(SCENE.xml.replace("<option ", '<option integrator="discrete" '))
    with pytest.raises(SimError, match="worlds on the GPU take the integrators Euler, RK4, implicit and implicitfast"):
        made(asleep, 1, device)


@check
def test_a_step_is_taken_apart_only_where_nothing_needs_what_another_chain_finds(device: str) -> None:
    import mujoco

    from twinproof.sim.lanes_gpu import loosens

    def built(actuator: str) -> Any:
        return mujoco.MjModel.from_xml_string(
            '<mujoco><worldbody><body name="cup"><joint name="lift" type="slide"/><geom size=".1"/></body></worldbody>'
            f"<actuator>{actuator}</actuator></mujoco>"
        )

    assert loosens(built('<motor joint="lift"/>'))
    assert not loosens(built('<motor joint="lift"/><adhesion body="cup" ctrlrange="0 1"/>'))


if __name__ == "__main__":
    for each in CHECKS:
        each(sys.argv[1] if len(sys.argv) > 1 else CUDA)
        sys.stdout.write(f"passed: {each.__name__}\n")
