"""What a bench is: a robot, a task, a nominal model, and how its reality is built and judged."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING

import numpy as np

from twinproof.lab.effects import EFFECTS
from twinproof.lab.hidden import Plant, View, draw_plant
from twinproof.lab.models.arm import Placed
from twinproof.lab.models.room import NOMINAL_LOOK, Look
from twinproof.lab.models.text import Values, camera_text, numbers
from twinproof.lab.population import Instance, mean_instance

if TYPE_CHECKING:
    from twinproof.lab.motion import Planner, Style
    from twinproof.nouns.trace import Event
    from twinproof.sim.world import World


@dataclass(frozen=True)
class Snap:
    """What happened at one control tick, as only the scoring may know it."""

    time_s: float
    object_m: np.ndarray  # position; zeros where there is none
    object_quat: np.ndarray
    held: tuple[bool, ...]  # for each arm: both fingers touch the object
    opening_m: float  # of the drawer


class Bench(ABC):
    """A practice set-up. Names and rates are what the recording shows; everything random comes in as a generator."""

    name: str
    robot: str
    rate_hz: int  # of commands, and of the robot interface
    sensor_hz: int
    camera_hz: int
    arms: tuple[Placed, ...] = ()
    families: tuple[str, ...] = ()  # of objects
    behaviours: tuple[str, ...]  # in the order that a recording cycles through
    tasks: Mapping[str, str]  # behaviour -> the sentence in the dataset
    goals: Mapping[str, int] = MappingProxyType({})  # behaviours judged by a goal -> how many of its numbers count
    effects: tuple[str, ...] = EFFECTS  # those that can show on it
    phases: tuple[str, ...] = ()  # what operators call the parts of an episode
    views: tuple[View, ...] = ()
    home: Mapping[str, float]
    torque_driven: bool = False

    @property
    def joints(self) -> tuple[str, ...]:
        """Driven joints in the order of commands and readings; each has an actuator of its name."""
        return tuple(name for arm in self.arms for name in arm.joints)

    @property
    def grippers(self) -> tuple[str, ...]:
        """The driven joints that slide."""
        return tuple(arm.joints[-1] for arm in self.arms)

    @property
    def units(self) -> tuple[str, ...]:
        """Unit of each joint's position."""
        return tuple("m" if name in self.grippers else "rad" for name in self.joints)

    def sensor_text(self) -> str:
        """Sensors of every driven joint: NAME_position, NAME_velocity, NAME_torque."""
        kinds = (("jointpos", "position"), ("jointvel", "velocity"), ("jointactuatorfrc", "torque"))
        lines = [f'<{tag} name="{joint}_{what}" joint="{joint}"/>' for tag, what in kinds for joint in self.joints]
        return "\n    ".join(lines)

    @abstractmethod
    def scene_text(
        self, values: Values, look: Look, thing: Instance | None, cameras: Mapping[str, str], flex: bool
    ) -> str:
        """The MJCF of robot, room and object; `cameras` are camera elements by name."""

    @abstractmethod
    def robot_text(self) -> str:
        """The MJCF of the robot alone, as its maker hands it out."""

    @abstractmethod
    def place(self, world: World, thing: Instance | None, rng: np.random.Generator) -> None:
        """Puts the object where an episode begins."""

    def start(self, behaviour: str, rng: np.random.Generator) -> np.ndarray | None:
        """True joint angles at which an episode begins; None is home."""
        return None

    @abstractmethod
    def plan(self, behaviour: str, planner: Planner, style: Style, rng: np.random.Generator) -> None:
        """Fills the planner with the commands of one episode."""

    @abstractmethod
    def succeeded(self, behaviour: str, snaps: list[Snap], goal: np.ndarray | None) -> bool:
        """Whether an episode did what it was to do."""

    def events(self, snaps: list[Snap]) -> tuple[Event, ...]:
        """What happened, in order; none where a bench has no events."""
        return ()

    @cached_property
    def nominal_values(self) -> dict[str, float]:
        """Nominal value of every parameter that a model text has."""
        values = Values()
        self.scene_text(values, NOMINAL_LOOK, self._mean(), {view.name: "" for view in self.views}, False)
        return dict(values.nominal)

    def nominal_scene(self, thing: Instance | None, plant: Plant) -> str:
        """The scene as the user believes it: nominal values, cameras where the rig says they are."""
        cameras = {
            camera.name: camera_text(camera.name, camera.T_stated, camera.fovy_stated_rad) for camera in plant.cameras
        }
        return self._with_home(self.scene_text(Values(), NOMINAL_LOOK, thing or self._mean(), cameras, False))

    def _with_home(self, xml: str) -> str:
        """The model with a keyframe "home", which says where an arm begins; what hangs from its zero has none."""
        from twinproof.lab.models import textures
        from twinproof.sim.world import World, compile_text

        if not self.arms:
            return xml
        world = World(compile_text(xml, textures.assets()))
        for name, value in self.home.items():
            world.set_joint(name, value)
        for arm in self.arms:
            world.set_joint(f"{arm.joints[-1]}_mirror", self.home[arm.joints[-1]])
        key = f'  <keyframe>\n    <key name="home" qpos="{numbers(*world.qpos)}"/>\n  </keyframe>\n'
        return xml.replace("</mujoco>", f"{key}</mujoco>")

    def plant(self, seed: int) -> Plant:
        """The robot and cameras of this number."""
        servos = () if self.torque_driven else tuple(name for name in self.joints if name not in self.grippers)
        return draw_plant(self.name, seed, self.nominal_values, servos, self.grippers, self.views)

    def _mean(self) -> Instance | None:
        return mean_instance(self.families[0]) if self.families else None
