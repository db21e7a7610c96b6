"""twinproof: recordings of a real robot in; a digital twin with honest uncertainty, a policy, and evidence, out."""

__version__ = "0.1.0"
