"""Policies that see pictures sit a panel: drawn from the twin in its domains, the robot's own in reality."""

from __future__ import annotations

import shutil
import threading
from dataclasses import replace

import numpy as np
import pytest

from tests.evaluate.filmed import CHANNEL, SIZE, Filmed, contract_of, filmed_text, looked, orange_at, wanted
from tests.evaluate.practice import pendulum
from tests.policies.servers import groot, groot_pack, openpi, openpi_pack
from tests.tasks.test_eyes import drawable, red_at  # noqa: F401
from tests.tasks.test_eyes import twin as splat_twin  # noqa: F401
from twinproof.cli_robot import place_of
from twinproof.evaluate.beliefs import Beliefs
from twinproof.evaluate.cameras import (
    TwinEyes,
    camera_channels,
    cameras_in,
    on_cameras,
    pictures_in,
    seeing,
    taken,
    without_pictures,
)
from twinproof.evaluate.closed_loop import Batch, Job, run_jobs
from twinproof.evaluate.command import contenders_of, with_cameras
from twinproof.evaluate.contenders import Contender
from twinproof.evaluate.decompose import Played, gap_of
from twinproof.evaluate.deploy import Place, begins
from twinproof.evaluate.examine import Examination, examine
from twinproof.evaluate.film import filming
from twinproof.evaluate.freeze import Design, domains_of, freeze
from twinproof.evaluate.runs import Runs
from twinproof.evaluate.shots import Shots, picture_gap, seen_at, states_of
from twinproof.lab.benches import bench
from twinproof.nouns.errors import ConfigError, PanelError, SimError, TaskError
from twinproof.nouns.panel import Cell, Condition, Domain, trial_seed
from twinproof.nouns.policy import Channel
from twinproof.nouns.rig import Camera, Rig
from twinproof.nouns.robot import Picture
from twinproof.nouns.signal import Column, Signal
from twinproof.nouns.split import Split
from twinproof.nouns.store import Store
from twinproof.nouns.theta import Theta
from twinproof.nouns.trace import Trace
from twinproof.nouns.twin import Twin
from twinproof.policies.chunks import Chunked
from twinproof.policies.scripted import Scripted
from twinproof.policies.served import ServedActor
from twinproof.policies.server import Received, Sent, Server, served_policy
from twinproof.sim.render_camera import Lens, OnBody
from twinproof.sim.render_rays import Rays
from twinproof.sim.scene import Scene
from twinproof.tasks import push, reach
from twinproof.tasks.arena import Arena, Play
from twinproof.tasks.task import Setup

RIG = {"front": Camera("observation.images.cam_high", intrinsics_unknown=True)}


@pytest.fixture(scope="module")
def filmed(tmp_path_factory):
    return pendulum(tmp_path_factory.mktemp("filmed"), text=filmed_text(), cameras=RIG)


@pytest.fixture(scope="module")
def twin(filmed):
    return Twin.load(filmed.twin)


@pytest.fixture(scope="module")
def task(twin):
    return reach.of(twin, horizon_s=3.0)


def job(task, seed: int, theta: Theta | None = None) -> Job:
    condition = Condition(f"h{seed:02d}", f"e{seed}", seed)
    cell = Cell("looks", condition, Domain("twin", "twin", 1), 0, trial_seed(condition, 0))
    return Job(cell, theta or Theta(), begins(task, cell))


def test_a_picture_is_found_by_its_cameras_name_or_by_the_source_that_the_rig_reads_it_from(twin):
    rig = Rig("arm", cameras=RIG)
    named = [Channel(name, "1", shape=(36, 48, 3)) for name in ("image.front", "front", "image.cam_high")]
    assert [channel.frame for channel in on_cameras(named, cameras_in(twin), rig)] == ["front"] * 3
    with pytest.raises(PanelError, match="no camera 'frnt' is known. Did you mean 'front'"):
        on_cameras([Channel("image.frnt", "1", shape=(36, 48, 3))], ("front",), rig)


def test_a_panel_states_its_cameras_as_large_as_they_take_pictures(twin, splat_twin, tmp_path):  # noqa: F811
    (still,) = camera_channels(twin, ("front",))
    assert (still.name, still.frame, still.shape) == ("image.front", "front", (120, 160, 3))
    (above,) = camera_channels(splat_twin, ("above",))
    assert above.shape == (48, 64, 3)
    (tmp_path / "scene.xml").write_text(filmed_text().replace('name="front"', 'name="front" resolution="64 48"'))
    stated = Twin(tmp_path, twin.bodies, twin.alignment, twin.engine, (), {})
    assert camera_channels(stated, ("front",))[0].shape == (48, 64, 3)


def test_worlds_are_drawn_by_rays_where_a_twin_has_no_splats_and_only_those_that_ask(twin, task):
    pictures = on_cameras([CHANNEL], ("front",), Rig("arm", cameras=RIG))
    eyes = TwinEyes(twin, pictures)
    arena = Arena(twin, seeing(task, pictures), 3, play=Play(auto_reset=False, bank=3, nthread=1), eyes=eyes)
    starts = [Setup((0.1, 0.1), joints={"shoulder": 0.6 * k, "elbow": 0.3 * k}) for k in range(3)]
    seen = arena.reset(seeds=[1, 2, 3], setups=starts, thetas=[Theta()] * 3)
    assert seen[CHANNEL.name].dtype == np.uint8
    for picture, joints in zip(seen[CHANNEL.name], seen["joint_position"], strict=True):
        assert orange_at(picture, joints)
    assert not orange_at(seen[CHANNEL.name][0], seen["joint_position"][2])
    drawn = eyes.drawn
    eyes.look_at(np.array([False, True, False]))
    step = arena.step(np.zeros((3, 2)))
    assert eyes.drawn == drawn + 1
    np.testing.assert_array_equal(step.observations[CHANNEL.name][0], seen[CHANNEL.name][0])
    eyes.look_at(np.zeros(3, bool))
    arena.step(np.zeros((3, 2)))
    assert eyes.drawn == drawn + 1


def test_worlds_of_a_twin_with_splats_are_drawn_from_them(splat_twin):  # noqa: F811
    pictures = on_cameras([Channel("image.above", "1", 0, 255, (24, 32, 3))], cameras_in(splat_twin))
    eyes, ground = TwinEyes(splat_twin, pictures), push.of(splat_twin, home={"turn": 0.0})
    arena = Arena(splat_twin, seeing(ground, pictures), 2, play=Play(bank=2, nthread=1), eyes=eyes)
    setups = [Setup((0.4, 0.0), at, 0.0) for at in ((0.3, 0.0), (0.4, 0.1))]
    seen = arena.reset(setups=setups)["image.above"].astype(float)
    np.testing.assert_allclose(red_at(seen[1]) - red_at(seen[0]), [3.9, -3.9], atol=0.7)
    bent = replace(pictures[0], shape=(32, 32, 3))
    with pytest.raises(PanelError, match="32 × 32, and the camera 'above' takes 64 × 48: another shape"):
        TwinEyes(splat_twin, [bent])


def test_a_camera_on_a_body_of_a_twin_without_splats_moves_with_it(splat_twin):  # noqa: F811
    scene, camera = Scene.of(splat_twin), splat_twin.cameras["wrist"]
    lens = Lens(32, 24, 30.0, 30.0, 15.5, 11.5)
    view = OnBody(lens, "hand", camera.mount.T_parent_camera)
    model = scene.nominal()
    still = model.key_qpos[0] if model.nkey else np.array([0.0, 0.3, 0, 0.03, 1, 0, 0, 0])
    turned = still.copy()
    turned[0] = 0.5
    rays = Rays(threads=1, shadow_samples=1)
    one, other = (rays.render(model, state, view, ("segmentation",)).body for state in (still, turned))
    assert (one != other).any()
    with pytest.raises(SimError, match="mounted on 'claw', and the model has no such body"):
        rays.render(model, still, OnBody(lens, "claw", np.eye(4)), ("depth",))


def test_a_robots_pictures_are_averaged_to_the_size_that_a_policy_sees():
    (channel,) = on_cameras([replace(CHANNEL, name="image.front", shape=(2, 2, 3))], ("front",))
    shot = np.zeros((4, 4, 3), np.uint8)
    shot[:2, :2] = [[[10], [20]], [[30], [40]]]
    found = taken({"front": Picture(0.0, shot)}, [channel])["image.front"]
    assert found.shape == (1, 2, 2, 3)
    assert found[0, 0, 0, 0] == 25
    np.testing.assert_array_equal(
        taken({"front": Picture(0.0, shot[:2, :2])}, [channel])["image.front"][0], shot[:2, :2]
    )
    with pytest.raises(PanelError, match="the robot gave no picture of camera 'front'. It shows left"):
        taken({"left": Picture(0.0, shot)}, [channel])
    with pytest.raises(TaskError, match="the picture of camera 'front' is 3 × 4, and 2 × 2 is wanted"):
        taken({"front": Picture(0.0, shot[:, :3])}, [channel])


def test_a_trial_that_looks_is_the_same_alone_in_other_company_and_in_a_world_that_another_used(twin, task):
    pictures = on_cameras([CHANNEL], ("front",), Rig("arm", cameras=RIG))
    policy = Scripted(contract_of(task, 3), lambda seen: np.repeat(looked(seen)[:, None], 3, axis=1))
    jobs = [job(task, k) for k in range(4)]

    def run(some, worlds):
        how = Batch(worlds=worlds, eyes=TwinEyes(twin, pictures))
        return run_jobs(twin, seeing(task, pictures), Chunked(policy), some, how), how.eyes

    whole, eyes = run(jobs, 4)
    assert all(each.success for each in whole)
    asked = sum(len(each.trace.signals["command"].time_s) for each in whole) / 3
    assert eyes.drawn < 1.5 * asked + 12  # pictures are drawn where somebody asks, not at every tick
    alone, _ = run(jobs[3:], 1)
    in_turn, _ = run(jobs, 2)
    assert [each.trace.hash for each in in_turn] == [each.trace.hash for each in whole]
    assert alone[0].trace.hash == whole[3].trace.hash


def test_a_policy_shown_other_pictures_than_the_twins_at_the_same_states_has_a_gap(twin, task, tmp_path):
    pictures = on_cameras([CHANNEL], ("front",), Rig("arm", cameras=RIG))
    stage = Contender("looks", Scripted(contract_of(task), looked), "x").stage(twin, task, pictures)
    mine = job(task, 0)
    (run,) = stage.run([mine])
    ticks = np.array([0, 5, 9])
    drawn = seen_at(stage, states_of(task, run.trace, ticks, mine.theta))
    assert picture_gap(stage, mine, run.trace, Shots(ticks, drawn)) == 0
    dark = {name: shots * 0 for name, shots in drawn.items()}
    gap = picture_gap(stage, mine, run.trace, Shots(ticks, dark))
    assert gap is not None
    assert gap > 0.05
    assert picture_gap(stage, mine, run.trace, Shots(ticks + 10_000, dark)) is None
    with filming(tmp_path) as films:
        film = films.film()
        for tick, picture in zip(ticks, dark[CHANNEL.name], strict=True):
            film.add("cam_high", float(run.trace.signals["state"].time_s[tick]), picture)
        Runs((replace(run, film=film.end(), asked=ticks), run)).save(tmp_path / "runs")
    assert [path.name for path in tmp_path.iterdir()] == ["runs"]
    kept, bare = Runs.load(tmp_path / "runs").runs
    assert len(kept.film.videos["cam_high"]) == 3
    assert bare.film is None
    assert gap_of(stage, Played(mine, kept, run)) == gap
    assert gap_of(stage, Played(mine, bare, run)) is None


def test_a_second_finger_stands_where_the_first_one_takes_it():
    scene = Scene(bench("push").robot_text())
    arm, model = reach.of(scene, home=bench("push").home), scene.nominal()
    time_s = np.array([0.0, 0.05])
    columns = tuple(Column(name, "rad") for name in arm.machine.joints)
    state = np.tile(list(bench("push").home.values()), (2, 1))
    trace = Trace("real", {"state": Signal("state", "joint_position", columns, time_s, state)})
    (qpos,) = states_of(arm, trace, np.array([1]), Theta())
    one, other = (qpos[int(model.joint(name).qposadr[0])] for name in ("gripper", "gripper_mirror"))
    assert one == other == bench("push").home["gripper"]


def test_a_practice_robots_cameras_have_one_size(filmed, twin, task):
    wide = [Channel(f"image.{n}", "1", shape=(36, 48 * k, 3), frame=n) for k, n in enumerate(("front", "left"), 1)]
    with pytest.raises(ConfigError, match="a practice robot's cameras have one size"):
        place_of("lab:pendulum?plant=0", task, "", twin, Split.load(filmed.split), wide)


@pytest.fixture
def panel_of(filmed, twin, task, tmp_path):
    """Makes an examination with a camera: one condition, one real trial and two in the twin."""

    def make(*contenders: Contender, cameras: tuple[str, ...] = ("front",)) -> Examination:
        shutil.copytree(filmed.split, tmp_path / "split")
        split = Split.load(tmp_path / "split")
        design = Design(domains_of(["real=1", "twin=2"], "a filmed pendulum"), conditions=1)
        panel = freeze(with_cameras(task.panel_task(), twin, cameras, split), split, design)
        place = Place(Filmed(), "a filmed pendulum")
        return Examination(panel, split, task, Beliefs(twin), contenders, Store(tmp_path / "store"), place)

    return make


CHUNK = 3
SEND = (
    Sent(("image",), CHANNEL.name),
    Sent(("state",), "joint_position"),
    Sent(("speed",), "joint_velocity"),
    Sent(("off",), "to_goal"),
)


def answer(picture: np.ndarray, state: np.ndarray, speed: np.ndarray, off: np.ndarray) -> np.ndarray:
    """The server's policy: a chunk of torques, or nothing where the picture does not show what the joints say."""
    told = wanted(state, speed, off) if orange_at(picture, state) else np.zeros(2)
    return np.repeat(told[None], CHUNK, axis=0).astype(np.float32)


def test_a_served_policy_that_looks_at_pictures_sits_a_whole_panel_over_loopback(panel_of, task, tmp_path):
    heard: list = []

    def talk(connection, message):
        assert message["image"].shape == (SIZE[1], SIZE[0], 3)
        assert message["prompt"] == "swing to the mark"
        actions = answer(message["image"], message["state"], message["speed"], message["off"])
        connection.send(openpi_pack({"actions": actions}))

    with openpi(talk, heard=heard) as address:
        server = Server(address, "openpi", SEND, (Received(("actions",)),), "swing to the mark", timeout_s=5.0)
        policy = served_policy(server, contract_of(task, CHUNK))
        policy.save(tmp_path / "vla")
        (vla,) = contenders_of([f"vla={tmp_path / 'vla'}"], task, None)
        exam = panel_of(vla)
        found = examine(exam)
        vla.actor._actor.close()
    assert pictures_in(exam.panel.task.contract)[0].shape == (120, 160, 3)
    assert {trial.domain: trial.success for trial in found.trials} == {"real": True, "twin": True}
    for trial in found.trials:
        assert 0 < trial.metrics["latency_p50_s"] <= trial.metrics["latency_p95_s"]
        assert trial.metrics["deadline_misses"] >= 0
        assert trial.metrics["safety_joint_limit"] >= 0
    blind = [m for m in heard if not orange_at(m["image"], m["state"])]
    assert len(blind) < 0.02 * len(heard)  # a link that moves fast may leave the patch that is looked at
    step = found.summary["decomposition"][1]
    assert step["what"] == "actions on the robot's pictures against the twin's at the same states"
    assert step["value"] == 0  # both show the link where the joints say that it is


def test_a_groot_server_gets_pictures_too(panel_of, task):
    stop = threading.Event()

    def talk(request):
        match request.get("endpoint"):
            case "ping":
                return groot_pack({"status": "ok"})
            case "get_modality_config":
                return groot_pack({})
            case "get_action":
                data = request["data"]
                told = answer(data["video.front"][0], *(data[f"state.{n}"][0] for n in ("joints", "speed", "off")))
                return groot_pack({"action.torque": told})
        stop.set()
        return groot_pack({"error": "unknown"})

    keys = ("video.front", "state.joints", "state.speed", "state.off")
    with groot(talk) as address:
        send = tuple(replace(sent, key=(key,)) for sent, key in zip(SEND, keys, strict=True))
        server = Server(address, "groot-flat", send, (Received(("action.torque",)),), "swing", timeout_s=5.0)
        actor = ServedActor(served_policy(server, contract_of(task, CHUNK)))
        contender = Contender("groot", Chunked(actor, ask=actor.act_in), "g", worlds=2, repeatable=False)
        found = examine(panel_of(contender))
        actor.close()
    assert all(trial.success for trial in found.trials)
    assert not stop.is_set()


def test_a_policy_that_looks_needs_a_panel_with_its_camera(panel_of, task):
    policy = Scripted(contract_of(task), looked)
    assert without_pictures(policy.contract).observations[0].name == "joint_position"
    with pytest.raises(PanelError, match="sees image.cam_high, and the panel was frozen without cameras"):
        panel_of(Contender("looks", policy, "x"), cameras=())


def test_draws_move_the_cameras_that_trials_in_the_twin_are_seen_through(twin, task, drawable):  # noqa: F811
    model = Scene.of(twin).nominal()
    place = float(model.cam_pos[model.camera("front").id][0])
    for mine, ground, id, at in (
        (twin, task, "camera.front.x", place),
        (drawable, push.of(drawable, home={"turn": 0.0}), "camera.above.x", 0.3),
    ):
        name = id.split(".")[1]
        pictures = on_cameras([Channel(f"image.{name}", "1", 0, 255, (24, 32, 3))], cameras_in(mine))
        eyes, thetas = TwinEyes(mine, pictures), [Theta(), Theta({id: at}), Theta({id: at + 0.1})]
        arena = Arena(mine, seeing(ground, pictures), 3, draws=thetas, play=Play(bank=3, nthread=1), eyes=eyes)
        seen = arena.reset(seeds=[1, 1, 1], setups=[ground.draw(np.random.default_rng(0))] * 3, thetas=thetas)
        usual, same, moved = seen[f"image.{name}"].astype(int)
        np.testing.assert_allclose(same, usual, atol=1)
        assert np.abs(moved - usual).max() > 30
