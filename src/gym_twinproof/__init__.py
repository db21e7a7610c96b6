"""A twin as an environment for other people's trainers: importing this makes its ids known to gymnasium.

gymnasium.make("gym_twinproof/task-v0", twin="twin", task="reach")         observations by the contract's channels
gymnasium.make("gym_twinproof/lerobot-v0", twin="twin", task="reach")      observations by LeRobot's names

The package has the name that LeRobot looks for: it imports gym_TYPE and makes gym_TYPE/TASK (docs/export.md).
"""

from __future__ import annotations

from twinproof.nouns.errors import MissingExtra

try:
    import gymnasium as _found
except ImportError:
    raise MissingExtra(
        "gym_twinproof stands on gymnasium, which is not installed. Install it: pip install 'twinproof[learn]'."
    ) from None

from twinproof.train.gym import ID, TaskEnv, TaskVectorEnv, register
from twinproof.train.gym_lerobot import LEROBOT_ID, LeRobotEnv, make_env

__all__ = ["ID", "LEROBOT_ID", "LeRobotEnv", "TaskEnv", "TaskVectorEnv", "make_env", "register"]
assert _found
register()
