"""The lab's robot behind the robot interface (nouns/robot.py): a hidden reality that senses and obeys."""

from __future__ import annotations

from collections import Counter

import numpy as np

from twinproof.lab.benches import bench as bench_named
from twinproof.lab.cameras import Film
from twinproof.lab.effects import chosen
from twinproof.lab.models.room import Look
from twinproof.lab.models.things import OBJECT
from twinproof.lab.population import INSTANCES, Instance, instance
from twinproof.lab.push import put_object
from twinproof.lab.reality import Reality
from twinproof.lab.tracker import Mounted, frame_of
from twinproof.lab.tracker import tracker as tracker_named
from twinproof.nouns.errors import RobotError
from twinproof.nouns.randomness import stream
from twinproof.nouns.robot import Limits, Observation, Picture, Start, numbers
from twinproof.nouns.trace import Event


class LabRobot:
    """A bench's hidden reality behind the interface. Time is simulated: it passes in `observe`."""

    def __init__(
        self,
        bench: str,
        plant: int,
        *,
        effects: str = "all",
        cameras: tuple[str, ...] = (),
        size: tuple[int, int] = (160, 120),
        limits: Limits | None = None,
        watchdog: int = 5,
        tracker: str = "",
    ) -> None:
        """`tracker`: tag or mocap sees the object beside the robot; `tracked` says where."""
        if plant < 0:
            raise RobotError(f"there is no plant {plant}. Use 0 or more.")
        if watchdog < 1:
            raise RobotError(f"a watchdog of {watchdog} ticks would never let the robot move. Use 1 or more.")
        self.bench = bench_named(bench)
        self._plant = self.bench.plant(plant)  # hidden: only the truth file tells
        self.joints, self.rate_hz = self.bench.joints, float(self.bench.rate_hz)
        self.watchdog, self.counts = watchdog, Counter[str]()
        self.effects, self.size = chosen(effects, self.bench), size
        known = {camera.name: camera for camera in self._plant.cameras}
        for name in cameras:
            if name not in known:
                raise RobotError(f"bench {bench!r} has no camera {name!r}. It has {', '.join(known) or 'none'}.")
        self._cameras = tuple(known[name] for name in cameras)
        self._sensor = tracker_named(tracker, self.bench) if tracker else None
        self._reality: Reality | None = None
        self._closed = False
        self.limits = limits or default_limits(bench)
        if len(self.limits.low) != len(self.joints):
            raise RobotError(
                f"limits for {len(self.limits.low)} joints, and bench {bench!r} has {len(self.joints)}: "
                f"{', '.join(self.joints)}. Give one number for each."
            )

    def reset(self, condition: Start) -> Observation:
        """Home pose, the object where the condition says, and the first observation."""
        if self._closed:
            raise RobotError("the robot is closed. Construct a new one.")
        thing = self._thing(condition.object)
        reality = Reality(self.bench, self._plant, thing, Look.of(self._plant.seed, condition.session), self.effects)
        path = ("lab", self.bench.name, "deploy")
        scene = stream(condition.seed, *path, "scene")
        reality.reset(stream(condition.seed, *path, "sensors"), scene)
        if condition.at_m is not None and thing is not None and reality.world.has("body", OBJECT):
            put_object(reality.world, thing, condition.at_m, condition.yaw_rad)
            reality.settle()
        self._films = {
            camera.name: Film(reality, camera, self.size, (*path, condition.session), condition.seed)
            for camera in self._cameras
        }
        if self._sensor is not None:
            self._view = Mounted(reality, self._sensor, frame_of(self._plant.seed, self.bench.name))
            self._luck = stream(condition.seed, *path, "tracker")
        self._reality, self._silent, self._stopped, self._first, self._ticks = reality, 0, False, True, 0
        self._last = reality.held.copy()  # the target at the last tick
        self._next: np.ndarray | None = None  # what was told since
        self.counts.clear()
        return self.observe()

    def observe(self) -> Observation:
        """Waits for the next tick (the first after a reset is at once) and reports what the sensors say."""
        reality = self._running()
        if not self._first:
            self._silent += 1
            if self._silent > self.watchdog and not self._stopped:
                self._stop(reality)
            elif self._next is not None:
                self._last = self._next
                reality.command(self._next)
            self._next = None
            reality.advance(round(1 / (self.rate_hz * reality.dt)))
            self._ticks += 1
        self._first = False
        position, velocity, torque = reality.sensed
        return Observation(reality.time_s, position, velocity, torque, self._pictures(reality), self._stopped)

    def act(self, command: np.ndarray) -> None:
        """Sets the target of all joints until the next call: encoder angles, metres for grippers, or torques.

        Of several calls in one tick the last counts; each is limited against the target at the tick's start.
        """
        self._running()
        if self._stopped:
            self.counts["refused: stopped"] += 1
            raise RobotError(f"the robot stopped after {self.watchdog} ticks without a command. Reset it.")
        wanted = numbers(command)
        if wanted is None or wanted.shape != (len(self.joints),) or not np.isfinite(wanted).all():
            self.counts["refused: not a command"] += 1
            found = (
                f"a command that is not numbers ({command!r:.60})"
                if wanted is None
                else f"a command of shape {wanted.shape} with {int((~np.isfinite(wanted)).sum())} non-finite values"
            )
            raise RobotError(f"{found}; needed are {len(self.joints)} numbers, for {', '.join(self.joints)}.")
        self._next = self._limited(wanted)
        self._silent = 0

    def tracked(self) -> np.ndarray | None:
        """(7,) where the tracker sees the object now, x y z and then w x y z; None where it has lost sight of it."""
        reality = self._running()
        if self._sensor is None:
            raise RobotError(f"nothing tracks the object of bench {self.bench.name!r}. Construct it with a tracker.")
        pose = self._view.read(reality.world, self._luck)
        return None if self._luck.uniform() < self._sensor.lost else pose

    def close(self) -> None:
        """Ends the session; the robot refuses everything from now on."""
        self._closed, self._reality = True, None

    def succeeded(self, behaviour: str, goal_m: np.ndarray | None = None) -> bool:
        """The referee's word on the trial so far; a person gives it at a real robot."""
        snaps = self._running().log.snaps
        if behaviour not in self.bench.tasks:
            known = ", ".join(self.bench.tasks)
            raise RobotError(f"bench {self.bench.name!r} has no behaviour {behaviour!r} to judge. It has {known}.")
        goal, width = None if goal_m is None else numbers(goal_m), self.bench.goals.get(behaviour, 0)
        if width and (goal is None or goal.ndim != 1 or not width <= len(goal) <= 3 or not np.isfinite(goal).all()):
            raise RobotError(
                f"{behaviour!r} was to be judged by the goal {goal_m!r:.60}; needed is where the object was to go, "
                f"{width} finite numbers in metres. Give it as goal_m."
            )
        return self.bench.succeeded(behaviour, snaps, goal)

    def events(self) -> tuple[Event, ...]:
        """What the referee saw happen."""
        return self.bench.events(self._running().log.snaps)

    def _running(self) -> Reality:
        if self._reality is None:
            cure = "Construct a new one." if self._closed else "Call reset first."
            raise RobotError(f"the robot is {'closed' if self._closed else 'not at its start'}. {cure}")
        return self._reality

    def _thing(self, name: str) -> Instance | None:
        """The object of this name, or the first of the bench."""
        families = self.bench.families
        if not families:
            if name:
                raise RobotError(f"bench {self.bench.name!r} has no objects, and {name!r} was asked for. Leave it out.")
            return None
        name = name or f"{families[0]}_00"
        if name not in {f"{family}_{k:02d}" for family in families for k in range(INSTANCES)}:
            known = ", ".join(f"{family}_00 to {family}_{INSTANCES - 1}" for family in families)
            raise RobotError(f"bench {self.bench.name!r} has no object {name!r}. It has {known}.")
        return instance(name)

    def _stop(self, reality: Reality) -> None:
        """Holds where it is: the newest measured position, or no torque."""
        self._stopped = True
        self.counts["watchdog"] += 1
        position = reality.sensed[0]
        reality.command(np.zeros_like(position) if self.bench.torque_driven else position)

    def _limited(self, wanted: np.ndarray) -> np.ndarray:
        step = self.limits.speed / self.rate_hz
        target = np.clip(wanted, self.limits.low, self.limits.high)
        slower: np.ndarray = np.clip(target, self._last - step, self._last + step)
        for name, met in (("joint limit", target != wanted), ("speed limit", np.abs(slower - target) > 1e-12)):
            if not met.any():
                continue
            self.counts[name] += 1
            if self.limits.beyond == "refuse":
                which = int(np.argmax(met))
                raise RobotError(
                    f"the command {wanted[which]:.4g} for {self.joints[which]!r} is beyond its {name}: "
                    f"{self.limits.low[which]:.4g} to {self.limits.high[which]:.4g}, at most {step[which]:.4g} a tick "
                    f"from {self._last[which]:.4g}. The last target holds."
                )
        return slower

    def _pictures(self, reality: Reality) -> dict[str, Picture]:
        pictures = {}
        for camera in self._cameras:
            taken = max(0.0, reality.time_s - 0.03)  # a picture takes a while to arrive
            rgb = self._films[camera.name].picture(taken, self._ticks)
            pictures[camera.name] = Picture(taken - camera.clock_offset_s, rgb)
        return pictures


def default_limits(bench: str) -> Limits:
    """The nominal robot's ranges; 2.5 rad/s and 0.3 m/s for servos, no speed limit for torques."""
    from twinproof.sim.world import World, compile_text

    named = bench_named(bench)
    world = World(compile_text(named.robot_text()))
    if named.torque_driven:
        span = world.model.actuator_ctrlrange
        return Limits(span[:, 0].copy(), span[:, 1].copy(), np.full(len(span), np.inf))
    low, high = np.array([world.joint_range(name) for name in named.joints]).T
    speed = np.array([0.3 if name in named.grippers else 2.5 for name in named.joints])
    return Limits(low, high, speed)
