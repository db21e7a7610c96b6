"""The trial sheet of a panel: how each real trial begins, so that somebody can run it anywhere and log it."""

from __future__ import annotations

import csv
import io

from twinproof.evaluate.deploy import begins
from twinproof.nouns.panel import Panel
from twinproof.tasks.task import TaskSpec

SHEET = "trial_sheet.csv"


def trial_sheet(panel: Panel, task: TaskSpec) -> str:
    """CSV: a row for each condition and repeat of the real domains, the same for every policy; empty without one.

    Goal and object are in the frame of the scene, as the task has them; every driven joint begins at the robot's home.
    """
    cells = [cell for cell in panel.cells(["any"]) if cell.domain.kind == "real"]
    if not cells:
        return ""
    setups = [begins(task, cell) for cell in cells]
    units = {channel.name: channel.unit for channel in task.contract.observations}
    told = f" ({units['goal']})" if "goal" in units else ""
    goals = [f"goal_{k}{told}" for k in range(max(len(setup.goal) for setup in setups))]
    labels = sorted({name for cell in cells for name in cell.condition.labels})
    sliding = {
        name: unit in ("m", "N") for name, unit in zip(task.machine.joints, task.machine.command_units, strict=True)
    }
    joints = [f"{name} ({'m' if slides else 'rad'})" for name, slides in sliding.items()]
    loose = sorted({name for setup in setups for name in setup.joints})
    place = ["object_x (m)", "object_y (m)", "object_yaw (rad)"] if task.place else []
    text = io.StringIO()
    rows = csv.writer(text, lineterminator="\n")
    rows.writerow(["condition", "repeat", *labels, *goals, *place, *joints, *loose])
    for cell, setup in zip(cells, setups, strict=True):
        at = [] if not place else [*(setup.at_m or ("", "")), setup.yaw_rad]
        stated = (cell.condition.labels.get(name, "") for name in labels)
        begin = (*task.machine.home.tolist(), *(setup.joints.get(name, "") for name in loose))
        rows.writerow([cell.condition.name, cell.repeat, *stated, *setup.goal, *at, *begin])
    return text.getvalue()
