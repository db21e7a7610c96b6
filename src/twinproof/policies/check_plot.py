"""What a policy would have done against what was done, one panel for each action."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from twinproof.policies.check import Checked

LOGGED, PREDICTED, LIMIT, SHOWN = "#222222", "#d1495b", "#8a8a8a", 60


def draw(found: Checked, out: Path, title: str) -> None:
    """Logged actions as a black line, each chunk as a red one that begins where it was asked."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    count = len(found.contract.actions)
    columns = 1 if count < 4 else 2
    rows = -(-count // columns)
    figure, axes = plt.subplots(rows, columns, figsize=(7.0 * columns, 1.9 * rows + 0.9), sharex=True, squeeze=False)
    for k, action in enumerate(found.contract.actions):
        axis = axes[k % rows, k // rows]
        axis.plot(found.time_s, found.logged[:, k], color=LOGGED, lw=1.4, label="logged", zorder=3)
        _chunks(axis, found, k)
        low, high = _window(found, k)
        for limit in (action.low, action.high):
            if limit is not None and low <= limit <= high:
                axis.axhline(limit, color=LIMIT, lw=0.9, ls="--")
        axis.set_ylim(low, high)
        axis.set_ylabel(f"{action.name}\n{action.unit}", fontsize=9)
        if found.agreement:
            each = found.agreement[k]
            told = f"RMSE {each.rmse:.3g} {action.unit} ({each.share:.1%} of range)"
            axis.set_title(told, fontsize=9, loc="right", color=PREDICTED)
        axis.grid(alpha=0.25)
    for axis in axes.ravel()[count:]:
        axis.set_visible(False)
    for column in range(columns):
        last = min(rows, count - column * rows) - 1
        axes[last, column].set_xlabel("time, s")
        axes[last, column].tick_params(labelbottom=True)
    figure.suptitle(title, fontsize=11, x=0.01, ha="left")
    figure.legend(*axes[0, 0].get_legend_handles_labels(), loc="upper right", fontsize=9, ncols=2, frameon=False)
    figure.tight_layout()
    figure.savefig(out, dpi=110)
    plt.close(figure)


def _chunks(axis: object, found: Checked, k: int) -> None:
    """The predictions: a line for policies that give one action, segments for chunks, not more than can be seen."""
    period_s, length = 1 / found.contract.rate_hz, found.chunks.shape[1]
    style = {"color": PREDICTED, "lw": 1.1, "alpha": 0.85}
    if length == 1:
        axis.plot(found.time_s[found.asked], found.chunks[:, 0, k], label="predicted", **style)  # type: ignore[attr-defined]
        return
    count = len(found.asked)
    for n, i in enumerate(np.linspace(0, count - 1, min(SHOWN, count)).round().astype(int)):
        when = found.time_s[found.asked[i]] + period_s * np.arange(length)
        label = "predicted chunks" if n == 0 else None
        axis.plot(when, found.chunks[i, :, k], marker="o", markevery=[0], ms=2.5, label=label, **style)  # type: ignore[attr-defined]


def _window(found: Checked, k: int) -> tuple[float, float]:
    """What the panel shows: everything that was logged or predicted, with a little room."""
    values = np.concatenate([found.logged[:, k], found.chunks[..., k].ravel()])
    low, high = float(values.min()), float(values.max())
    room = 0.08 * (high - low) or 0.05
    return low - room, high + room
