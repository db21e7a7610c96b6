"""Why a trial failed: one fixed list of labels, used everywhere."""

from __future__ import annotations

from enum import StrEnum

from twinproof.nouns.errors import TraceError


class Failure(StrEnum):
    """The label of a failed trial; its value is what the label means, its `label` is what files hold."""

    RECONSTRUCTION = "scan, mesh simplification or calibration is off beyond its stated tolerance"
    CONTACT = "a contact parameter is wrong"
    RESIDUAL_RANGE = "the real value lies outside the randomised range"
    PHYSICS = "an effect that the simulator does not model"
    PERCEPTION = "the observation is wrong, the state is right"
    POLICY = "state and observation are right, the action is not"
    EMBODIMENT = "the robot does not do what was commanded"
    UNDECIDED = "the trace does not tell"

    @property
    def label(self) -> str:
        """The short name, as it stands in tables and panels."""
        return self.name.lower()

    @staticmethod
    def of(label: str) -> Failure:
        """The failure with this short name."""
        for failure in Failure:
            if failure.label == label:
                return failure
        raise TraceError(f"{label!r} is no failure label. Use one of {', '.join(LABELS)}.")


LABELS = tuple(failure.label for failure in Failure)
