"""Damage to files, drawn by hypothesis."""

from __future__ import annotations

from pathlib import Path

from hypothesis import strategies as st


def damage_one_file(data: st.DataObject, root: Path) -> Path:
    """Cuts one file below a folder short, or flips bits of one of its bytes; says which file it was."""
    victim = data.draw(st.sampled_from(sorted(path for path in root.rglob("*") if path.is_file())))
    content = bytearray(victim.read_bytes())
    at = data.draw(st.integers(0, len(content) - 1))
    if data.draw(st.booleans()):
        content = content[:at]
    else:
        content[at] ^= data.draw(st.integers(1, 255))
    victim.write_bytes(bytes(content))
    return victim
