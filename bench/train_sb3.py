"""Stable-Baselines3 at the same reach: one MuJoCo world for each environment, as people write them for gymnasium.

Same model, physics steps, observations, reward, ends, starts and parameter draws as ours. To its favour: setups and
models of all draws are made before the clock starts, poses are read as MuJoCo leaves them (a physics step behind), and
an end by success is bootstrapped like one by time, as in ours.
"""

from __future__ import annotations

import os
import resource
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gymnasium
import mujoco
import numpy as np
import torch
from bench.arm_and_cube import SUBSTEPS
from bench.train_scene import DRAWS, HIDDEN, reach_task, scene, thetas

from twinproof.nouns.randomness import stream
from twinproof.sim.instantiate import poke_model
from twinproof.sim.untimed import stop_clocks

MODELS = 8  # of the draws, for each environment: as many models in memory


@dataclass(frozen=True)
class Settings:
    """Of its PPO, named as ours are."""

    batch: int = 4096  # samples between two updates
    minibatches: int = 4
    epochs: int = 5
    learning_rate: float = 1e-3
    discount: float = 0.98
    trace: float = 0.95
    clip: float = 0.2
    spread: float = 0.6
    threads: int = 1  # of torch


PLAIN = Settings()  # those of ours
QUICK = Settings(batch=2048, discount=0.95, spread=1.0)  # of what train_sweep.py tried, the fewest CPU-seconds


class Reach(gymnasium.Env):  # type: ignore[misc]
    """One arm."""

    def __init__(self, index: int) -> None:
        task = reach_task()
        nominal = scene().leaner().nominal()
        chosen = stream(index, "sb3", "models").permutation(DRAWS)[:MODELS]
        drawn = thetas(DRAWS)
        self.models = [poke_model(nominal, drawn[k]) for k in chosen]
        self.data = mujoco.MjData(nominal)
        self.rng = stream(index, "sb3", "episodes")
        self.setups = [task.draw(self.rng) for _ in range(64)]
        joints = [nominal.joint(name).id for name in task.machine.joints]
        self.at, self.dof = nominal.jnt_qposadr[joints], nominal.jnt_dofadr[joints]
        self.places = {name: int(nominal.jnt_qposadr[nominal.joint(name).id]) for name in task.machine.joints}
        self.start = task.machine.qpos(task.machine.home)
        self.low, self.high = np.array(task.machine.limits.low), np.array(task.machine.limits.high)
        self.most = np.array([c.high for c in task.contract.actions])
        self.noise = np.r_[np.full(6, 0.001), 0, 0], np.r_[np.full(6, 0.01), 0, 0]  # of the model's sensors
        self.hand, self.ticks, self.stay = nominal.body("hand").id, task.ticks, round(0.3 * task.contract.rate_hz)
        self.observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (33,), np.float32)
        self.action_space = gymnasium.spaces.Box(-1, 1, (8,), np.float32)

    def _observe(self) -> np.ndarray:
        data, normal = self.data, self.rng.standard_normal(16)
        tip = data.xpos[self.hand]
        position = data.qpos[self.at] + self.noise[0] * normal[:8]
        velocity = data.qvel[self.dof] + self.noise[1] * normal[8:]
        return np.concatenate([position, velocity, self.last, tip, self.goal, self.goal - tip]).astype(np.float32)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[np.ndarray, dict[str, Any]]:
        self.model = self.models[self.rng.integers(MODELS)]
        setup = self.setups[self.rng.integers(len(self.setups))]
        mujoco.mj_resetData(self.model, self.data)
        self.data.qpos[:] = self.start
        for name, value in setup.joints.items():
            self.data.qpos[self.places[name]] = value
        self.goal, self.last = np.array(setup.goal), self.data.qpos[self.at].copy()
        self.tick = self.near = 0
        mujoco.mj_forward(self.model, self.data)
        return self._observe(), {}

    def step(self, action: np.ndarray) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        told = np.minimum(np.maximum(self.last + self.most * np.clip(action, -1, 1), self.low), self.high)
        self.data.ctrl[:] = told
        mujoco.mj_step(self.model, self.data, SUBSTEPS)
        moved, self.last = told - self.last, told
        off = float(np.linalg.norm(self.data.xpos[self.hand] - self.goal))
        self.tick, self.near = self.tick + 1, self.near + 1 if off < 0.02 else 0
        reward = -off + np.exp(-((off / 0.05) ** 2)) + (off < 0.02) - 0.05 * float(moved @ moved) / 0.125**2
        success = self.near >= self.stay
        return self._observe(), float(reward), False, success or self.tick >= self.ticks, {"is_success": success}


def vector(kind: str, workers: int, discount: float) -> Any:
    """Environments in this process (Dummy) or in one process each (Subproc), with normalised observations, rewards."""
    from stable_baselines3.common.vec_env import DummyVecEnv, SubprocVecEnv, VecMonitor, VecNormalize

    make = [lambda index=index: Reach(index) for index in range(workers)]
    inner = DummyVecEnv(make) if kind == "Dummy" else SubprocVecEnv(make, start_method="fork")
    return VecNormalize(VecMonitor(inner, info_keywords=("is_success",)), gamma=discount)


def learner(env: Any, seed: int, settings: Settings) -> Any:
    from stable_baselines3 import PPO

    torch.set_num_threads(settings.threads)
    return PPO(
        "MlpPolicy",
        env,
        n_steps=settings.batch // env.num_envs,
        batch_size=settings.batch // settings.minibatches,
        n_epochs=settings.epochs,
        learning_rate=settings.learning_rate,
        gamma=settings.discount,
        gae_lambda=settings.trace,
        clip_range=settings.clip,
        seed=seed,
        device="cpu",
        stats_window_size=400,
        policy_kwargs={
            "net_arch": {"pi": list(HIDDEN), "vf": list(HIDDEN)},
            "activation_fn": torch.nn.ELU,
            "log_std_init": float(np.log(settings.spread)),
        },
    )


def cpu_s(env: Any) -> float:
    """CPU seconds of this process and of the workers."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    inner = env.venv.venv
    pids = [process.pid for process in getattr(inner, "processes", ())]
    stats = [Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split() for pid in pids]
    ticks = os.sysconf("SC_CLK_TCK")
    return used.ru_utime + used.ru_stime + sum(int(stat[11]) + int(stat[12]) for stat in stats) / ticks


@contextmanager
def clocked(wanted: bool) -> Iterator[None]:
    """MuJoCo as its package leaves it, reading the clock at every step; or without, as twinproof has it."""
    if wanted:
        mujoco.set_mjcb_time(None)  # puts the package's own clock back
    try:
        yield
    finally:
        stop_clocks.cache_clear()
        stop_clocks()


def train(
    kind: str,
    workers: int,
    seed: int,
    done: Callable[[int, float, float | None], bool],
    settings: Settings = PLAIN,
    clock: bool = True,
) -> dict[str, float]:
    """Trains until `done(steps, cpu seconds, success of the newest episodes)`, asked after every rollout."""
    scene().nominal()  # compiling takes the clock out: what comes after decides
    with clocked(clock):
        return _train(kind, workers, seed, done, settings)


def _train(
    kind: str, workers: int, seed: int, done: Callable[[int, float, float | None], bool], settings: Settings
) -> dict[str, float]:
    from stable_baselines3.common.callbacks import BaseCallback

    env = vector(kind, workers, settings.discount)
    model = learner(env, seed, settings)
    begun, wall, found = cpu_s(env), time.perf_counter(), {}

    class Watch(BaseCallback):  # type: ignore[misc]
        stopped = False

        def _on_step(self) -> bool:
            return not self.stopped

        def _on_rollout_start(self) -> None:
            ended = [episode["is_success"] for episode in self.model.ep_info_buffer]
            success = float(np.mean(ended)) if len(ended) >= 200 else None
            used = cpu_s(env) - begun
            found.update(
                steps=self.num_timesteps, cpu_s=used, wall_s=time.perf_counter() - wall, success=success or 0.0
            )
            self.stopped = done(self.num_timesteps, used, success)

    model.learn(10**9, callback=Watch())
    env.close()
    return found
