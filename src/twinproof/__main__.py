"""`python -m twinproof` is the command `twinproof`."""

from __future__ import annotations

from twinproof.cli import main

if __name__ == "__main__":
    main()
