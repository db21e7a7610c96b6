"""Makes a spec nominal: everything has a name, and nothing in it waits to be derived from something else."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from twinproof.nouns.errors import SimError

if TYPE_CHECKING:
    from mujoco import MjModel, MjSpec


def name_all(spec: MjSpec) -> None:
    """Gives every nameless thing a name: body3, cube_geom0, elbow_motor0 … Only named things can be parameters."""
    _name(spec.bodies[1:], lambda thing, k: f"body{k}")
    for kind, things in (
        ("geom", spec.geoms),
        ("joint", spec.joints),
        ("camera", spec.cameras),
        ("light", spec.lights),
    ):
        _name(things, lambda thing, k, kind=kind: f"{thing.parent.name}_{kind}{k}")
    for kind, things in (("actuator", spec.actuators), ("sensor", spec.sensors), ("pair", spec.pairs)):
        _name(things, lambda thing, k, kind=kind: f"{kind}{k}")


def _name(things: Iterable[Any], made: Any) -> None:
    things = list(things)
    taken = {thing.name for thing in things}
    for thing in things:
        if not thing.name:
            thing.name = next(name for k in range(len(things) + len(taken)) if (name := made(thing, k)) not in taken)
            taken.add(thing.name)


def reserve_history(spec: MjSpec, control_s: float, sensor_s: float) -> None:
    """Room in the state for delays up to this long. A delay of zero then behaves as if there were no history."""
    for things, longest in ((spec.actuators, control_s), (spec.sensors, sensor_s)):
        steps = math.ceil(longest / spec.option.timestep - 1e-9)
        for thing in things:
            thing.nsample = max(thing.nsample, steps)


def settle(spec: MjSpec, built: MjModel) -> None:
    """Fixes at the values of the compiled model what the compiler would otherwise derive anew."""
    _settle_inertias(spec, built)
    for joint in spec.joints:
        if joint.springdamper[0] > 0 and joint.springdamper[1] > 0:
            found = built.joint(joint.name)
            joint.stiffness[0], joint.damping[0] = found.stiffness[0], found.damping[0]
            joint.springdamper = (0, 0)
    for actuator in spec.actuators:
        _settle_actuator(actuator, built.actuator(actuator.name))
    for camera in spec.cameras:
        found = built.camera(camera.name)
        _settle_frame(camera, found.pos)
        _settle_turn(camera, found.quat)
        if built.cam_sensorsize[found.id, 1] > 0:  # a lens in pixels and the same in metres are rounded differently
            lens = built.cam_intrinsic[found.id]
            camera.focal_pixel = camera.principal_pixel = (0, 0)
            camera.focal_length, camera.principal_length = lens[:2], lens[2:]
    for light in spec.lights:
        found = built.light(light.name)
        _settle_frame(light, found.pos)
        light.dir = found.dir


def _settle_inertias(spec: MjSpec, built: MjModel) -> None:
    """Compiler settings that change masses after they were written are obeyed once, and then switched off."""
    import mujoco

    compiler, always = spec.compiler, mujoco.mjtInertiaFromGeom.mjINERTIAFROMGEOM_TRUE
    if compiler.alignfree or any(joint.align == mujoco.mjtAlignFree.mjALIGNFREE_TRUE for joint in spec.joints):
        raise SimError(
            "the model aligns the frames of free bodies with their inertia, so frames would move with every parameter. "
            "Remove alignfree and align, and place the geoms around the centre of mass."
        )
    bounded = compiler.settotalmass > 0 or compiler.boundmass > 0 or compiler.boundinertia > 0
    if not (bounded or compiler.balanceinertia or compiler.inertiafromgeom == always):
        return
    for body in spec.bodies[1:]:
        if built.body(body.name).mass[0] > 0:
            freeze_inertia(body, built)
    compiler.settotalmass, compiler.boundmass, compiler.boundinertia, compiler.balanceinertia = -1, 0, 0, False
    compiler.inertiafromgeom = mujoco.mjtInertiaFromGeom.mjINERTIAFROMGEOM_AUTO


def freeze_inertia(body: Any, built: MjModel) -> None:
    """States a body's inertia explicitly, as it is in a compiled model; else its geoms would win in silence."""
    import mujoco

    found = built.body(body.name)
    body.explicitinertial = True
    body.mass, body.inertia, body.ipos, body.iquat = found.mass[0], found.inertia, found.ipos, found.iquat
    body.fullinertia = (np.nan, 0, 0, 0, 0, 0)
    body.ialt.type = mujoco.mjtOrientation.mjORIENTATION_QUAT


def strip(spec: MjSpec, built: MjModel) -> None:
    """Takes out what physics never looks at, once every inertia is stated: geoms that touch nothing, lights, cameras.

    What a sensor, a tendon or a pair names stays.
    """
    for body in spec.bodies[1:]:
        if built.body(body.name).mass[0] > 0:
            freeze_inertia(body, built)
    named = {sensor.objname for sensor in spec.sensors} | {sensor.refname for sensor in spec.sensors}
    named |= {name for pair in spec.pairs for name in (pair.geomname1, pair.geomname2)}
    wrapped = {int(built.wrap_objid[k]) for k in range(built.nwrap)} if built.nwrap else set[int]()
    for geom in list(spec.geoms):
        found = built.geom(geom.name)
        touches = found.contype[0] or found.conaffinity[0]
        fluid = bool(np.any(built.geom_fluid[found.id]))
        if not (touches or fluid or geom.name in named or found.id in wrapped):
            spec.delete(geom)
    for thing in [*spec.lights, *spec.cameras]:
        if thing.name not in named:
            spec.delete(thing)


def _settle_actuator(actuator: Any, found: Any) -> None:
    if actuator.inheritrange > 0:
        actuator.inheritrange = 0
        actuator.ctrlrange, actuator.actrange = found.ctrlrange, found.actrange
    actuator.biasprm, actuator.gainprm = found.biasprm, found.gainprm  # a damping ratio became a velocity gain
    actuator.lengthrange = found.lengthrange


def _settle_frame(thing: Any, position: np.ndarray) -> None:
    if thing.frame is not None:
        thing.set_frame(thing.parent.add_frame())
    thing.pos = position


def _settle_turn(camera: Any, quaternion: np.ndarray) -> None:
    import mujoco

    camera.alt.type = mujoco.mjtOrientation.mjORIENTATION_QUAT
    camera.quat = quaternion
