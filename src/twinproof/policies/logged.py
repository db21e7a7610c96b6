"""A logged episode as a policy would have seen it: at its rate, only what had arrived by each tick, and what was done.

channel ─> --set value | --map source | the camera (NAME or image.NAME), signal or kind of that name | SIGNAL/COLUMN |
           time | last_command
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field

import numpy as np

from twinproof.nouns.episode import Episode
from twinproof.nouns.errors import PolicyError
from twinproof.nouns.policy import Channel, Contract
from twinproof.nouns.signal import Signal
from twinproof.nouns.video import Video

LAST_COMMAND, TIME = "last_command", "time"  # channels that no signal of that name need hold
OF_CAMERA = "image."


@dataclass(frozen=True)
class Sources:
    """Where channels come from that do not carry the name of a signal or camera, and which signal was the action."""

    maps: Mapping[str, str] = field(default_factory=dict)  # channel -> camera, SIGNAL or SIGNAL/COLUMN
    values: Mapping[str, tuple[float, ...]] = field(default_factory=dict)  # channel -> a value that was not recorded
    actions: str = ""  # the signal of the logged actions; found where there is one of kind joint_command
    relative: bool = False  # actions are steps from one command to the next


@dataclass(frozen=True, eq=False)
class Logged:
    """One episode at the contract's ticks. Pictures are read when asked for."""

    episode: str
    time_s: np.ndarray  # (T,)
    actions: np.ndarray  # (T, A): what was told to the robot at each tick
    told: tuple[str, ...]  # where each channel and the actions came from, in sentences
    rows: Mapping[str, np.ndarray]  # channel -> (T, *shape)
    videos: Mapping[str, Video] = field(default_factory=dict)  # channels that are pictures

    def observations(self, ticks: np.ndarray) -> Iterator[dict[str, np.ndarray]]:
        """What was seen at each of these ticks, {channel: (1, *shape)}; ticks in order, so that videos run forward."""
        with ExitStack() as open_videos:
            readers = {name: open_videos.enter_context(video.reader()) for name, video in self.videos.items()}
            for tick in ticks:
                seen = {name: rows[tick][None] for name, rows in self.rows.items()}
                for name, reader in readers.items():
                    arrived = np.searchsorted(reader.video.time_s, self.time_s[tick] + 1e-9, side="right")
                    seen[name] = reader.frame(int(arrived) - 1)[None]
                yield seen


def logged(contract: Contract, episode: Episode, sources: Sources) -> Logged:
    """The episode through the eyes of a contract; what cannot be found is an error with what there is."""
    named = {**sources.maps, **dict.fromkeys(sources.values, "")}
    unknown = sorted(set(named) - {channel.name for channel in contract.observations})
    if unknown:
        raise PolicyError(f"{', '.join(unknown)} were mapped or set, and the policy does not observe them.")
    action, order = _action_signal(contract, episode, sources)
    signals: dict[str, tuple[Signal, list[int]]] = {}
    videos: dict[str, Video] = {}
    told = [f"actions: {action.name}"]
    for channel in contract.observations:
        name = sources.maps.get(channel.name, channel.name)
        name = name.removeprefix(OF_CAMERA) if name.removeprefix(OF_CAMERA) in episode.videos else name
        if channel.name in sources.values or name == TIME:
            told.append(f"{channel.name}: {'the clock' if name == TIME else 'set'}")
        elif name in episode.videos:
            videos[channel.name] = _checked_video(channel, name, episode.videos[name])
            told.append(f"{channel.name}: camera {name}")
        else:
            signals[channel.name] = _signal(channel, name, episode, action)
            told.append(f"{channel.name}: {signals[channel.name][0].name}")
    time_s = _ticks(contract, [action, *(signal for signal, _ in signals.values())], videos, episode)
    commands = held(action, time_s)[:, order]
    before = np.concatenate([commands[:1], commands[:-1]])
    rows = {}
    for channel in contract.observations:
        if channel.name in signals:
            signal, columns = signals[channel.name]
            last = channel.name == LAST_COMMAND and signal is action
            value = before if last else held(signal, time_s)[:, columns]
        elif channel.name in sources.values:
            value = np.tile(sources.values[channel.name], (len(time_s), 1))
        elif channel.name not in videos:
            value = (time_s - time_s[0])[:, None]
        else:
            continue
        if value.shape[1] != int(np.prod(channel.shape)):
            raise PolicyError(f"{channel.name!r} was set to {value.shape[1]} numbers; its shape is {channel.shape}.")
        rows[channel.name] = value.reshape(len(time_s), *channel.shape)
    actions = commands - before if sources.relative else commands
    return Logged(episode.id, time_s, actions, tuple(told), rows, videos)


def held(signal: Signal, time_s: np.ndarray) -> np.ndarray:
    """The newest measured row at or before each time; of what was missing, the one before."""
    rows = np.empty((len(time_s), len(signal.columns)))
    for k in range(len(signal.columns)):
        there = slice(None) if signal.missing is None else ~signal.missing[:, k]
        when, value = signal.time_s[there], signal.value[there, k]
        if not len(when):
            raise PolicyError(f"{signal.name}/{signal.columns[k].name} has no measured value in this episode.")
        rows[:, k] = value[np.maximum(np.searchsorted(when, time_s + 1e-9, side="right") - 1, 0)]
    return rows


def _ticks(contract: Contract, signals: list[Signal], videos: Mapping[str, Video], episode: Episode) -> np.ndarray:
    spans = [(float(s.time_s[0]), float(s.time_s[-1])) for s in signals]
    spans += [(float(v.time_s[0]), float(v.time_s[-1])) for v in videos.values()]
    first, last = max(a for a, _ in spans), min(b for _, b in spans)
    if last - first < 2 / contract.rate_hz:
        raise PolicyError(
            f"what the policy needs of episode {episode.id[:12]} is there together from {first:.2f} to {last:.2f} s "
            f"only; at {contract.rate_hz:g} Hz that is no episode. Choose another one."
        )
    return first + np.arange(int((last - first) * contract.rate_hz + 1e-9) + 1) / contract.rate_hz


def _checked_video(channel: Channel, camera: str, video: Video) -> Video:
    shape = (video.height, video.width, 3)
    if channel.shape != shape or video.pixels != "rgb":
        raise PolicyError(
            f"camera {camera!r} gives {video.pixels} pictures of shape {shape}; the policy observes {channel.name!r} "
            f"as {channel.shape}. State the camera's own shape; a server's picture is resized by its map."
        )
    return video


def _signal(channel: Channel, name: str, episode: Episode, action: Signal) -> tuple[Signal, list[int]]:
    """The signal of a channel and its columns."""
    width = int(np.prod(channel.shape))
    base, _, column = name.partition("/")
    if base in episode.signals:
        signal = episode.signals[base]
    elif name == LAST_COMMAND:
        signal = action
    else:
        kind = episode.of_kind(name)
        if len(kind) != 1:
            raise PolicyError(
                f"nothing in episode {episode.id[:12]} is called {name!r}, which the policy observes as "
                f"{channel.name!r}. It has the signals {', '.join(sorted(episode.signals))} and the cameras "
                f"{', '.join(sorted(episode.videos)) or 'none'}. Give --map {channel.name}=NAME, "
                f"--set {channel.name}=1,2 or, for a policy of twinproof train, --twin TWIN --task TASK."
            )
        signal = kind[0]
    names = [entry.name for entry in signal.columns]
    if column:
        if column not in names:
            raise PolicyError(f"the signal {base!r} has no column {column!r}. It has {', '.join(names)}.")
        return signal, [names.index(column)]
    if len(names) != width:
        raise PolicyError(
            f"the signal {signal.name!r} has {len(names)} columns ({', '.join(names)}); the policy observes "
            f"{channel.name!r} with {width} numbers. Name one column as SIGNAL/COLUMN, or change the contract."
        )
    return signal, list(range(width))


def _action_signal(contract: Contract, episode: Episode, sources: Sources) -> tuple[Signal, list[int]]:
    """The signal of logged actions, and its columns in the contract's order."""
    if sources.actions:
        found = [episode.signals[sources.actions]] if sources.actions in episode.signals else []
    else:
        found = list(episode.of_kind("joint_command"))
    wanted = [action.name for action in contract.actions]
    for signal in found:
        names = [column.name for column in signal.columns]
        if set(wanted) <= set(names):
            return signal, [names.index(name) for name in wanted]
    if len(found) == 1 and len(found[0].columns) == len(wanted):
        return found[0], list(range(len(wanted)))
    have = "; ".join(f"{s.name}: {', '.join(c.name for c in s.columns)}" for s in found) or "none"
    raise PolicyError(
        f"no logged signal holds the policy's actions {', '.join(wanted)}. Commands in episode {episode.id[:12]}: "
        f"{have}. Name the signal with --actions, with one column for each action."
    )
