"""Groups: episodes that share an object, a scene, a session, or a copy of one trajectory stay together."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from twinproof.nouns.errors import SplitError
from twinproof.nouns.recording import Recording
from twinproof.nouns.split import Alike

DEFAULT_KEYS = ("object", "scene", "session", "camera_path")


Labels = dict[str, dict[str, str]]  # episode id -> key -> value


def label_table(recording: Recording, keys: tuple[str, ...] | None) -> tuple[tuple[str, ...], Labels]:
    """The grouping keys, and every episode's value for each; an episode without one would be a hole in the fence."""
    known = sorted({key for episode in recording.episodes for key in episode.labels})
    if keys is None:
        keys = tuple(key for key in DEFAULT_KEYS if key in known)
        if not keys:
            raise SplitError(
                f"no episode is labelled with any of {', '.join(DEFAULT_KEYS)}, so nothing says which episodes belong "
                "together. Label them in rig.toml under [[labels]], name other labels with --group-by, or say "
                "--group-by none to hold only near-duplicates together."
            )
    for key in keys:
        missing = sorted(episode.source or episode.id for episode in recording.episodes if key not in episode.labels)
        if missing:
            shown = ", ".join(missing[:5]) + (f" and {len(missing) - 5} more" if len(missing) > 5 else "")
            have = f" The labels are {', '.join(known)}." if known else ""
            raise SplitError(
                f"{len(missing)} of {len(recording.episodes)} episodes have no {key!r}: {shown}.{have} Label them in "
                f"rig.toml under [[labels]], or leave {key!r} out of --group-by."
            )
    labels = {episode.id: {key: episode.labels[key] for key in keys} for episode in recording.episodes}
    return tuple(keys), labels


class Unions:
    """Sets that merge: which things hang together, directly or through others (union-find)."""

    def __init__(self, things: Iterable[str]) -> None:
        self._root = {thing: thing for thing in things}

    def root(self, thing: str) -> str:
        """One member that stands for the whole set."""
        while self._root[thing] != thing:
            self._root[thing] = self._root[self._root[thing]]
            thing = self._root[thing]
        return thing

    def merge(self, first: str, second: str) -> None:
        """Joins the sets of two things."""
        low, high = sorted((self.root(first), self.root(second)))
        self._root[high] = low


def groups_of(labels: Mapping[str, Mapping[str, str]], alike: Iterable[Alike]) -> list[tuple[str, ...]]:
    """Episodes that hang together by any label value or near-duplicate, each group sorted, in a fixed order."""
    unions = Unions(labels)
    first: dict[tuple[str, str], str] = {}
    for id in sorted(labels):
        for pair in labels[id].items():
            unions.merge(first.setdefault(pair, id), id)
    for found in alike:
        unions.merge(found.first, found.second)
    members: dict[str, list[str]] = {}
    for id in sorted(labels):
        members.setdefault(unions.root(id), []).append(id)
    return sorted(tuple(ids) for ids in members.values())


def require_three(groups: list[tuple[str, ...]], labels: Labels, alike: tuple[Alike, ...]) -> None:
    """Three parts need three groups; the error names what binds the most episodes."""
    if len(groups) >= 3:
        return
    counts: dict[tuple[str, str], int] = {}
    for values in labels.values():
        for pair in values.items():
            counts[pair] = counts.get(pair, 0) + 1
    total = len(labels)
    if counts and max(counts.values()) > 1:
        (key, value), most = max(sorted(counts.items()), key=lambda item: item[1])
        bound = f"{key} {value!r} binds {most} of {total} episodes"
        cure = (
            f"Record more values of {key!r}, or leave {key!r} out of --group-by ('none': no label binds) if sharing it "
            "is no leak"
        )
    elif alike:
        bound = f"{len(alike)} near-duplicate pairs bind the {total} episodes"
        cure = "Record other motions, or set a lower --threshold if they are no copies"
    else:
        bound = f"there are {total} episodes"
        cure = "Record more episodes"
    raise SplitError(
        f"the episodes form {len(groups)} group{'s' if len(groups) != 1 else ''}, and three parts need at least 3: "
        f"{bound}. {cure}; or cut long episodes into spans with --spans."
    )
