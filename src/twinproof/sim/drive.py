"""A drive made into a force law: what a posterior adopted of motors and missing torques, at work in worlds."""

from __future__ import annotations

from twinproof.nouns.drive import NETWORK, RESIDUAL, Drive
from twinproof.nouns.errors import PosteriorError
from twinproof.nouns.strict import build
from twinproof.sim.actuator_law import Actuator, ActuatorLaw
from twinproof.sim.actuator_net import ActuatorNet
from twinproof.sim.law import Chain, Law
from twinproof.sim.residual_law import ResidualDynamics


def law_of(drive: Drive) -> Law:
    """The law; friction that drifts stays at its mean, so that a world depends on nothing but its own Theta and state.

    A residual model sees the commands before motors make anything of them, as it did when it was learned.
    """
    laws: list[Law] = []
    if drive.residual:
        laws.append(ResidualDynamics.unpacked(drive.residual, drive.part(RESIDUAL)))
    if drive.network:
        laws.append(ActuatorNet.unpacked(drive.network, drive.part(NETWORK)))
    if drive.motors:
        where = "the drive's motor"
        motors = {
            name: build(Actuator, told, f"{where} {name!r}", PosteriorError) for name, told in drive.motors.items()
        }
        laws.append(ActuatorLaw(motors))
    return Chain(tuple(laws))
