"""One vocabulary of physical parameters: identified, randomised and perturbed under the same ids."""

from twinproof.sim.parameters.base import Parameter
from twinproof.sim.parameters.resolve import matching, nominal_value, parameter, vocabulary

__all__ = ["Parameter", "matching", "nominal_value", "parameter", "vocabulary"]
