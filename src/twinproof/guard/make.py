"""Recording in, Split out: grouped, cut apart, and the holdout sealed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from twinproof.guard.assign import assign
from twinproof.guard.group import Labels, groups_of, label_table, require_three
from twinproof.guard.similar import Likeness, near_duplicates
from twinproof.guard.spans import cut_episodes
from twinproof.nouns.episode import Episode
from twinproof.nouns.errors import SplitError
from twinproof.nouns.files import new_folder, remove_tree
from twinproof.nouns.hashing import Json
from twinproof.nouns.parts import seal_holdout
from twinproof.nouns.progress import Progress, quiet
from twinproof.nouns.randomness import stream
from twinproof.nouns.recording import Recording, write_recording
from twinproof.nouns.split import PARTS, Span, Split
from twinproof.nouns.video_write import check_pictures


@dataclass(frozen=True)
class Grouping:
    """How a recording is split. `keys` None means every one of object, scene, session, camera_path that is labelled."""

    keys: tuple[str, ...] | None = None
    sizes: tuple[float, float, float] = (0.6, 0.2, 0.2)  # calibration, validation, holdout
    seed: int = 0
    duplicates: str = "group"  # near-duplicates: "group" keeps them in one part, "refuse" stops with both ids
    threshold: float = 3.0  # in noise floors; copies measure about 1, see guard/similar.py
    spans: bool = False  # cut every episode into three spans instead of sorting whole episodes
    gap_s: float = 1.0  # left out between two spans

    def __post_init__(self) -> None:
        if not (min(self.sizes) > 0 and abs(sum(self.sizes) - 1) <= 1e-6):
            raise SplitError(f"sizes are {list(self.sizes)}; three shares above 0 that add up to 1 are needed.")
        if self.duplicates not in ("group", "refuse"):
            raise SplitError(f"duplicates is {self.duplicates!r}. Use 'group' or 'refuse'.")
        if not 0 < self.threshold < float("inf"):
            raise SplitError(f"threshold is {self.threshold:g} noise floors; a number above 0 is needed, near 3.")
        if self.seed < 0:
            raise SplitError(f"seed is {self.seed}; a whole number from 0 on is needed.")
        if not 0 <= self.gap_s < float("inf"):
            raise SplitError(f"gap_s is {self.gap_s:g}; a time of 0 s or more is needed.")


@dataclass(frozen=True)
class _Plan:
    """Who goes where, before anything is written."""

    keys: tuple[str, ...]
    labels: Labels
    parts: Mapping[str, tuple[str, ...]]
    episodes: tuple[Episode, ...]
    spans: tuple[Span, ...] = ()


def make(recording: Recording, out: Path, how: Grouping, progress: Progress = quiet) -> Split:
    """Writes a split of the recording into a new folder. The same recording and settings give the same split.

    Calibration and Validation link the recording's video files; the holdout is an encrypted copy.
    """
    keys, labels = _labels(recording, how)
    with new_folder(out) as scratch:
        alike = near_duplicates(recording, how.threshold)
        _refuse_copies(recording, alike, how)
        workspace = scratch / ".cut"
        plan = _spans(recording, how, workspace) if how.spans else _whole(recording, how, keys, labels, alike)
        hashes = _write_parts(scratch, recording, plan, progress)
        made = Split(
            recording=recording.hash,
            keys=plan.keys,
            labels=plan.labels,
            calibration=plan.parts["calibration"],
            validation=plan.parts["validation"],
            holdout=plan.parts["holdout"],
            hashes=hashes,
            seed=how.seed,
            sizes=(float(how.sizes[0]), float(how.sizes[1]), float(how.sizes[2])),
            threshold=float(how.threshold),
            floor=alike.floor,
            alike=alike.pairs,
            spans=plan.spans,
            gap_s=float(how.gap_s) if how.spans else None,
        )
        remove_tree(workspace)
        made.save(scratch)
    return Split.load(out)


def _labels(recording: Recording, how: Grouping) -> tuple[tuple[str, ...], Labels]:
    """Keys and labels, refused before the long work begins."""
    if how.spans:
        if how.keys:
            raise SplitError(
                f"--group-by {','.join(how.keys)} and --spans exclude each other: the spans of one episode share its "
                "labels. Leave one of the two out."
            )
        return (), {}
    keys, labels = label_table(recording, how.keys)
    require_three(groups_of(labels, ()), labels, ())
    return keys, labels


def _refuse_copies(recording: Recording, alike: Likeness, how: Grouping) -> None:
    """Copies stop a split by request, and always where episodes are cut: a copy's span would land in another part."""
    if not alike.pairs or (how.duplicates == "group" and not how.spans):
        return
    names = {episode.id: episode.source or "?" for episode in recording.episodes}
    shown = "; ".join(
        f"{pair.first} ({names[pair.first]}) and {pair.second} ({names[pair.second]}), {pair.distance:.2g} floors"
        for pair in alike.pairs[:3]
    )
    cure = "Remove one of each" if how.spans else "Remove one of each, or keep them in one part with --duplicates group"
    raise SplitError(
        f"{len(alike.pairs)} pairs of episodes are alike to within {how.threshold:g} noise floors: {shown}. {cure}, or "
        "set a lower --threshold if they are no copies."
    )


def _whole(recording: Recording, how: Grouping, keys: tuple[str, ...], labels: Labels, alike: Likeness) -> _Plan:
    groups = groups_of(labels, alike.pairs)
    require_three(groups, labels, alike.pairs)
    parts = assign(groups, how.sizes, stream(how.seed, "guard", "assign"))
    return _Plan(keys, labels, parts, recording.episodes)


def _spans(recording: Recording, how: Grouping, workspace: Path) -> _Plan:
    """Spans of one episode share its labels by nature, so no key can group them: the gap is the fence."""
    ordered = sorted(recording.episodes, key=lambda episode: episode.id)
    made = cut_episodes((episode.fresh() for episode in ordered), how.sizes, how.gap_s, workspace)
    parts = {part: tuple(sorted(span.id for span, _ in made if span.part == part)) for part in PARTS}
    spans = tuple(sorted((span for span, _ in made), key=lambda span: (span.of, span.start_s)))
    return _Plan((), {span.id: {} for span in spans}, parts, tuple(episode for _, episode in made), spans)


def _write_parts(scratch: Path, recording: Recording, plan: _Plan, progress: Progress) -> dict[str, str]:
    """Cuts the parts apart on disk; part -> hash of its Recording. The plain holdout does not outlive this call."""
    origin = {name: recording.source[name] for name in ("kind", "name") if name in recording.source}
    by_id = {episode.id: episode for episode in plan.episodes}
    hashes = {}
    done = 0
    for part in PARTS:
        # By name in the source, so that the order in which episodes came leaves no trace.
        chosen = sorted((by_id[id] for id in plan.parts[part]), key=lambda episode: (episode.source, episode.id))
        source: dict[str, Json] = {"kind": "part", "part": part, "of": recording.hash, "source": origin}
        folder = scratch / ".cut" / "sealed" if part == "holdout" else scratch / part
        written = write_recording(folder, recording.rig, _checked(chosen), source)
        hashes[part] = written.hash
        done += len(chosen)
        progress(done, part, len(by_id))
        if part == "holdout":
            seal_holdout(scratch / "holdout", folder, written)
            remove_tree(folder)
    return hashes


def _checked(episodes: Iterable[Episode]) -> Iterable[Episode]:
    """Each episode, read anew and let go after it is written; its pictures are still those that its id names."""
    for episode in episodes:
        fresh = episode.fresh()
        for video in fresh.videos.values():
            check_pictures(video)
        yield fresh
