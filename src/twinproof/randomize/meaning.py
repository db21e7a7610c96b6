"""What a parameter's id means to people: the gap it covers, the real variable, the check, and who draws it.

Light and shadows exist on meshes alone, as a splat's light is baked into its colours; exposure, colours and sensor
noise are changed on finished pictures, of meshes and splats alike.
"""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import NamedTuple

from scipy.special import ndtri

from twinproof.nouns.errors import RandomizationError
from twinproof.nouns.randomization import Gap, Range
from twinproof.nouns.source import Source
from twinproof.sim.parameters.base import Parameter

MESHES = "drawn on meshes alone: light and shadows are baked into splats"
PICTURES = "changed on the finished picture, of meshes and splats alike"
BOTH = "drawn for meshes and splats alike"

PREDICTIVE = "posterior predictive of the recorded signals on validation episodes"
LOOKS = "success under the panel's conditions with other light and background"
NOISE = "noise that validation readings show by themselves"
STARTS = "starts of validation episodes"
OUTLINES = "outlines of the robot in pictures that calibrated nothing"
SIZES = "gap between visual and collision surface; outlines in held-out views"


class Meaning(NamedTuple):
    """What an id stands for."""

    gap: Gap
    approximates: str
    check: str
    drawn_by: str = ""  # which renderer shows it, where one does


# pattern of ids -> gap, real variable ({} is the thing's name), check, renderer; the first that fits holds
TABLE: tuple[tuple[str, Gap, str, str, str], ...] = (
    ("body.*.mass", "dynamics", "mass of {}", PREDICTIVE, ""),
    ("body.*.com_?", "dynamics", "where {} balances", PREDICTIVE, ""),
    ("body.*.inertia_*", "dynamics", "how the mass of {} is spread", PREDICTIVE, ""),
    ("body.*.push", "dynamics", "pushes on {} by people, cables and drafts", "success under pushes in the panel", ""),
    ("body.*.start_*", "initial", "where {} stands when an episode begins", STARTS, ""),
    ("*.friction_slide", "dynamics", "friction between {} and what it slides on", PREDICTIVE, ""),
    ("*.friction_torsion", "dynamics", "friction of {} when it turns on the spot", PREDICTIVE, ""),
    ("*.friction_roll", "dynamics", "resistance of {} when it rolls", PREDICTIVE, ""),
    ("*.contact_*", "dynamics", "softness of what {} touches", PREDICTIVE, ""),
    ("*.restitution", "dynamics", "how {} bounces", PREDICTIVE, ""),
    ("body.*.[xyz]", "geometry", "where {} is put up", SIZES, ""),
    ("body.*.scale", "geometry", "size of {}", SIZES, ""),
    ("geom.*.scale", "geometry", "size of {}", SIZES, ""),
    ("mesh.*.scale", "geometry", "size of {}", SIZES, ""),
    ("material.*.texture", "visual", "pattern of the surface {}", LOOKS, MESHES),
    ("material.*.texrepeat_?", "visual", "scale of the pattern of {}", LOOKS, MESHES),
    ("material.*", "visual", "colour and gloss of {}", LOOKS, MESHES),
    ("geom.*", "visual", "colour of {}", LOOKS, MESHES),
    ("joint.*.damping", "dynamics", "viscous friction in the joint {}", PREDICTIVE, ""),
    ("joint.*.frictionloss", "dynamics", "dry friction in the joint {}", PREDICTIVE, ""),
    ("joint.*.armature", "dynamics", "inertia of the rotor that drives {}", PREDICTIVE, ""),
    ("joint.*.stiffness", "dynamics", "spring in the joint {}", PREDICTIVE, ""),
    ("joint.*.range_offset", "geometry", "where the joint {} ends", PREDICTIVE, ""),
    ("joint.*.offset", "sensor", "zero of the encoder of {}", PREDICTIVE, ""),
    ("joint.*_noise", "sensor", "noise of what the joint {} reports", NOISE, ""),
    ("joint.*.start", "initial", "where the joint {} stands when an episode begins", STARTS, ""),
    ("actuator.*.delay", "dynamics", "time from a command to the force of {}", PREDICTIVE, ""),
    ("actuator.*.delay_jitter", "dynamics", "how that time varies for {}", PREDICTIVE, ""),
    ("actuator.*.backlash", "dynamics", "play in the gears of {}", PREDICTIVE, ""),
    ("actuator.*.noise", "dynamics", "how unsteadily {} follows its commands", PREDICTIVE, ""),
    ("actuator.*", "dynamics", "strength and control of the motor {}", PREDICTIVE, ""),
    ("camera.*.[xyz]", "camera", "position of the camera {}", OUTLINES, BOTH),
    ("camera.*.pitch", "camera", "orientation of the camera {}", OUTLINES, BOTH),
    ("camera.*.yaw", "camera", "orientation of the camera {}", OUTLINES, BOTH),
    ("camera.*.roll", "camera", "orientation of the camera {}", OUTLINES, BOTH),
    ("camera.*", "camera", "field of view of the camera {}", OUTLINES, BOTH),
    ("light.*.softness", "visual", "softness of the shadows of {}", LOOKS, MESHES),
    ("light.*", "visual", "strength and place of the light {}", LOOKS, MESHES),
    ("sensor.*.delay", "sensor", "how late {} reports", PREDICTIVE, ""),
    ("sensor.*", "sensor", "noise and bias of {}", NOISE, ""),
    ("gravity.*", "dynamics", "how level the base stands", PREDICTIVE, ""),
    ("signal.*.delay", "sensor", "how late the stamps of {} are", PREDICTIVE, ""),
    ("signal.*", "sensor", "the frame of {} against the world's", PREDICTIVE, ""),
    ("image.noise", "sensor", "noise of the picture sensor", LOOKS, PICTURES),
    ("image.blur", "sensor", "focus and motion blur", LOOKS, PICTURES),
    ("image.dropout", "sensor", "parts of pictures that are lost on the way", LOOKS, PICTURES),
    ("image.latency", "sensor", "time from exposure to use", "clock offsets of the cameras on calibration", ""),
    ("image.brightness", "visual", "light intensity and exposure", LOOKS, PICTURES),
    ("image.temperature", "visual", "colour temperature of the light", LOOKS, PICTURES),
    ("image.*", "visual", "how the camera renders colours", LOOKS, PICTURES),
    ("depth.*", "sensor", "noise and holes of the depth camera", NOISE, PICTURES),
    ("proprioception.*", "sensor", "how late and how often joints report", NOISE, ""),
    ("tracker.*", "sensor", "error of the object tracker", NOISE, ""),
)


def meaning(id: str) -> Meaning:
    """The meaning of a parameter's id."""
    kind, _, rest = id.partition(".")
    name = rest.rpartition(".")[0] or kind
    for pattern, gap, real, check, drawn_by in TABLE:
        if fnmatchcase(id, pattern):
            return Meaning(gap, real.format(name), check, drawn_by)
    raise RandomizationError(f"{id}: nobody has said which gap this parameter covers. Add it to randomize/meaning.py.")


def sentence(why: str, id: str) -> str:
    """A reason for people: the real variable, why it is in doubt, and the renderer that shows it where one does."""
    about = meaning(id)
    told = f"{about.approximates}: {why}"
    return f"{told}; {about.drawn_by}" if about.drawn_by else told


def meant_range(each: Parameter, values: tuple[float, float, float], source: Source, why: str) -> Range:
    """A parameter's range (low, high, point) with what its id means."""
    about = meaning(each.id)
    return Range(each.info, *values, source, about.gap, about.approximates, about.check, sentence(why, each.id))


def sds_of(share: float) -> float:
    """Standard deviations to either side that hold a share of a normal variable."""
    return float(ndtri(0.5 + min(share, 0.9999) / 2))
