"""The commands of identification: what explains the recordings, and which experiment tells more."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from tyro.conf import Positional

from twinproof import settings


@dataclass(frozen=True)
class Identify:
    """Find masses, frictions, dampings, delays from calibration episodes: a Posterior, and what they cannot tell.

    examples:
      twinproof identify twin split --parameters 'joint.*.damping' 'body.arm.mass' 'actuator.*.delay' --out posterior
      twinproof identify twin split --parameters 'body.cube.mass' --prior 'body.cube.mass=0.37+-0.01' --out posterior
      twinproof identify twin split --parameters 'object.cube.friction' --fit cloud --out posterior
      twinproof identify twin split --parameters 'body.object.mass' --differ 'body.object.mass=object' --out posterior
      twinproof identify twin split --parameters 'joint.*.damping' --method svgd --plots plots --out posterior
      twinproof identify twin split --parameters 'joint.*.damping' --actuators --residual --out posterior

    A killed run that is started again with the same settings does not repeat finished stages, starts, steps of a cloud,
    simulations, draws and models of motors that were tried; particles of svgd begin again.
    """

    twin: Positional[Path]
    """A Twin folder."""
    split: Positional[Path]
    """A Split folder. Calibration is fitted, validation tests the bands, the holdout stays sealed."""
    parameters: tuple[str, ...]
    """Ids or patterns (docs/parameters.md): 'joint.*.damping', 'object.cube.friction', 'signal.NAME.delay'."""
    out: Path
    """The new Posterior folder."""
    prior: tuple[str, ...] = ()
    """What is known: a range 'PATTERN=LOW..HIGH', or a value with its sd 'PATTERN=MEAN+-SD'. Default: a wide range."""
    differ: tuple[str, ...] = ()
    """Parameters that differ between objects or episodes: 'body.object.mass=object', 'joint.*.offset=episode'."""
    scenes: str | None = None
    """Other scenes for other objects, by label: 'practice/scene_{object}.xml'."""
    fix: tuple[str, ...] = ()
    """Known values that are not fitted: 'actuator.elbow.delay=0.012'."""
    method: Literal["laplace", "bootstrap", "svgd", "mdn", "npe"] = "laplace"
    """How the posterior is drawn. laplace is the fast default; mdn and npe need the extras learn and sbi."""
    fit: Literal["steps", "cloud"] = "steps"
    """How the best values are found: steps for smooth motion, cloud for tosses and tumbling."""
    horizons: str | None = None
    """Window lengths in s: stages apart by ';', lengths fitted at once by ','. Default: '0.15; 0.6; 0.15', or with
    --fit cloud '0.11, inf'. 'inf' is a whole episode."""
    free_starts: bool | None = None
    """Whether the joints' state at a window's start is unknown too: by default it is. Servos with good encoders can do
    without, many times faster."""
    starts: int = 1
    """Where the fit begins: the nominal values, and so many scattered points less one."""
    seed: int = 0
    """Decides everything that is drawn."""
    plots: Path | None = None
    """A new folder for pictures: fits, pairs, prior and posterior, weak directions, spectra, coverage."""
    actuators: bool = False
    """Try models of the motors (friction, deadband, saturation, slack, drift; from measured torques gain and delay too,
    and a history network where these leave structure). What helps on validation goes into the Posterior, and later
    stages use it."""
    residual: bool = False
    """Try a learned correction of joint torques, silent where calibration never was; used only if it helps on
    validation."""
    calibration_check: int = 0
    """Simulate so many recordings under draws of the posterior, fit each again, and say whether the draws' ranks are
    even: is the method honest about recordings like these? Each costs a fit's last stage and the method's draws."""
    on: str = ""
    """Where --starts are fitted: pool, pool:N, ray, ray://HOST:PORT, slurm (docs/scale.md). Same numbers anywhere."""


@dataclass(frozen=True)
class Excite:
    """Design the next experiment: a motion within limits that tells most about named parameters, and by how much.

    examples:
      twinproof excite twin posterior --parameters 'joint.*.damping' --split split --out trajectory.json
      twinproof excite twin posterior --seconds 20 --criterion E --speed elbow=1.5 --limit 'elbow=-1..1' --out t.json
      twinproof excite --scene scene.xml --parameters 'joint.*.damping' --out trajectory.json

    The trajectory is played through the robot interface (docs/robot_interface.md).
    """

    artifacts: Positional[tuple[Path, ...]]
    """A Twin folder and a Posterior folder: what is known today. Or --scene instead of both."""
    out: Path
    """The new trajectory file, JSON."""
    parameters: tuple[str, ...] = ()
    """Ids or patterns of the parameters that the experiment is for; all of the posterior's by default."""
    scene: Path | None = None
    """A scene instead of a twin: nothing is known yet but ranges."""
    prior: tuple[str, ...] = ()
    """With --scene: what is known, 'PATTERN=LOW..HIGH' or 'PATTERN=MEAN+-SD'."""
    split: Path | None = None
    """A Split whose calibration shows what the robot measures, how well, and where it begins."""
    seconds: float = 10.0
    """How long."""
    rate_hz: float | None = None
    """Commands a second: by default as many as the split's robot takes, or 50 without --split."""
    criterion: Literal["D", "E"] = "D"
    """Shrink the volume of what stays unknown (D), or its longest axis (E)."""
    joints: tuple[str, ...] = ()
    """Joints that may move; all driven ones by default."""
    speed: tuple[str, ...] = ()
    """Largest speeds, 'elbow=1.5' in rad/s or m/s."""
    limit: tuple[str, ...] = ()
    """Narrower ranges, 'elbow=-1..1' in rad or m."""
    home: tuple[str, ...] = ()
    """Where it begins and ends, 'elbow=0.3'."""
    torque_share: float = 0.8
    """Share of the motors' torque that may be used."""
    clearance_m: float = 0.02
    """How near the robot may come to itself and to anything else."""
    candidates: int = 48
    """Random motions that the search begins with."""
    seed: int = 0
    """Decides the search."""


def identify(config: Identify) -> int:
    """`twinproof identify`."""
    from twinproof.identify import command, report

    with command.bars() as progress:
        found = command.run(command.Asked(**vars(config)), progress)
    settings.save(settings.resolved(config, "identify"), config.out)
    report.posterior(found, config.out)
    return 0


def excite(config: Excite) -> int:
    """`twinproof excite`."""
    from twinproof.identify import excite_command
    from twinproof.nouns.progress import bar

    with bar("excite") as progress:
        found = excite_command.run(excite_command.Asked(**vars(config)), progress)
    excite_command.report(found, config.out)
    return 0
