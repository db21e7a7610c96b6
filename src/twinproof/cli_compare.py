"""The command of comparison: what differs between recordings of a robot and of its twin."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from tyro.conf import Positional

from twinproof import settings

if TYPE_CHECKING:
    from twinproof.evaluate.compare import Protocol
    from twinproof.nouns.recording import Recording


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
