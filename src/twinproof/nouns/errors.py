"""The errors a user can cause: each says what was found, what was needed, where, and what to do."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


class TwinproofError(Exception):
    """The root of every error that is the input's fault and not ours."""


class RecordingError(TwinproofError):
    """A source, an episode, a signal or a video that breaks a law of Recording."""


class RigError(TwinproofError):
    """A rig.toml that cannot be read, or that does not fit its source."""


class SplitError(TwinproofError):
    """Groups that straddle parts, sizes that cannot be met, a seal that was handled wrongly."""


class LedgerError(TwinproofError):
    """A ledger whose chain does not hold."""


class ParameterError(TwinproofError):
    """A parameter id, a value, a limit or a source that cannot be."""


class TraceError(TwinproofError):
    """A trace or a trial that does not say what happened."""


class TwinError(TwinproofError):
    """A scene, a mesh, a splat file or a frame that breaks a law of Twin."""


class SplatError(TwinproofError):
    """Splats, or a file of splats, that break a law of Splats."""


class MeshError(TwinproofError):
    """A triangle mesh cannot be what it says."""


class SimError(TwinproofError):
    """A model, a parameter or a control that the simulator cannot take."""


class PosteriorError(TwinproofError):
    """Draws, weights or limits that break a law of Posterior."""


class RandomizationError(TwinproofError):
    """Ranges or correlations that break a law of Randomization."""


class TaskError(TwinproofError):
    """A task that a scene cannot have, or whose observations or rewards are no numbers."""


class PolicyError(TwinproofError):
    """A contract or weights that break a law of Policy, or an answer that nobody may act on.

    Of many worlds that were asked at once, `failed` says by number which got no answer and why; `given` are the actions
    (N, chunk, actions) of all others. Both are empty where the error concerns every world.
    """

    def __init__(self, text: str, failed: Mapping[int, str] | None = None, given: Any = None) -> None:
        super().__init__(text)
        self.failed, self.given = dict(failed or {}), given


class PanelError(TwinproofError):
    """A panel that is not fixed before its first trial."""


class EvidenceError(TwinproofError):
    """Evidence that lacks one of the things it must name."""


class StoreError(TwinproofError):
    """A folder or a store entry that is incomplete, changed or in the way."""


class FleetError(TwinproofError):
    """Work that was spread over workers and did not come back."""


class ConfigError(TwinproofError):
    """A setting that no command knows, or a value that does not fit."""


class RobotError(TwinproofError):
    """A command that a robot refuses, or a robot that is stopped or closed."""


class MissingExtra(TwinproofError):
    """A package of an extra is asked for and not installed."""
