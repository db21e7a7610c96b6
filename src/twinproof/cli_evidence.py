"""The commands of evidence: assemble it, sign it, verify it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tyro.conf import Positional

from twinproof.nouns.errors import ConfigError


@dataclass(frozen=True)
class Evidence:
    """Assemble Evidence: everything a stranger needs to check what is claimed, and a report that people can read.

    examples:
      twinproof evidence --recording recording --split split --twin twin --posterior posterior \\
          --randomization ranges --panel panel --trials trials --policy ppo=policy --out evidence
      twinproof evidence … --policy ppo=policy scripted=baseline --pictures pictures --out evidence

    The first policy is judged, the others are compared with it. Open evidence/report.html.
    """

    recording: Path
    """The Recording folder that was split."""
    split: Path
    """The Split folder, with its ledger."""
    twin: Path
    """The Twin folder."""
    posterior: Path
    """The Posterior folder."""
    randomization: Path
    """The Randomization folder; its coverage.json is the result of the range-miss test."""
    panel: Path
    """The Panel folder, fixed before the first trial."""
    trials: Path
    """The Trials folder that evaluate wrote."""
    policy: tuple[str, ...]
    """NAME=FOLDER of each policy, as the trials name them; NAME=expert for a scripted one and NAME=mppi for a
    planner, which have no folder."""
    out: Path
    """The new Evidence folder."""
    coverage: Path | None = None
    """The result of the range-miss test, where it lies elsewhere."""
    pictures: Path | None = None
    """A folder of pictures for the report (docs/evidence.md says how to name them)."""
    draw: bool = True
    """Draw pictures from the twin's splats and its calibration episodes, where no folder of pictures is given."""
    scene: Path | None = None
    """A self-contained HTML page with the scene in three dimensions, for the report."""


@dataclass(frozen=True)
class Sign:
    """Sign Evidence: an in-toto statement over every file, in a DSSE envelope, with an Ed25519 key.

    examples:
      twinproof sign evidence --key my.key --new-key     makes my.key and my.key.pub first
      twinproof sign evidence --key my.key

    Keep the key; give my.key.pub to whoever wants to verify.
    """

    evidence: Positional[Path]
    """An Evidence folder."""
    key: Path
    """The private key, PEM."""
    new_key: bool = False
    """Make the key first, and its public half beside it."""


@dataclass(frozen=True)
class Verify:
    """Verify signed Evidence: the key signed it, and every file is as it was. Exit code 1 where that is not so.

    examples:
      twinproof verify evidence --key my.key.pub

    `twinproof audit evidence` says whether what was signed holds together.
    """

    evidence: Positional[Path]
    """An Evidence folder."""
    key: Path
    """The public key, PEM."""


def evidence(config: Evidence) -> int:
    """`twinproof evidence`."""
    assembled(config)
    told(config.out)
    return 0


def told(folder: Path) -> None:
    """Prints the three claims of the evidence in a folder, with the numbers that decide, and where its report is."""
    from twinproof.evidence import report
    from twinproof.nouns.evidence import Evidence as Noun

    report.evidence(Noun.load(folder), folder)


def assembled(config: Evidence) -> int:
    """`twinproof evidence` without a word: a run tells the claims at its very end."""
    from twinproof.evidence.assemble import assemble
    from twinproof.evidence.gather import Folders, gather
    from twinproof.evidence.pictures import illustrated

    named = ("recording", "split", "twin", "posterior", "randomization", "panel", "trials", "coverage", "pictures")
    folders = Folders(**{name: getattr(config, name) for name in named}, policies=policies_of(config.policy))
    scene = None if config.scene is None else config.scene.read_text(encoding="utf-8")
    found = gather(folders)
    assemble(illustrated(found) if config.draw else found, scene).save(config.out)
    return 0


def sign(config: Sign) -> int:
    """`twinproof sign`."""
    from twinproof.evidence import report, sign

    if config.new_key:
        report.say(f"{sign.new_key(config.key)}: the public half, for whoever wants to verify")
    id = sign.sign(config.evidence, config.key)
    report.say(f"{config.evidence / sign.ENVELOPE}: signed with the key {id[:16]}")
    return 0


def verify(config: Verify) -> int:
    """`twinproof verify`."""
    from twinproof.evidence import report, sign

    told = sign.verify(config.evidence, config.key)
    files, hash = len(told["subject"]), told["predicate"]["evidence"]
    report.say(f"{config.evidence}: signed with this key; all {files} files are as they were (evidence {hash[:16]})")
    return 0


def policies_of(texts: Sequence[str]) -> dict[str, Path | None]:
    """NAME=FOLDER texts as a mapping; a scripted expert and a planner, NAME=expert and NAME=mppi, have none."""
    found: dict[str, Path | None] = {}
    for text in texts:
        name, sign, folder = text.partition("=")
        if not (sign and name and folder) or name in found:
            raise ConfigError(
                f"--policy {text!r} cannot be read, or stands twice. Write NAME=FOLDER, as in 'ppo=policy'."
            )
        found[name] = None if folder in ("expert", "mppi") else Path(folder)
    return found
