"""The commands of evaluation: what differs between a robot and its twin, and what a policy does in both."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from tyro.conf import Positional

from twinproof import settings

if TYPE_CHECKING:
    from twinproof.evaluate.beliefs import Beliefs
    from twinproof.evaluate.compare import Protocol
    from twinproof.evaluate.deploy import Place
    from twinproof.evaluate.examine import Elsewhere
    from twinproof.nouns.recording import Recording
    from twinproof.nouns.robot import Robot
    from twinproof.nouns.split import Split
    from twinproof.nouns.twin import Twin
    from twinproof.policies.safety import Safety
    from twinproof.tasks.machine import Machine
    from twinproof.tasks.task import TaskSpec


@dataclass(frozen=True)
class Compare:
    """Compare recordings of a robot and of its twin: errors over time, their onset, events, timing; one page, one JSON.

    examples:
      twinproof compare real sim --rig rig.toml --out comparison
      twinproof compare real_dataset sim_dataset --rig rig.toml --sim-rig sim_rig.toml --out comparison
      twinproof compare real sim --rig rig.toml --pair-by trial --no-align --out comparison

    Weights and ranges of joints, arms, tips and the robot's model come from the rig (docs/compare.md).
    """

    real: Positional[Path]
    """A Recording folder of the robot, or a LeRobot dataset, bag or folder that the rig ingests."""
    sim: Positional[Path]
    """The same of the twin."""
    rig: Path
    """rig.toml: ranges, weights, arms; a [model] beside it gives the tips."""
    out: Path
    """The new folder: report.html, comparison.json, figures."""
    sim_rig: Path | None = None
    """The rig that ingests SIM, where it is no Recording and differs."""
    dh: Path | None = None
    """DH tables of the arms, TOML: used instead of a model, or compared with it."""
    pair_by: str | None = None
    """A label whose equal values make a pair, or "order". Default: task and start."""
    pair_labels: tuple[str, ...] = ("task", "behaviour", "object")
    """Labels that must agree where both episodes carry them."""
    start_share: float = 0.1
    """How far apart a pair may begin, in shares of the joints' ranges."""
    align: bool = True
    """Align the clocks of each pair by the motion of the joints."""
    max_offset_s: float = 1.0
    """The largest clock offset that is looked for."""
    rate_hz: float | None = None
    """The rate of the comparison. Default: the slower recording's."""
    max_gap_s: float = 0.2
    """Samples farther apart than this are not joined: there the error is not known."""
    max_warp_s: float = 0.5
    """How far time warping may shift a moment."""
    signals: tuple[str, ...] = ()
    """Where the joints' positions are, if several signals have them."""
    gripper_closed: Literal["low", "high"] = "low"
    """The end of the grippers' range at which they are shut."""
    stated_events: str = ""
    """A signal whose columns state events (grasp, left_grasp, …) instead of the rules."""
    camera: str | None = None
    """The camera whose frames are shown at the events. Default: the first that both have."""
    level: float = 0.95
    """The level of all intervals."""
    nan_is_missing: bool = False
    """When a source is ingested: NaN means "no reading"."""
    seed: int = 0
    """Decides what is drawn for the clocks' intervals."""


@dataclass(frozen=True)
class Panel:
    """Freeze an examination before it is sat: task, holdout episodes by id, worlds, trials, and what would decide.

    examples:
      twinproof panel split --twin twin --task reach --out panel
      twinproof panel split --twin twin --task push --domains real=4 twin=4 draws=40 nominal=4 --out panel
      twinproof panel split --twin twin --task reach --domains twin=10 draws=50 --out panel
      twinproof panel split --twin twin --task push --cameras front wrist --no-relative --out panel

    Nothing of the holdout is read. The split's ledger gets a line. A panel without `real` needs no robot, and says of
    the transfer claim: not tested.
    """

    split: Positional[Path]
    """A Split folder."""
    twin: Path
    """The Twin whose robot the task is for."""
    out: Path
    """The new Panel folder."""
    task: Literal["reach", "push", "lift", "drawer", "handover"] = "reach"
    """What is asked."""
    domains: tuple[str, ...] = ("real=4", "twin=4", "draws=20", "nominal=4")
    """Worlds and trials of each policy in each condition: real, twin (at its point), draws, nominal, rebuilt."""
    conditions: int | None = None
    """How many holdout episodes; all by default."""
    cameras: tuple[str, ...] = ()
    """Cameras whose pictures policies may see, by the rig's names: channels image.NAME."""
    only: tuple[str, ...] = ()
    """Holdout episodes with these values of the split's grouping keys, 'object=can_03'."""
    reality: str = ""
    """What the real domain is, in words."""
    fits_below: float = 0.05
    """The twin fits when the replay error's upper bound is below this."""
    covers_above: float = 0.8
    """The ranges cover when this share of validation lies inside."""
    transfers_above: float = 0.5
    """The policy transfers when the lower bound of its real success is above this."""
    home: tuple[str, ...] = ()
    """Where the robot's reset brings it, 'elbow=0.9'. Default: the twin's keyframe, or how calibration begins."""
    relative: bool = True
    """Actions move the last command, as `twinproof train` has it; --no-relative: they name the next one."""
    seed: int = 0
    """Decides conditions, their seeds and the order of trials."""


@dataclass(frozen=True)
class Evaluate:
    """Run a panel: policies in reality and in the twin, blind and paired; opens the holdout, once.

    examples:
      twinproof evaluate panel --split split --twin twin --posterior posterior --policy expert=expert \\
        --robot 'lab:pendulum?plant=0' --out trials
      twinproof evaluate panel --split split --twin twin --randomization ranges --policy ppo=policy base=other \\
        --robot my_driver.py --out trials
      twinproof evaluate panel --split split --twin twin --posterior posterior --policy ppo=policy --logged real \\
        --out trials

    A killed run goes on where it was. A second opening of the holdout has to say what changed (--change).
    """

    panel: Positional[Path]
    """A Panel folder."""
    split: Path
    """The Split that it was frozen on."""
    twin: Path
    """A Twin folder."""
    policy: tuple[str, ...]
    """NAME=FOLDER of each policy (or its served.toml or .onnx), or NAME=expert for the task's script. The first is the
    one under test."""
    out: Path
    """The new Trials folder."""
    posterior: Path | None = None
    """A Posterior folder: the twin's point, and draws."""
    randomization: Path | None = None
    """A Randomization folder: draws as training had them."""
    rebuilt: Path | None = None
    """A Twin made again with the holdout, for comparison only."""
    robot: str | None = None
    """'lab:BENCH?plant=0', or a Python file whose robot() gives a driver (docs/robot_interface.md)."""
    logged: Path | None = None
    """Instead of a robot: a Recording of real trials, labelled policy, condition and repeat."""
    monitor: bool = False
    """Watch every real trial: the twin foresees each tick, and slows or stops what it no longer explains."""
    safety: Path | None = None
    """Limits that are kept on the robot beside its own, and in the twin: a safety.toml (docs/policies.md)."""
    home: tuple[str, ...] = ()
    """As the panel was frozen with."""
    change: str | None = None
    """What changed since the holdout was last open, in a few words."""
    plots: Path | None = None
    """Where pictures of success, replays and the gap go: a new folder."""
    lerobot: Path | None = None
    """Also write the trials as a LeRobot v3.0 dataset, so that failures can be trained on."""
    lerobot_domain: str = "real"
    """Which domain's trials go there."""
    on: str = ""
    """Where simulated trials run: pool, pool:N, ray, ray://HOST:PORT, slurm (docs/scale.md). Same trials anywhere."""


def compare(config: Compare) -> int:
    """`twinproof compare`."""
    import tempfile

    from twinproof.evaluate import report
    from twinproof.evaluate.compare import compare as run
    from twinproof.evaluate.dh import read_dh
    from twinproof.evaluate.page import write_report
    from twinproof.evaluate.tips import tips_of
    from twinproof.nouns.errors import ConfigError
    from twinproof.nouns.progress import bar
    from twinproof.nouns.rig import read_rig

    if config.out.exists():
        raise ConfigError(f"{config.out} exists. Nothing is overwritten: name another folder, or remove it.")
    rig = read_rig(config.rig)
    how = _protocol(config)
    tips = tips_of(rig, config.rig.parent, read_dh(config.dh) if config.dh else None)
    with tempfile.TemporaryDirectory() as scratch, bar("compare") as progress:
        real = _recording(config.real, config.rig, Path(scratch) / "real", config)
        sim = _recording(config.sim, config.sim_rig or config.rig, Path(scratch) / "sim", config)
        told = write_report(run(real, sim, rig, tips, how, progress), config.out, config.camera)
    settings.save(settings.resolved(config, "compare"), config.out)
    report.comparison(told, config.out)
    return 0


def _protocol(config: Compare) -> Protocol:
    from twinproof.evaluate.clocks import Alignment
    from twinproof.evaluate.compare import Protocol
    from twinproof.evaluate.events import EventRules
    from twinproof.evaluate.pairing import Pairing

    return Protocol(
        Pairing(config.pair_by, config.pair_labels, config.start_share),
        Alignment(config.max_offset_s, config.level) if config.align else None,
        EventRules(closed_at=config.gripper_closed, stated=config.stated_events),
        rate_hz=config.rate_hz,
        max_gap_s=config.max_gap_s,
        max_warp_s=config.max_warp_s,
        level=config.level,
        signals=config.signals,
        seed=config.seed,
    )


def _recording(source: Path, rig: Path, scratch: Path, config: Compare) -> Recording:
    """A Recording as it is; any other source is ingested under the rig, and gone again at the end."""
    from twinproof.ingest.assemble import Tolerances
    from twinproof.ingest.read import ingest
    from twinproof.nouns.recording import Recording
    from twinproof.nouns.rig import read_rig

    if (source / "recording.json").is_file():
        return Recording.load(source)
    return ingest(source, read_rig(rig), scratch, Tolerances(config.nan_is_missing))


def panel(config: Panel) -> int:
    """`twinproof panel`."""
    from twinproof.evaluate import report
    from twinproof.evaluate.command import home_of, only_of, with_cameras
    from twinproof.evaluate.freeze import Design, domains_of, freeze
    from twinproof.nouns.errors import ConfigError
    from twinproof.nouns.split import Split
    from twinproof.nouns.twin import Twin
    from twinproof.tasks.named import task_named

    if config.out.exists():
        raise ConfigError(f"{config.out} exists. Nothing is overwritten: name another folder, or remove it.")
    split, twin = Split.load(config.split), Twin.load(config.twin)
    task = task_named(config.task, twin, home=home_of(config.home, twin, split), relative=config.relative)
    how = Design(
        domains_of(config.domains, config.reality),
        config.conditions,
        only_of(config.only),
        config.fits_below,
        config.covers_above,
        config.transfers_above,
        config.seed,
    )
    frozen = freeze(with_cameras(task.panel_task(), twin, config.cameras, split), split, how)
    frozen.save(config.out)
    settings.save(settings.resolved(config, "panel"), config.out)
    report.panel(frozen, config.out)
    return 0


def evaluate(config: Evaluate) -> int:
    """`twinproof evaluate`."""
    from twinproof.cli_robot import place_of
    from twinproof.evaluate import report
    from twinproof.evaluate.cameras import pictures_in
    from twinproof.evaluate.command import contenders_of, home_of, task_of_panel
    from twinproof.evaluate.examine import Examination, examine
    from twinproof.evaluate.figures_trials import draw_trials
    from twinproof.evaluate.logged import logged_trials
    from twinproof.evaluate.outgoing import trials_recording
    from twinproof.ingest.lerobot_write import write_lerobot
    from twinproof.nouns.errors import ConfigError
    from twinproof.nouns.files import remove_tree
    from twinproof.nouns.panel import Panel as Frozen
    from twinproof.nouns.progress import bar
    from twinproof.nouns.recording import Recording
    from twinproof.nouns.split import Split
    from twinproof.nouns.store import Store
    from twinproof.nouns.twin import Twin
    from twinproof.tasks.experts import expert_of

    for path in (config.out, config.plots, config.lerobot):
        if path is not None and path.exists():
            raise ConfigError(f"{path} exists. Nothing is overwritten: name another folder, or remove it.")
    frozen, split, twin = Frozen.load(config.panel), Split.load(config.split), Twin.load(config.twin)
    task = task_of_panel(frozen, twin, home_of(config.home, twin, split))
    beliefs = _beliefs(config, twin)
    stated = next((domain.description for domain in frozen.domains if domain.kind == "real"), "")
    pictures = pictures_in(frozen.task.contract)
    place = _kept_safe(config, place_of(config.robot, task, stated, twin, split, pictures), twin)
    work = config.out.with_name(f".{config.out.name}.work")  # finished trials; gone when all are
    exam = Examination(
        frozen,
        split,
        task,
        beliefs,
        contenders_of(config.policy, task),
        Store(work),
        _watched(config, place, task, beliefs, split),
        None if config.logged is None else logged_trials(Recording.load(config.logged), task, frozen),
        "" if config.logged is None else f"logged trials in {config.logged.name}",
        expert_of(task),
        config.change,
        None if config.safety is None else _limits(config.safety, task.machine, twin),
        None if not config.on else _elsewhere(config, work),
    )
    try:
        with bar("evaluate") as progress:
            found = examine(exam, progress, report.say)
    finally:
        if exam.place is not None:
            exam.place.robot.close()
    found.save(config.out)
    remove_tree(work)
    settings.save(settings.resolved(config, "evaluate"), config.out)
    report.trials(found, config.out)
    if config.plots is not None:
        for path in draw_trials(found, config.plots):
            report.say(f"  {path}")
    if config.lerobot is not None:
        write_lerobot(
            trials_recording(found, task, config.lerobot_domain), config.lerobot, fps=round(task.contract.rate_hz)
        )
        report.say(f"  {config.lerobot}: trials of {config.lerobot_domain!r} as a LeRobot dataset")
    return 0


def _elsewhere(config: Evaluate, work: Path) -> Elsewhere:
    """Workers of the place that --on names."""
    from twinproof.evaluate.spread_lots import Folders, elsewhere
    from twinproof.fleet.place import place_of
    from twinproof.nouns.store import Store

    named = (getattr(config, name) for name in Folders.__dataclass_fields__)
    return elsewhere(Folders(*named), Store(work), place_of(config.on, work))


def _beliefs(config: Evaluate, twin: Twin) -> Beliefs:
    """What is believed about the twin's worlds, from the folders that were named."""
    from twinproof.evaluate.beliefs import Beliefs
    from twinproof.nouns.posterior import Posterior
    from twinproof.nouns.randomization import Randomization
    from twinproof.nouns.twin import Twin

    return Beliefs(
        twin,
        None if config.posterior is None else Posterior.load(config.posterior),
        None if config.randomization is None else Randomization.load(config.randomization),
        None if config.rebuilt is None else Twin.load(config.rebuilt),
    )


def _kept_safe(config: Evaluate, place: Place | None, twin: Twin) -> Place | None:
    """The place with the limits of a safety.toml, where one was given."""
    from dataclasses import replace

    if config.safety is None or place is None:
        return place
    return replace(place, safety=_limits(config.safety, place.robot, twin))


def _limits(path: Path, robot: Robot | Machine, twin: Twin) -> Safety:
    """The limits of a safety.toml for a robot, or for the twin's."""
    from twinproof.policies.safety_file import read_safety
    from twinproof.sim.scene import Scene

    return read_safety(path, robot.joints, robot.limits, robot.rate_hz, Scene.of(twin))


def _watched(config: Evaluate, place: Place | None, task: TaskSpec, beliefs: Beliefs, split: Split) -> Place | None:
    """The place with a monitor whose thresholds come from validation, where one was asked for."""
    from dataclasses import replace

    from twinproof.evaluate import report
    from twinproof.evaluate.foresight import Foresight, guard, thresholds_of

    if place is None or not config.monitor:
        return place
    foresight = Foresight(task.machine, beliefs.best)
    found = thresholds_of(foresight, split.parts()[1].recording.episodes)
    alarms = f"stops in at most {100 * found.stop_alpha:.0f} % of episodes where all is well"
    report.say(f"monitor: slow at {found.slow:.2f}, stop at {found.stop:.2f} usual errors; {alarms}")
    return replace(place, watch=guard(foresight, found))
