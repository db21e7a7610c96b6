"""A small, whole example of every noun, for tests."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np

from twinproof.nouns.belief import Discrepancy, Population, Prior
from twinproof.nouns.evidence import Claim, Estimate, Evidence, Fit, Input
from twinproof.nouns.failure import Failure
from twinproof.nouns.ledger import LedgerHead
from twinproof.nouns.panel import Condition, Criterion, Domain, Metric, Panel, Task
from twinproof.nouns.policy import Channel, Contract, Policy, Scale
from twinproof.nouns.posterior import Posterior
from twinproof.nouns.randomization import Randomization, Range
from twinproof.nouns.randomness import stream
from twinproof.nouns.rig import Intrinsics, Mount
from twinproof.nouns.signal import Column, Signal
from twinproof.nouns.source import Declared, Inferred, Measured
from twinproof.nouns.theta import ParameterInfo, Theta
from twinproof.nouns.trace import Event, Trace
from twinproof.nouns.trial import Trial
from twinproof.nouns.trials import Trials
from twinproof.nouns.twin import Alignment, Body, CollisionPart, Twin, TwinCamera

MASS = ParameterInfo("body.cube.mass", "kg", 0.01, 10.0, log=True)
FRICTION = ParameterInfo("geom.cube.friction", "1", 0.0, 2.0)
HEAD = LedgerHead(3, "ab" * 32)
PARENTS = {"split": "5" * 64, "twin": "7" * 64}


def of(kind, /, defaults: dict, changes: dict):
    return kind(**{**defaults, **changes})


# ---- twin

CORNERS = np.array([(x, y, z) for x in (0, 1) for y in (0, 1) for z in (0, 1)], dtype=float)
FACES = np.array(
    [(0, 1, 3), (0, 3, 2), (4, 6, 7), (4, 7, 5), (0, 4, 5), (0, 5, 1),
     (2, 3, 7), (2, 7, 6), (0, 2, 6), (0, 6, 4), (1, 5, 7), (1, 7, 3)]
)  # fmt: skip  # a cube, faces outwards
SPLAT_FIELDS = [
    *("x", "y", "z", "nx", "ny", "nz", "f_dc_0", "f_dc_1", "f_dc_2", "opacity"),
    *("scale_0", "scale_1", "scale_2", "rot_0", "rot_1", "rot_2", "rot_3"),
]

SCENE = """<mujoco model="table">
 <compiler meshdir="meshes"/>
 <asset><mesh name="cube" file="cube.obj"/></asset>
 <worldbody>
  <body name="cube"><freejoint/><geom type="mesh" mesh="cube"/></body>
 </worldbody>
</mujoco>
"""


def write_obj(path: Path, corners=CORNERS, faces=FACES, side_m: float = 0.1) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = [f"v {x} {y} {z}" for x, y, z in corners * side_m]
    path.write_text("\n".join([*lines, *(f"f {a + 1}/1 {b + 1} {c + 1}//2" for a, b, c in faces)]) + "\n")


def write_stl(path: Path, corners=CORNERS, faces=FACES, side_m: float = 0.1) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    triangles = (corners * side_m)[faces].astype("<f4")
    rows = b"".join(bytes(12) + triangle.tobytes() + bytes(2) for triangle in triangles)
    path.write_bytes(bytes(80) + struct.pack("<I", len(faces)) + rows)


def write_splats(path: Path, count: int = 20, *, stated: int | None = None, fields=SPLAT_FIELDS) -> None:
    properties = "".join(f"property float {name}\n" for name in fields)
    stated = count if stated is None else stated
    head = f"ply\nformat binary_little_endian 1.0\nelement vertex {stated}\n{properties}end_header\n"
    path.write_bytes(head.encode() + np.arange(count * len(fields), dtype="<f4").tobytes())


def cube(**changes) -> Body:
    defaults = {
        "name": "cube",
        "source": Inferred("5" * 64),
        "visual": "meshes/cube_visual.obj",
        "collision": (CollisionPart("meshes/cube.obj", 1e-3), CollisionPart("meshes/cube.stl", 1e-3)),
        "splats": (5, 15),
        "mass_kg": 0.2,
        "com_m": (0.05, 0.05, 0.05),
        "inertia_kgm2": (3e-4, 3e-4, 3e-4, 0, 0, 0),
    }
    return of(Body, defaults, changes)


def twin_folder(root: Path) -> Path:
    root.mkdir(parents=True, exist_ok=True)
    (root / "scene.xml").write_text(SCENE)
    for name in ("cube.obj", "cube_visual.obj"):
        write_obj(root / "meshes" / name)
    write_stl(root / "meshes" / "cube.stl")
    write_splats(root / "splats.ply")
    return root


def twin(root: Path, **changes) -> Twin:
    room = Body("room", Declared("swept by hand"), "background", splats=(0, 5), lacks={"mesh": "only looks"})
    lens = Intrinsics(300, 300, 160, 120)
    defaults = {
        "root": twin_folder(root),
        "bodies": (cube(), room),
        "alignment": Alignment(Measured("tag on the table"), scale=1.02, scale_sd=0.003, splat_mesh_gap_m=0.001),
        "engine": "mujoco 3.17.0",
        "episodes": ("e1", "e2"),
        "parents": {"split": "5" * 64},
        "cameras": {
            "front": TwinCamera(320, 240, lens, Mount(position_sd_m=0.002), Inferred("5" * 64), 0.4, {"e1": 1})
        },
        "start": Theta({MASS.id: 0.2}),
        "audits": {"gap": {"p95_m": 0.002, "worst_m": 0.004}},
        "ledger": HEAD,
    }
    return of(Twin, defaults, changes)


# ---- posterior, randomization


def draws(count: int = 400, seed: int = 0) -> np.ndarray:
    """A Gaussian belief: mass near 0.2 kg (on a log scale) and friction near 0.6, correlated."""
    normal = stream(seed, "draws").standard_normal((count, 2))
    mass = np.exp(np.log(0.2) + 0.05 * normal[:, 0])
    friction = 0.6 + 0.05 * (0.6 * normal[:, 0] + 0.8 * normal[:, 1])
    return np.stack([mass, friction], axis=1)


def posterior(**changes) -> Posterior:
    rows = changes.pop("draws", draws())
    defaults = {
        "parameters": (MASS, FRICTION),
        "priors": (Prior(Declared("between a coin and a car")), Prior(Measured("vendor's sheet"), "normal", 0.7, 0.3)),
        "draws": rows,
        "log_weights": np.full(len(rows), -np.log(len(rows))),
        "method": "laplace + block bootstrap",
        "episodes": ("e1", "e2"),
        "parents": PARENTS,
        "weak_directions": ("only the product of mass and friction is well determined",),
        "discrepancy": (Discrepancy("object pose", "m", (0.1, 0.5), (0.001, 0.01)),),
        "diagnostics": {"whiteness": {"object pose": 0.4}, "coverage": [0.9, 0.88]},
        "settings": {"max_steps": 100, "damping": 1e-3},
        "ledger": HEAD,
    }
    return of(Posterior, defaults, changes)


def family_posterior() -> Posterior:
    rng, rows = stream(0, "family"), draws()
    values = rows[:, None, 1:] + rng.normal(0, 0.02, (len(rows), 3, 1))
    predictive = np.clip(rows[:, 1:] + rng.normal(0, 0.1, (len(rows), 1)), 0, 2)
    return posterior(population=Population("cubes", ("red", "blue", "green"), (FRICTION.id,), values, predictive))


def friction_range(**changes) -> Range:
    defaults = {
        "parameter": FRICTION,
        "low": 0.3,
        "high": 0.9,
        "point": 0.6,
        "source": Inferred("9" * 64, share=0.95),
        "gap": "dynamics",
        "approximates": "friction between cube and table",
        "check": "posterior predictive of the pose track on validation",
        "reason": "slides differ between table cloths",
    }
    return of(Range, defaults, changes)


def mass_range(**changes) -> Range:
    more = {"parameter": MASS, "low": 0.1, "high": 0.4, "point": 0.2, "approximates": "mass of the cube"}
    return friction_range(**{**more, **changes})


DAMPING = ParameterInfo("joint.waist.damping", "N m s", 1e-3, 100.0, log=True)


def randomization(**changes) -> Randomization:
    damping = friction_range(
        parameter=DAMPING, low=0.1, high=10.0, point=1.0, source=Declared("never excited"), approximates="joint damping"
    )
    rows = draws()
    defaults = {
        "ranges": (mass_range(), friction_range(), damping),
        "joint": (MASS.id, FRICTION.id),
        "draws": rows,
        "parents": {"posterior": "9" * 64},
        "episodes": ("v1",),
        "ledger": HEAD,
    }
    return of(Randomization, defaults, changes)


# ---- policy, panel, trials, evidence


def contract(**changes) -> Contract:
    defaults = {
        "observations": (Channel("waist", "rad", -3.1, 3.1), Channel("front", "1", shape=(64, 64, 3))),
        "actions": (Channel("waist", "rad", -3.1, 3.1),),
        "rate_hz": 50,
        "delay_s": 0.02,
    }
    return of(Contract, defaults, changes)


def policy(**changes) -> Policy:
    rng = stream(0, "weights")
    defaults = {
        "kind": "mlp",
        "contract": contract(),
        "parents": {"twin": "7" * 64, "randomization": "8" * 64},
        "architecture": {"hidden": [64, 64], "activation": "elu"},
        "weights": {"0.weight": rng.standard_normal((4, 3)).astype(np.float32), "0.bias": np.zeros(4, np.float32)},
        "normaliser": {"waist": Scale(0.1, 2)},
        "seed": 7,
        "training": {"algorithm": "ppo", "steps": 1000},
        "ledger": HEAD,
    }
    return of(Policy, defaults, changes)


def panel(**changes) -> Panel:
    defaults = {
        "task": Task("push", contract(), "cube within 2 cm of the goal for 0.5 s", "cube off the table", 10),
        "conditions": (Condition("red cube", "h1", 1, {"object": "red"}), Condition("blue cube", "h2", 2)),
        "domains": (Domain("lab", "real", 2, "lab bench 'push', simulated"), Domain("twin", "twin", 3)),
        "metrics": (Metric("rmse", "rad", "lower"), Metric("reward", "1", "higher")),
        "criteria": (Criterion("the policy transfers", "success in lab, lower bound", "higher", 0.5),),
        "parents": {"split": "5" * 64},
        "ledger": HEAD,
    }
    return of(Panel, defaults, changes)


def trace(seed: int = 0, **changes) -> Trace:
    time_s = np.linspace(0, 1, 11)
    value = stream(seed, "trace").standard_normal((11, 2))
    missing = np.zeros((11, 2), dtype=bool)
    missing[3, 1] = True
    columns = (Column("waist", "rad"), Column("elbow", "rad", "arm"))
    state = Signal("state", "joint_position", columns, time_s, value, missing, time_s + 0.01)
    command = Signal("command", "joint_command", columns[:1], time_s, value[:, :1])
    defaults = {
        "domain": "twin",
        "signals": {"state": state, "command": command},
        "events": (Event("lift", 0.7), Event("grasp", 0.4)),
        "engine": "mujoco 3.17.0",
        "theta": Theta({MASS.id: 0.21}),
        "notes": ("the cube slipped once",),
    }
    return of(Trace, defaults, changes)


def trials(of_panel: Panel, policies=("ppo", "scripted"), kept: str | None = None) -> tuple[Trial, ...]:
    """Every cell of a panel, every third a failure; the first names a trace."""
    rows = []
    for n, cell in enumerate(of_panel.cells(policies)):
        failure = Failure.PERCEPTION if n % 3 == 0 else None
        metrics = {"rmse": 0.01 * n} if n % 2 else {"rmse": 0.01 * n, "reward": float(n)}
        rows.append(
            Trial(
                policy=cell.policy,
                condition=cell.condition.name,
                domain=cell.domain.name,
                seed=cell.seed,
                success=failure is None,
                failure=failure,
                metrics=metrics,
                trace=kept if n == 0 else None,
                repeat=cell.repeat,
            )
        )
    return tuple(rows)


def all_trials(**changes) -> Trials:
    kept = trace()
    defaults = {
        "trials": trials(panel(), kept=kept.hash),
        "parents": {"panel": "6" * 64, "split": "5" * 64, "policy/ppo": "9" * 64},
        "traces": {kept.hash: kept},
        "summary": {"success": {"ppo": {"lab": [0.5, 0.2, 0.8]}}, "notes": ["two"], "agreement": None},
        "reality": "lab bench 'push', simulated",
        "ledger": HEAD,
        "versions": {"twinproof": "0.1.0"},
    }
    return of(Trials, defaults, changes)


def claims() -> tuple[Claim, ...]:
    return (
        Claim("the twin fits", "held", "pose error on calibration, mm", 3.2, (2.9, 3.6), 5),
        Claim("the ranges cover", "failed", "predictive coverage on validation", 0.6, (0.5, 0.7), 0.8),
        Claim("the policy transfers", "not tested", reason="no robot and no logged real trials"),
    )


def evidence(**changes) -> Evidence:
    kept = trace()
    names = ("recording", "split", "twin", "posterior", "randomization", "policy/ppo")
    defaults = {
        "inputs": {name: Input(f"{n}" * 64, 1000 * n, name) for n, name in enumerate(names)},
        "fits": (
            Fit("identify", "3" * 64, "calibration", ("e1", "e2")),
            Fit("randomize", "4" * 64, "validation", ("v1",)),
        ),
        "estimates": (Estimate(MASS, 0.2, 0.18, 0.22, 0.9, Inferred("3" * 64, 0.9)),),
        "ranges": (mass_range(), friction_range()),
        "holdout": ("h1", "h2", "h3"),
        "panel": panel(),
        "claims": claims(),
        "trials": trials(panel(), kept=kept.hash),
        "traces": {kept.hash: kept},
        "ledger": HEAD,
        "split": {"format": "twinproof/split/1", "holdout": ["h1", "h2", "h3"]},
        "ledger_lines": ('{"n": 1}', '{"n": 2}', '{"n": 3}'),
        "figures": {"success": {"lab": [0.5, 0.2, 0.8]}},
        "versions": {"twinproof": "0.1.0", "mujoco": "3.17.0"},
        "seeds": {"train": 7},
        "machine": {"cpu": "x86-64, 2 cores"},
        "report": "<!doctype html><title>evidence</title>",
        "documents": {"report.md": b"# evidence", "pictures/front.png": b"PNG"},
    }
    return of(Evidence, defaults, changes)
