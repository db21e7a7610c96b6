"""The commands of evaluation: what is asked of policies, and what they do on a robot and in its twin."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tyro.conf import Positional

from twinproof import settings

if TYPE_CHECKING:
    from twinproof.evaluate.beliefs import Beliefs
    from twinproof.evaluate.deploy import Place
    from twinproof.evaluate.examine import Elsewhere
    from twinproof.nouns.panel import Panel as Frozen
    from twinproof.nouns.robot import Robot
    from twinproof.nouns.split import Split
    from twinproof.nouns.twin import Twin
    from twinproof.policies.safety import Safety
    from twinproof.tasks.machine import Machine
    from twinproof.tasks.task import TaskSpec


@dataclass(frozen=True)
class Panel:
    """Freeze an examination before it is sat: task, holdout episodes by id, worlds, trials, and what would decide.

    examples:
      twinproof panel split --twin twin --task reach --out panel
      twinproof panel split --twin twin --task push --domains real=4 twin=4 draws=40 nominal=4 --out panel
      twinproof panel split --twin twin --task reach --domains twin=10 draws=50 --out panel
      twinproof panel split --twin twin --task push --cameras front wrist --no-relative --out panel
      twinproof panel split --twin twin --task examples/own_task/hover.py --out panel

    Nothing of the holdout is read. The split's ledger gets a line. A panel without `real` needs no robot, and says of
    the transfer claim: not tested. One with it writes trial_sheet.csv: how each real trial begins, to be run anywhere.
    """

    split: Positional[Path]
    """A Split folder."""
    twin: Path
    """The Twin whose robot the task is for."""
    out: Path
    """The new Panel folder."""
    task: str = "reach"
    """reach, push, lift, drawer, handover, a file of your own, such as examples/own_task/hover.py, or a motion that
    `twinproof retarget` wrote. The panel keeps a copy of a file or motion."""
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
    """Where the robot's reset brings it, 'elbow=0.9'. Default: the twin's keyframe, or how calibration begins; of a
    motion, where it begins."""
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
    """NAME=FOLDER of each policy (or its served.toml or .onnx), NAME=expert for the task's script, or NAME=mppi for
    sampling MPC on the twin. The first is the one under test."""
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
    again: int = 20
    """Failed real trials of each policy, at most, that are played again under guesses to say what was wrong."""
    change: str | None = None
    """What changed since the holdout was last open, in a few words."""
    plots: Path | None = None
    """Where pictures of success, replays and the gap go: a new folder."""
    scenes: str | None = None
    """Scenes that episodes of the holdout were recorded in, by label: 'practice/scene_{object}.xml'. Their logged
    actions are replayed there; trials know the twin's scene alone."""
    lerobot: Path | None = None
    """Also write the trials as a LeRobot v3.0 dataset, pictures included, so that failures can be trained on."""
    lerobot_domain: str = "real"
    """Which domain's trials go there; a simulated one is then filmed by the panel's cameras, at every tick."""
    lerobot_policy: str = ""
    """Only this policy's trials; needed where policies see pictures of other names or sizes."""
    on: str = ""
    """Where simulated trials run: pool, pool:N, ray, ray://HOST:PORT, slurm (docs/scale.md). Same trials anywhere."""


def panel(config: Panel) -> int:
    """`twinproof panel`."""
    from twinproof.evaluate import report
    from twinproof.evaluate.command import home_of, keep_task, only_of, with_cameras
    from twinproof.evaluate.freeze import Design, domains_of, freeze
    from twinproof.evaluate.sheet import SHEET, trial_sheet
    from twinproof.nouns.errors import ConfigError
    from twinproof.nouns.files import new_folder
    from twinproof.nouns.split import Split
    from twinproof.nouns.twin import Twin
    from twinproof.tasks.named import task_named

    if config.out.exists():
        raise ConfigError(f"{config.out} exists. Nothing is overwritten: name another folder, or remove it.")
    split, twin = Split.load(config.split), Twin.load(config.twin)
    home = home_of(config.home, config.task, twin, split)
    task = task_named(config.task, twin, home=home, relative=config.relative)
    how = Design(
        domains_of(config.domains, config.reality),
        config.conditions,
        only_of(config.only),
        config.fits_below,
        config.covers_above,
        config.transfers_above,
        config.seed,
    )
    asked = with_cameras(task.panel_task(), twin, config.cameras, split)
    with new_folder(config.out) as scratch:
        frozen = freeze(asked, split, how, keep_task(config.task, scratch))
        frozen.write(scratch)
        sheet = trial_sheet(frozen, task)
        if sheet:
            (scratch / SHEET).write_text(sheet, encoding="utf-8")
    settings.save(settings.resolved(config, "panel"), config.out)
    report.panel(frozen, config.out)
    return 0


def evaluate(config: Evaluate) -> int:
    """`twinproof evaluate`."""
    from twinproof.cli_robot import place_of, robot_hash
    from twinproof.evaluate import report
    from twinproof.evaluate.cameras import pictures_in
    from twinproof.evaluate.command import contenders_of, home_of, task_name, task_of_panel
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
    from twinproof.nouns.trials import Trials
    from twinproof.nouns.twin import Twin
    from twinproof.sim.scenes_by_label import scenes_of
    from twinproof.tasks.experts import expert_by_name

    for path in (config.out, config.plots, config.lerobot):
        if path is not None and path.exists():
            raise ConfigError(f"{path} exists. Nothing is overwritten: name another folder, or remove it.")
    frozen, split, twin = Frozen.load(config.panel), Split.load(config.split), Twin.load(config.twin)
    name = task_name(frozen, config.panel)
    task = task_of_panel(frozen, name, twin, home_of(config.home, name, twin, split))
    script = expert_by_name(name, task)
    beliefs = _beliefs(config, twin)
    stated = next((domain.description for domain in frozen.domains if domain.kind == "real"), "")
    pictures = pictures_in(frozen.task.contract)
    own_task = frozen.task_files is not None
    safety = None if config.safety is None else _limits(config.safety, task.machine, twin)
    place = _kept_safe(config, place_of(config.robot, task, stated, twin, split, pictures, own_task), twin)
    logged = None if config.logged is None else Recording.load(config.logged)
    work = config.out.with_name(f".{config.out.name}.work")  # finished trials; gone when all are
    exam = Examination(
        frozen,
        split,
        task,
        beliefs,
        contenders_of(config.policy, task, script, beliefs.best),
        Store(work),
        _watched(config, place, task, beliefs, split),
        None if logged is None else logged_trials(logged, task, frozen),
        "" if config.logged is None else f"logged trials in {config.logged.name}",
        script,
        config.change,
        safety,
        None if not config.on else _elsewhere(config, work, frozen),
        config.again,
        robot_hash(config.robot) if logged is None else logged.hash,
        scenes_of(config.scenes, [condition.labels for condition in frozen.conditions]),
        _filmed(config, frozen),
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
        kept = trials_recording(Trials.load(config.out), task, config.lerobot_domain, config.lerobot_policy)
        write_lerobot(kept, config.lerobot, fps=round(task.contract.rate_hz))
        report.say(f"  {config.lerobot}: trials of {config.lerobot_domain!r} as a LeRobot dataset")
    return 0


def _elsewhere(config: Evaluate, work: Path, panel: Frozen) -> Elsewhere:
    """Workers of the place that --on names."""
    from twinproof.evaluate.spread_lots import Folders, elsewhere
    from twinproof.fleet.place import place_of
    from twinproof.nouns.store import Store

    named = {name: getattr(config, name) for name in Folders.__dataclass_fields__ if name != "filmed"}
    return elsewhere(Folders(**named, filmed=_filmed(config, panel)), Store(work), place_of(config.on, work))


def _filmed(config: Evaluate, panel: Frozen) -> tuple[str, ...]:
    """The simulated domains whose trials go out with pictures; a name that the panel does not have is refused."""
    from twinproof.nouns.errors import ConfigError

    if config.lerobot is None:
        return ()
    known = {"domain": [domain.name for domain in panel.domains]}
    known["policy"] = [text.partition("=")[0] for text in config.policy]
    for what, wanted in (("domain", config.lerobot_domain), ("policy", config.lerobot_policy)):
        if wanted and wanted not in known[what]:
            raise ConfigError(
                f"--lerobot-{what} {wanted!r}: there is no such {what}. Name one of {', '.join(known[what])}."
            )
    return (config.lerobot_domain,)


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

    by_torque = getattr(robot, "torque_driven", None)  # a driver does not say
    return read_safety(path, robot.joints, robot.limits, robot.rate_hz, Scene.of(twin), by_torque)


def _watched(config: Evaluate, place: Place | None, task: TaskSpec, beliefs: Beliefs, split: Split) -> Place | None:
    """The place with a monitor whose thresholds come from validation, where one was asked for."""
    from dataclasses import replace
    from functools import partial

    from twinproof.evaluate import report
    from twinproof.evaluate.foresight import Foresight, guard, measured_alarms, thresholds_of

    if place is None or not config.monitor:
        return place
    foresight = Foresight(task.machine, beliefs.best, task.machine.scene.driven(beliefs.drive))
    found = thresholds_of(foresight, split.parts()[1].recording.episodes)
    alarms = f"stops in at most {100 * found.stop_alpha:.0f} % of episodes where all is well"
    report.say(f"monitor: slow at {found.slow:.2f}, stop at {found.stop:.2f} usual errors; {alarms}")
    measure = partial(measured_alarms, foresight, found)
    return replace(place, watched=found.told(), measure=measure, watch=guard(foresight, found))
