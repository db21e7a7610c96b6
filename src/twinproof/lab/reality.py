"""The lab's reality: one world with hidden values and unmodelled effects, reached by commands and sensors alone.

command -> bus delay and jitter -> backlash -> servo (on the encoder's angle) -> physics + effects -> sensors
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from twinproof.lab import effects as fx
from twinproof.lab.bench import Bench, Snap
from twinproof.lab.hidden import Plant
from twinproof.lab.models import textures
from twinproof.lab.models.room import Look
from twinproof.lab.models.text import Values, camera_text
from twinproof.lab.models.things import OBJECT
from twinproof.lab.population import Instance
from twinproof.sim.world import World, compile_text

SETTLE_S = 0.7  # before every episode the robot holds its home pose until all is at rest


@dataclass
class Log:
    """Everything that happened since the reset. Times are steps, so that they stay exact."""

    qpos: list[np.ndarray] = field(default_factory=list)  # after every physics step
    sensor_step: list[int] = field(default_factory=list)
    position: list[np.ndarray] = field(default_factory=list)
    velocity: list[np.ndarray] = field(default_factory=list)
    torque: list[np.ndarray] = field(default_factory=list)
    command_step: list[int] = field(default_factory=list)
    command: list[np.ndarray] = field(default_factory=list)
    snaps: list[Snap] = field(default_factory=list)


class Reality:
    """A bench that runs. `command` says what a robot is told, `advance` lets time pass, `sensed` is what it reports."""

    def __init__(self, bench: Bench, plant: Plant, thing: Instance | None, look: Look, effects: frozenset[str]) -> None:
        self.bench, self.plant, self.thing, self.effects = bench, plant, thing, effects
        cameras = {
            camera.name: camera_text(camera.name, camera.T_true, camera.fovy_true_rad) for camera in plant.cameras
        }
        self.xml = bench.scene_text(Values(plant.theta), look, thing, cameras, "table_flex" in effects)
        self.world = World(compile_text(self.xml, textures.assets()))
        assert self.world.actuators == bench.joints, "commands, joints and actuators share one order"
        self.dt = self.world.timestep_s
        self._q, self._v = self.world.joint_indices(bench.joints)
        self._slides = np.array([name in bench.grippers for name in bench.joints])
        self._channels()
        self._effects()

    def _channels(self) -> None:
        joints, nominal = self.bench.joints, self.bench.nominal_values

        def value(id: str) -> float:
            return self.plant.value(id, nominal.get(id, 0.0))

        self.offset = np.array([value(f"joint.{name}.offset") for name in joints])
        self.backlash = np.array([value(f"actuator.{name}.backlash") for name in joints])
        self.delay_s = value(f"actuator.{joints[0]}.delay")
        self.jitter_s = value(f"actuator.{joints[0]}.delay_jitter")
        self.gain = np.array([value(f"actuator.{name}.gain") for name in joints])
        self.limit = np.array([value(f"actuator.{name}.force_limit") for name in joints])
        self.quantum = np.array([value(f"sensor.{name}_position.quantum") for name in joints])
        kinds = ("position", "velocity", "torque")
        self.noise = np.array([[value(f"sensor.{name}_{kind}.noise") for name in joints] for kind in kinds])

    def _effects(self) -> None:
        plant, bench = self.plant.seed, self.bench
        hinges = np.flatnonzero(~self._slides)
        home = np.array([bench.home[name] for name in bench.joints])
        self.cable = (
            fx.draw_cable(plant, bench.name, hinges, home, self.limit) if "cable_drag" in self.effects else None
        )
        self.ripple = fx.draw_ripple(plant, bench.name, hinges, self.limit) if "gear_ripple" in self.effects else None
        soft = "gripper_compliance" in self.effects and bool(self._slides.any())
        self.soft = fx.GripperCompliance() if soft else None

    def reset(self, sensors: np.random.Generator, scene: np.random.Generator, start: np.ndarray | None = None) -> None:
        """A new episode: home pose (or `start`, in true joint angles), the object placed anew, everything at rest.

        `sensors` draws noise and jitter as time passes, `scene` where the object lies.
        """
        self.rng = sensors
        self.world.reset()
        rest = np.array([self.bench.home[name] for name in self.bench.joints]) if start is None else start
        self.world.qpos[self._q] = rest
        for arm in self.bench.arms:
            self.world.set_joint(f"{arm.joints[-1]}_mirror", rest[self.bench.joints.index(arm.joints[-1])])
        self.bench.place(self.world, self.thing, scene)
        self.world.forward()
        if self.cable is not None:
            self.cable.wound[:] = 0.0
        self.held = np.zeros(len(rest)) if self.bench.torque_driven else rest + self.offset + self.droop(rest)
        self.played, self.queue = self.held.copy(), list[tuple[float, np.ndarray]]()
        self.settle()

    def settle(self) -> None:
        """Lets everything come to rest, and begins the episode's time and log."""
        for _ in range(0 if self.bench.torque_driven else round(SETTLE_S / self.dt)):
            self._push()
            self.world.step()
        self.log, self.step = Log(), 0
        self._note()
        self._snap()

    def droop(self, q: np.ndarray) -> np.ndarray:
        """How far a servo must be told to lead so that gravity brings the joint to q."""
        scratch = World(self.world.model)
        scratch.qpos[:] = self.world.qpos
        scratch.qpos[self._q] = q
        scratch.forward()
        return np.where(self._slides, 0.0, scratch.bias_force()[self._v] / self.gain)

    def told(self, rows: np.ndarray) -> np.ndarray:
        """The commands that bring the true joints to these rows: encoder offset and gravity made up for."""
        scratch = World(self.world.model)
        scratch.qpos[:] = self.world.qpos
        commands = np.array(rows, dtype=np.float64)
        for row in commands:
            scratch.qpos[self._q] = row
            scratch.forward()
            row += np.where(self._slides, 0.0, self.offset + scratch.bias_force()[self._v] / self.gain)
        return commands

    @property
    def joint_places(self) -> np.ndarray:
        """Where the bench's joints lie in qpos."""
        return self._q

    @property
    def time_s(self) -> float:
        """Seconds since the episode began."""
        return self.step * self.dt

    def command(self, target: np.ndarray) -> None:
        """Sends a target (encoder angles, or torques); it arrives after the bus's delay."""
        target = np.array(target, dtype=np.float64)
        self.log.command_step.append(self.step)
        self.log.command.append(target)
        arrives = self.time_s + self.delay_s + float(self.rng.uniform()) * self.jitter_s
        self.queue.append((max(arrives, self.queue[-1][0] if self.queue else 0.0), target))

    def advance(self, steps: int) -> None:
        """Lets some physics steps pass, sensing as the robot's sensors do."""
        every = round(1 / (self.bench.sensor_hz * self.dt))
        for _ in range(steps):
            while self.queue and self.queue[0][0] <= self.time_s + 1e-9:
                self.held = self.queue.pop(0)[1]
            self._push()
            self.world.step()
            self.step += 1
            self._note(sense=self.step % every == 0)
        self._snap()

    def _push(self) -> None:
        """Sets controls and outside forces for one step."""
        world, half = self.world, self.backlash / 2
        if self.bench.torque_driven:
            world.ctrl[:] = self.held
        else:
            self.played = np.clip(self.played, self.held - half, self.held + half)
            world.ctrl[:] = self.played - self.offset  # the servo works on what its encoder says
        if not (self.cable or self.ripple or self.soft):
            return
        q, qd = world.qpos[self._q], world.qvel[self._v]
        torque = np.zeros(len(q))
        if self.cable is not None:
            torque += self.cable.torque(q, qd, self.dt)
        if self.ripple is not None:
            torque[self.ripple.joints] += self.ripple.torque(q[self.ripple.joints])
        if self.soft is not None:
            stiff = world.data.actuator_force[self._slides]
            torque[self._slides] += self.soft.felt(stiff, self.gain[self._slides]) - stiff
        world.data.qfrc_applied[self._v] = torque

    def _note(self, sense: bool = True) -> None:
        self.log.qpos.append(self.world.qpos.copy())
        if not sense:
            return
        position, velocity, torque = self._read()
        self.log.sensor_step.append(self.step)
        self.log.position.append(position)
        self.log.velocity.append(velocity)
        self.log.torque.append(torque)

    def _read(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Position, velocity and torque as the robot reports them."""
        q, force = self.world.qpos[self._q], self.world.actuator_force()
        reading = q + self.offset
        if self.ripple is not None:
            reading[self.ripple.joints] += self.ripple.reading(q[self.ripple.joints])
        if self.soft is not None:
            force[self._slides] = self.soft.felt(force[self._slides], self.gain[self._slides])
            reading[self._slides] += self.soft.reading(force[self._slides])
        noise = self.noise * self.rng.normal(size=(3, len(q)))
        step = np.where(self.quantum > 0, self.quantum, 1.0)
        reading = np.where(self.quantum > 0, np.round((reading + noise[0]) / step) * step, reading + noise[0])
        return reading, self.world.qvel[self._v] + noise[1], force + noise[2]

    @property
    def sensed(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The newest sample of position, velocity and torque."""
        return self.log.position[-1], self.log.velocity[-1], self.log.torque[-1]

    def _snap(self) -> None:
        world = self.world
        position, quat, held = np.zeros(3), np.array([1.0, 0, 0, 0]), tuple(False for _ in self.bench.arms)
        if world.has("body", OBJECT):
            pose = world.qpos[world.joint_slices(OBJECT)[0]]
            position, quat = pose[:3].copy(), pose[3:].copy()
            held = tuple(
                all(world.touching(f"{arm.prefix}{side}_finger", OBJECT) for side in ("left", "right"))
                for arm in self.bench.arms
            )
        opening = float(world.qpos[world.joint_slices("drawer")[0]][0]) if world.has("joint", "drawer") else 0.0
        self.log.snaps.append(Snap(self.time_s, position, quat, held, opening))
