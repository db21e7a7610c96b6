"""`twinproof lab record`: a recording of a bench as a user would have it, and its truth where the caller wants it.

OUT/dataset/        a LeRobot v3.0 dataset, or a folder of MCAP bags
OUT/rig.toml        what the user states: ingests the dataset as it is
OUT/robot.xml       the robot alone; OUT/scene.xml robot, room and the family's mean object;
OUT/scene_NAME.xml  the same with one object as a calliper measured it; OUT/assets/ their textures
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import numpy as np

from twinproof.ingest.bag_sidecar import NAME as BAG_SIDECAR
from twinproof.ingest.bag_sidecar import TIMES as BAG_TIMES
from twinproof.ingest.bag_sidecar import sidecar_rig
from twinproof.ingest.bag_write import write_mcap
from twinproof.ingest.lerobot_sidecar import FOLDER as LEROBOT_SIDECAR
from twinproof.ingest.lerobot_write import write_lerobot
from twinproof.lab import truth as truths
from twinproof.lab.bench import Bench
from twinproof.lab.benches import bench as bench_named
from twinproof.lab.cameras import Film, Shots, in_order, schedule
from twinproof.lab.drive import check_limits
from twinproof.lab.effects import chosen
from twinproof.lab.hidden import Plant
from twinproof.lab.models import textures
from twinproof.lab.population import instance, measured
from twinproof.lab.robot import default_limits
from twinproof.lab.take import PLAYED, Played, play, takes
from twinproof.lab.tracker import COLUMNS, Tracker, frame_of, track, tracker
from twinproof.nouns.episode import Episode
from twinproof.nouns.errors import ConfigError
from twinproof.nouns.files import new_folder, remove_tree
from twinproof.nouns.hashing import Json
from twinproof.nouns.progress import Progress, quiet
from twinproof.nouns.randomness import stream
from twinproof.nouns.recording import Recording
from twinproof.nouns.rig import Arm, Camera, Joint, Labels, Model, Rig, SignalRule
from twinproof.nouns.signal import Column, Signal
from twinproof.nouns.strict import plain
from twinproof.nouns.toml_text import to_toml
from twinproof.nouns.trajectory import Trajectory
from twinproof.nouns.video import Video
from twinproof.nouns.video_write import write_pictures

START_NS = 1_772_438_400_000_000_000  # a Monday at eight


@dataclass(frozen=True)
class Options:
    """How a recording is made. `plant` is the robot's number; by default the recording's seed."""

    to: Literal["lerobot", "mcap"] = "lerobot"
    effects: str = "all"  # all | off | names with commas
    size: tuple[int, int] = (160, 120)
    images: bool = True
    tracker: str | None = None  # tag | mocap
    behaviours: tuple[str, ...] = ()  # instead of the bench's own cycle
    scan: bool = True  # every sixth episode carries the wrist camera around
    plant: int | None = None
    cameras: tuple[str, ...] = ()  # only these; all of the bench by default
    camera_hz: float | None = None  # pictures a second; the bench's own by default
    families: tuple[str, ...] = ()  # of objects; all of the bench by default
    trajectory: Trajectory | None = None  # every episode plays these commands, and no behaviour

    def __post_init__(self) -> None:
        if self.to not in ("lerobot", "mcap"):
            raise ConfigError(f"a recording cannot be written as {self.to!r}. Use lerobot or mcap.")
        if any(side < 16 or side % 2 or side > 4096 for side in self.size):
            raise ConfigError(f"pictures of {self.size[0]}×{self.size[1]} cannot be: even sides from 16 to 4096 are.")
        if self.camera_hz is not None and self.to != "mcap":
            raise ConfigError(
                f"a LeRobot dataset has a picture at every tick, not {self.camera_hz:g} a second. Use mcap."
            )
        if self.camera_hz is not None and not 0.5 <= self.camera_hz <= 100:
            raise ConfigError(f"{self.camera_hz:g} pictures a second cannot be taken. Use 0.5 to 100.")
        if self.trajectory is not None and self.behaviours:
            raise ConfigError("a trajectory and behaviours were asked for. An episode plays one or the other.")


def record(
    bench: str,
    episodes: int,
    seed: int,
    out: Path,
    truth: Path | None = None,
    how: Options | None = None,
    progress: Progress = quiet,
) -> None:
    """Records episodes of a bench into a new folder, all of it or nothing; the truth goes to its own file."""
    _Session(bench_named(bench), episodes, seed, how or Options()).write(out, truth, progress)


def in_memory(bench: str, episodes: int, seed: int, how: Options | None = None) -> tuple[tuple[Episode, ...], Plant]:
    """The episodes of a recording without pictures, as a bag would carry them, and the plant that was hidden."""
    session = _Session(bench_named(bench), episodes, seed, replace(how or Options(), images=False))
    made = []
    for take in session.takes:
        played = play(session.bench, session.plant, take, session.effects, seed, session.options.trajectory)
        made.append(session.episode(played, Path())[0])
    return tuple(made), session.plant


class _Session:
    """One recording under way."""

    def __init__(self, bench: Bench, episodes: int, seed: int, options: Options) -> None:
        if episodes < 1:
            raise ConfigError(f"{episodes} episodes cannot be recorded. Ask for at least one.")
        for what, number in (("seed", seed), ("plant", options.plant or 0)):
            if number < 0:
                raise ConfigError(f"{what} {number} cannot be drawn from. Use 0 or more.")
        for name in options.behaviours:
            if name not in bench.tasks:
                raise ConfigError(f"bench {bench.name!r} has no behaviour {name!r}. It has {', '.join(bench.tasks)}.")
        for name in options.families:
            if name not in bench.families:
                known = ", ".join(bench.families) or "none"
                raise ConfigError(f"bench {bench.name!r} has no objects of the family {name!r}. It has {known}.")
        bench.families = options.families or bench.families
        self.bench, self.seed, self.options = bench, seed, options
        self.effects = chosen(options.effects, bench)
        self.plant: Plant = bench.plant(seed if options.plant is None else options.plant)
        names = tuple(camera.name for camera in self.plant.cameras)
        for name in options.cameras:
            if name not in names:
                raise ConfigError(f"bench {bench.name!r} has no camera {name!r}. It has {', '.join(names) or 'none'}.")
        wanted = (options.cameras or names) if options.images else ()
        self.cameras = tuple(camera for camera in self.plant.cameras if camera.name in wanted)
        self.tracker: Tracker | None = tracker(options.tracker, bench) if options.tracker else None
        carried = any(camera.name == "wrist" for camera in self.cameras)
        if "scan" in options.behaviours and not carried:
            raise ConfigError("a scan carries the wrist camera, and it is not recorded. Record it, or leave scan out.")
        if options.trajectory is not None:
            options.trajectory.for_robot(bench.joints, bench.rate_hz)
            check_limits(options.trajectory, default_limits(bench.name))
        cycle = options.behaviours if options.trajectory is None else (PLAYED,)
        self.takes = takes(bench, episodes, seed, cycle, options.scan and carried)

    def write(self, out: Path, truth: Path | None, progress: Progress) -> None:
        """Plays, films and writes."""
        if truth is not None:
            truths.check_place(truth, out)
        self._told = False
        try:
            self._write(out, truth, progress)
        except BaseException:
            if truth is not None and self._told:
                truth.unlink(missing_ok=True)
            raise

    def _write(self, out: Path, truth: Path | None, progress: Progress) -> None:
        found: dict[str, Json] = truths.plant_truth(self.bench, self.plant, self.effects, self.options.size)
        with new_folder(out) as scratch:
            work = scratch / "work"
            made, known = [], []
            for done, take in enumerate(self.takes, 1):
                played = play(self.bench, self.plant, take, self.effects, self.seed, self.options.trajectory)
                episode, shots = self.episode(played, work)
                made.append(episode)
                known.append(truths.episode_truth(self.bench, played, shots))
                progress(done, episode.source, len(self.takes))
            self._models(scratch)
            self._dataset(scratch, tuple(made))
            remove_tree(work)
            if truth is not None:  # before the recording is in its place: both, or neither
                objects = sorted({take.object for take in self.takes if take.object})
                found["seed"] = self.seed
                found["objects"] = {name: truths.object_truth(self.bench, instance(name)) for name in objects}
                self._told = True
                truths.write_truth(truth, {**found, "episodes": known})

    def episode(self, played: Played, work: Path) -> tuple[Episode, dict[str, Shots]]:
        """The take as an episode, and when its pictures were taken; these go to the folder `work`."""
        take = played.take
        path = ("lab", self.bench.name, f"episode{take.number}")
        signals = self._signals(played, stream(self.seed, *path, "bus"))
        if self.tracker is not None:
            frame = frame_of(self.plant.seed, self.bench.name)
            signals["object_pose"] = track(played.reality, self.tracker, frame, stream(self.seed, *path, "tracker"))
        videos, shots = {}, {}
        for camera in self.cameras:
            span_s = (len(played.reality.log.qpos) - 1) * played.reality.dt
            rate_hz = self.options.camera_hz or self.bench.camera_hz
            shot = schedule(camera, rate_hz, span_s, stream(self.seed, *path, camera.name, "shots"))
            film = Film(played.reality, camera, self.options.size, path, self.seed)
            pictures = zip(shot.stamp_s.tolist(), film.roll(shot), strict=True)
            video = write_pictures(pictures, camera.name, work / f"{take.number:03d}_{camera.name}.mp4")
            videos[camera.name], shots[camera.name] = _received(video, shot.log_s), shot
        outcome = "success" if played.success else "failure"
        start = START_NS + (86_400 * int(take.session[4:]) + 60 * take.number) * 1_000_000_000
        labels = take.labels(self.bench)
        made = Episode.of(
            signals, videos, labels=labels, outcome=outcome, start_ns=start, source=f"episode {take.number}"
        )
        return made, shots

    def _signals(self, played: Played, rng: np.random.Generator) -> dict[str, Signal]:
        """What the robot's bus carried: sensors at their rate, commands and phases at theirs."""
        bench, log, dt = self.bench, played.reality.log, played.reality.dt
        sensed = _nanoseconds(np.array(log.sensor_step) * dt)
        sent = _nanoseconds(np.array(log.command_step) * dt)
        rates = tuple("m/s" if unit == "m" else "rad/s" for unit in bench.units)
        forces = tuple("N" if unit == "m" else "N m" for unit in bench.units)
        told = forces if bench.torque_driven else bench.units

        def signal(name: str, kind: str, units: tuple[str, ...], time_s: np.ndarray, value: list[np.ndarray]) -> Signal:
            columns = tuple(Column(joint, unit) for joint, unit in zip(bench.joints, units, strict=True))
            late = _nanoseconds(in_order(time_s + 0.0012 + rng.exponential(0.0004, len(time_s))))
            return Signal(name, kind, columns, time_s, np.stack(value), log_time_s=late)

        signals = {
            "state": signal("state", "joint_position", bench.units, sensed, log.position),
            "velocity": signal("velocity", "joint_velocity", rates, sensed, log.velocity),
            "torque": signal("torque", "joint_torque", forces, sensed, log.torque),
            "command": signal("command", "joint_command", told, sent, log.command),
        }
        if bench.phases:
            shown = np.array([[float(name == phase) for name in bench.phases] for phase in played.phases])
            columns = tuple(Column(name, "1") for name in bench.phases)
            signals["phase"] = Signal("phase", "event", columns, sent, shown, log_time_s=sent)
        return signals

    def _models(self, folder: Path) -> None:
        def text(xml: str) -> str:
            return xml.replace("<compiler ", '<compiler texturedir="assets" ', 1)

        (folder / "assets").mkdir()
        for name, data in textures.assets().items():
            (folder / "assets" / name).write_bytes(data)
        (folder / "robot.xml").write_text(self.bench.robot_text(), encoding="utf-8")
        (folder / "scene.xml").write_text(text(self.bench.nominal_scene(None, self.plant)), encoding="utf-8")
        for name in sorted({take.object for take in self.takes if take.object}):
            xml = self.bench.nominal_scene(measured(instance(name)), self.plant)
            (folder / f"scene_{name}.xml").write_text(text(xml), encoding="utf-8")

    def _dataset(self, folder: Path, made: tuple[Episode, ...]) -> None:
        """Writes the dataset, takes away what only our own tools would write, and states the rig beside it."""
        dataset = folder / "dataset"
        rig = self._rig()
        recording = Recording(rig, made, {"kind": "lab", "name": self.bench.name})
        if self.options.to == "lerobot":
            write_lerobot(recording, dataset, fps=self.bench.rate_hz)
            shutil.rmtree(dataset / LEROBOT_SIDECAR)
            names = [str(k) for k in range(len(made))]
        else:
            write_mcap(recording, dataset)
            stated = sidecar_rig(dataset)
            assert stated is not None
            rules = {name: replace(rule, time="header") for name, rule in stated.signals.items()}
            views = {name: replace(rig.cameras[name], source=view.source) for name, view in stated.cameras.items()}
            rig = replace(rig, signals=rules, cameras=views)
            for sidecar in (*dataset.glob(f"*/{BAG_SIDECAR}"), *dataset.glob(f"*/{BAG_TIMES}")):
                sidecar.unlink()
            names = [str(k) for k in range(len(made))]
        rules_of = tuple(
            Labels(name, dict(episode.labels), episode.outcome) for name, episode in zip(names, made, strict=True)
        )
        text = to_toml(plain(replace(rig, labels=rules_of)))
        (folder / "rig.toml").write_text(text, encoding="utf-8")

    def _rig(self) -> Rig:
        """What the user states about robot, signals and cameras, for a LeRobot dataset."""
        bench, size = self.bench, self.options.size
        ranges = _ranges(bench)
        joints = tuple(Joint(name, ranges.get(name), 1.0) for name in bench.joints)
        chains = tuple(
            Arm(arm.prefix.rstrip("_") or "arm", arm.joints[:-1], arm.joints[-1], arm.hand) for arm in bench.arms
        ) or (Arm("arm", bench.joints),)
        features = {"state": "observation.state", "command": "action"}
        kinds = {
            "state": "joint_position",
            "velocity": "joint_velocity",
            "torque": "joint_torque",
            "command": "joint_command",
        }
        units: Mapping[str, tuple[str, ...]] = {
            "state": bench.units,
            "velocity": tuple("m/s" if unit == "m" else "rad/s" for unit in bench.units),
            "torque": tuple("N" if unit == "m" else "N m" for unit in bench.units),
            "command": bench.units,
        }
        units = {**units, "command": units["torque"]} if bench.torque_driven else units
        signals = {
            name: SignalRule(features.get(name, f"observation.{name}"), kind, units=units[name], columns=bench.joints)
            for name, kind in kinds.items()
        }
        if bench.phases:
            signals["phase"] = SignalRule("observation.phase", "event", "1", columns=bench.phases)
        if self.tracker is not None:
            each = ("m",) * 3 + ("1",) * 4
            signals["object_pose"] = SignalRule(
                "observation.object_pose", "pose", units=each, columns=COLUMNS, frame="world"
            )
        cameras = {
            camera.name: Camera(
                f"observation.images.{camera.name}", camera.lens(size), mount=camera.mount(), clock_offset_sd_s=0.04
            )
            for camera in self.cameras
        }
        return Rig(bench.robot, joints, chains, Model("robot.xml"), signals, cameras)


def _ranges(bench: Bench) -> dict[str, tuple[float, float]]:
    """Joint ranges of the nominal robot; joints that turn freely have none."""
    from twinproof.sim.world import World, compile_text

    world = World(compile_text(bench.robot_text()))
    ranges = {name: world.joint_range(name) for name in bench.joints}
    return {name: span for name, span in ranges.items() if np.isfinite(span).all()}


def _received(video: Video, log_s: np.ndarray) -> Video:
    return replace(video, log_time_s=_nanoseconds(log_s), time_s=_nanoseconds(video.time_s))


def _nanoseconds(time_s: np.ndarray) -> np.ndarray:
    """Times as clocks give them: whole nanoseconds."""
    exact: np.ndarray = np.round(time_s * 1e9) / 1e9
    return exact
