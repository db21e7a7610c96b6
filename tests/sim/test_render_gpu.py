"""Pictures from the GPU: what the ray caster sees on the CPU, for many worlds at once.

Needs CUDA. Without pytest, or on warp's CPU device: `python -m tests.sim.test_render_gpu [cpu]`.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Sequence
from typing import Any

import mujoco
import numpy as np
import pytest

from tests.sim.rendering import FLAT_LIGHT, MANY, ready
from twinproof.nouns.errors import SimError
from twinproof.nouns.theta import Theta
from twinproof.sim.instantiate import instantiate
from twinproof.sim.render import Image
from twinproof.sim.render_camera import Lens, Named
from twinproof.sim.render_rays import Rays
from twinproof.sim.scene import Scene

CUDA = "cuda:0"
SIZE = (32, 24)
PAIR = """
<mujoco>
  <asset><texture name="sides" type="cube" builtin="flat" rgb1="1 .5 0" rgb2="0 0 1" width="8" height="8"/>
    <material name="sides" texture="sides"/></asset>
  <worldbody>
    <body name="cube" pos="0 1 0"><freejoint/><geom name="cube" type="box" size=".2 .2 .2" rgba="1 .2 0 1"/></body>
    <geom name="far" size="30" pos="0 400 0" rgba="0 0 1 1"/>
    <geom name="glazed" type="box" size=".1 .1 .1" pos="-.4 1 .3" material="sides"/>
    <camera name="front" xyaxes="1 0 0 0 0 1" fovy="70"/>
  </worldbody>
</mujoco>""".replace("<worldbody>", FLAT_LIGHT + "<worldbody>", 1)
LENS = Lens(32, 24, 30.0, 27.0, 14.0, 13.0, (0.1, -0.05, 0.01, 0.005))
CHECKS: list[Callable[[str], None]] = []


def _missing() -> str:
    for package in ("torch", "warp", "mujoco_warp"):
        if importlib.util.find_spec(package) is None:
            return f"pictures from the GPU need {package}: pip install 'twinproof[gpu]'"
    import torch

    return "" if torch.cuda.is_available() else "this machine has no CUDA device"


pytestmark = [pytest.mark.gpu, pytest.mark.skipif(bool(_missing()), reason=_missing() or "-")]


def check(function: Callable[[str], None]) -> Callable[[], None]:
    """A test that runs on CUDA, and on another device when this file is run as a script."""
    CHECKS.append(function)

    def test() -> None:
        function(CUDA)

    return test


def bare(model: Any, qpos: np.ndarray, device: str) -> Any:
    """Worlds in these states, made by mujoco_warp alone."""
    import mujoco_warp as mjw
    import warp as wp

    from twinproof.sim.render_gpu import Bare

    with wp.ScopedDevice(device):
        worlds = Bare(model, mjw.put_model(model), mjw.make_data(model, nworld=len(qpos)))
        place(worlds, qpos)
    return worlds


def place(worlds: Any, qpos: np.ndarray) -> None:
    import mujoco_warp as mjw
    import warp as wp

    with wp.ScopedDevice(worlds.data.qpos.device):
        worlds.data.qpos.assign(np.asarray(qpos, np.float32))
        for stage in (mjw.kinematics, mjw.com_pos, mjw.camlight):
            stage(worlds.model, worlds.data)


def states(model: Any, count: int) -> np.ndarray:
    """The free body of a scene a little higher in every world."""
    qpos = np.tile(model.qpos0, (count, 1))
    qpos[:, 2] += 0.1 * np.arange(count)
    return qpos


def same(pictures: dict[str, Any], world: int, camera: int, image: Image, misses: float = 0.01) -> None:
    """Depths agree to 1e-5, ids but for rays that graze an edge."""
    depth, geom = (pictures[name][world, camera].cpu().numpy() for name in ("depth", "segmentation"))
    agree = geom == image.geom
    assert agree.mean() >= 1 - misses, f"ids agree on {agree.mean():.4f} of the pixels"
    np.testing.assert_allclose(depth[agree], image.depth_m[agree], rtol=1e-5)


def exact(model: Any, qpos: np.ndarray, view: Any) -> Image:
    return Rays(threads=1).render(model, qpos, view, ("depth", "segmentation"))


def cameras(worlds: Any, names: Sequence[str], *more: Any, **options: Any) -> Any:
    from twinproof.sim.render_gpu import GpuCameras

    return GpuCameras(worlds, names, *more, **options)


@check
def test_depths_and_ids_are_those_of_the_ray_caster_in_every_world(device: str) -> None:
    model, _ = ready(MANY)
    qpos = states(model, 3)
    pictures = cameras(bare(model, qpos, device), ["front", "sensor"], SIZE).render()
    assert pictures["rgb"].shape == (3, 2, 24, 32, 3)
    assert pictures["depth"].shape == pictures["segmentation"].shape == (3, 2, 24, 32)
    for world in range(3):
        for camera, name in enumerate(("front", "sensor")):
            same(pictures, world, camera, exact(model, qpos[world], Named(name, *SIZE)))
    assert not (pictures["segmentation"][0] == pictures["segmentation"][2]).all()


@check
def test_a_bent_lens_sees_what_it_sees_on_the_cpu(device: str) -> None:
    model, _ = ready(MANY)
    qpos = states(model, 2)
    straight = Lens(32, 24, 20.0, 40.0, 15.5, 3.0)
    pictures = cameras(bare(model, qpos, device), ["front", "sensor"], SIZE, lenses=[LENS, straight]).render()
    for camera, (name, lens) in enumerate((("front", LENS), ("sensor", straight))):
        same(pictures, 1, camera, exact(model, qpos[1], Named(name, lens=lens)))


@check
def test_nothing_is_at_infinity_and_nothing_is_too_far(device: str) -> None:
    model, _ = ready(PAIR)
    qpos = states(model, 2)
    qpos[1, 1] = -5  # behind the camera
    pictures = cameras(bare(model, qpos, device), ["front"], SIZE).render()
    depth, geom = pictures["depth"].cpu().numpy(), pictures["segmentation"].cpu().numpy()
    assert ((geom == -1) == np.isinf(depth)).all()
    assert (geom[:, 0, 0, 0] == -1).all()
    assert depth[0, 0, 12, 16] == pytest.approx(0.8, rel=1e-6)
    assert model.stat.extent * model.vis.map.zfar > 400
    near = mujoco.MjModel.from_xml_string(PAIR.replace("<worldbody>", '<statistic extent="1"/><worldbody>', 1))
    far = cameras(bare(near, qpos, device), ["front"], SIZE, ("segmentation", "depth")).render()
    assert far["segmentation"][1, 0, 12, 16] == near.geom("far").id
    same(far, 1, 0, exact(near, qpos[1], Named("front", *SIZE)))


@check
def test_colours_come_out_in_the_right_order_and_cubes_with_one_face_a_side(device: str) -> None:
    model, _ = ready(PAIR)
    pictures = cameras(bare(model, model.qpos0[None], device), ["front"], SIZE, ("rgb", "segmentation")).render()
    rgb, geom = pictures["rgb"][0, 0].cpu().numpy().astype(int), pictures["segmentation"][0, 0].cpu().numpy()
    assert set(pictures) == {"rgb", "segmentation"}
    for name, colour in (("cube", (255, 51, 0)), ("glazed", (255, 127, 0))):
        shown = rgb[geom == model.geom(name).id]
        assert len(shown) > 5
        assert np.abs(shown - colour).max() <= 1, name
    assert (rgb[geom == -1] == (255 * model.vis.rgba.fog[:3]).astype(int)).all()


@check
def test_a_lamp_throws_a_shadow_unless_asked_not_to(device: str) -> None:
    model, _ = ready(
        """<mujoco><visual><headlight active="0"/></visual><worldbody>
        <light pos="0 0 3" type="point" castshadow="true"/>
        <geom type="plane" size="2 2 .1"/><geom type="box" size=".3 .3 .01" pos="0 0 1.5"/>
        <camera name="side" pos="0 -2 1" xyaxes="1 0 0 0 .4 1"/></worldbody></mujoco>"""
    )
    worlds = bare(model, np.zeros((1, 0)), device)
    dark, lit = (
        cameras(worlds, ["side"], (64, 48), ("rgb",), shadows=on).render()["rgb"][0, 0].cpu().numpy()
        for on in (True, False)
    )
    shaded = (dark == 0).all(axis=-1) & (lit > 50).all(axis=-1)
    assert shaded.sum() > 30
    assert (dark[~shaded] == lit[~shaded]).all()


@check
def test_pictures_are_rewritten_in_place_when_the_worlds_move(device: str) -> None:
    model, _ = ready(PAIR)
    worlds = bare(model, states(model, 2), device)
    gpu = cameras(worlds, ["front"], SIZE)
    before = gpu.render()
    kept = {name: tensor.clone() for name, tensor in before.items()}
    for _ in range(2):
        again = gpu.render()  # on CUDA the second and third time it is a captured graph
        assert all((again[name] == kept[name]).all() for name in kept)
    place(worlds, states(model, 2) + np.array([0.3, 0.2, 0, 0, 0, 0, 0]))
    after = gpu.render()
    assert all(after[name].data_ptr() == before[name].data_ptr() for name in before)
    assert float(after["depth"][0, 0, 12, 24]) == pytest.approx(1.0, rel=1e-5)
    assert int(kept["segmentation"][0, 0, 12, 24]) != model.geom("cube").id


@check
def test_each_world_is_seen_with_its_own_camera_and_colours(device: str) -> None:
    from twinproof.sim.worlds_gpu import GpuWorlds

    scene = Scene(PAIR)
    first = [Theta(), Theta({"camera.front.fovy": 0.8, "camera.front.x": 0.05})]
    worlds = GpuWorlds(scene, first, device=device)
    gpu = cameras(worlds, ["front"], SIZE)
    for thetas in (first, [Theta({"geom.cube.green": 0.9}), Theta({"camera.front.fovy": 1.5})]):
        worlds.set_thetas([0, 1], thetas)  # a colour of its own is new to the model: its array is replaced
        worlds.refresh()
        pictures = gpu.render()
        for world, theta in enumerate(thetas):
            model = instantiate(scene, theta)
            same(pictures, world, 0, exact(model, model.qpos0, Named("front", *SIZE)))
            cube = pictures["segmentation"][world, 0] == model.geom("cube").id
            seen = pictures["rgb"][world, 0][cube].cpu().numpy().astype(int)
            assert len(seen) > 10
            assert np.abs(seen - 255 * model.geom("cube").rgba[:3]).max() <= 1


@check
def test_a_picture_can_be_part_of_a_graph_that_torch_captures(device: str) -> None:
    import torch

    if not device.startswith("cuda"):
        return
    model, _ = ready(PAIR)
    worlds = bare(model, states(model, 2), device)
    gpu = cameras(worlds, ["front"], SIZE)
    gpu.render()
    graph, seen = torch.cuda.CUDAGraph(), torch.zeros((), device=device)
    torch.cuda.synchronize()
    with torch.cuda.graph(graph):
        seen.copy_(gpu.render()["depth"][0, 0, 12, 16])
    place(worlds, states(model, 2) + np.array([0, 0.5, 0, 0, 0, 0, 0]))
    graph.replay()
    torch.cuda.synchronize()
    assert float(seen) == pytest.approx(1.3, rel=1e-5)


@check
def test_what_the_gpu_cannot_draw_is_refused(device: str) -> None:
    model, _ = ready(MANY)
    worlds = bare(model, states(model, 1), device)
    for names, size, more, words in (
        (["front"], SIZE, {"what": ("normal",)}, "the GPU cannot render normal. Ask for some of rgb, depth, segmentat"),
        (["front"], SIZE, {"what": ()}, "the GPU cannot render nothing"),
        ([], SIZE, {}, "no camera was named"),
        (["back"], SIZE, {}, "the model has no camera 'back'. Its cameras: front, sensor, straight"),
        (["straight"], SIZE, {}, "camera 'straight' is orthographic"),
        (["front"], (0, 24), {}, "lens: 0 × 24 pixels"),
        (["sensor"], (24, 24), {}, "has a sensor of 0.0064 × 0.0048 m, and a picture of 24 × 24 pixels has another"),
        (["front"], (24, 24), {"lenses": [LENS]}, "1 cameras of 24 × 24 pixels were given lenses of these sizes: 32"),
        (["front"], SIZE, {"lenses": []}, "were given lenses of these sizes: none. Give one lens"),
    ):
        with pytest.raises(SimError, match=words):
            cameras(worlds, names, size, **more)
    cloth = """<mujoco><worldbody><camera name="front"/><body name="a" pos="0 0 1">
        <flexcomp name="cloth" type="grid" count="3 3 1" spacing=".1 .1 .1" mass="1"/></body></worldbody></mujoco>"""
    with pytest.raises(SimError, match="or a flex, which has no geom id"):
        cameras(type(worlds)(mujoco.MjModel.from_xml_string(cloth), None, None), ["front"], SIZE)


if __name__ == "__main__":
    for each in CHECKS:
        each(sys.argv[1] if len(sys.argv) > 1 else CUDA)
        sys.stdout.write(f"passed: {each.__name__}\n")
