"""Fits from several starts, spread over workers: each says how good it gets, and the best is fitted here once more.

A worker reads twin and split anew and finds the same starts, as all draws come from named streams. So what comes back
is one number a start, and the answer is the same whether the starts were fitted here or elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from threadpoolctl import threadpool_limits

from twinproof import __version__
from twinproof.fleet.spread import Piece, Where, spread
from twinproof.identify.command import Asked, point_of, question_of
from twinproof.identify.infer import problem_of
from twinproof.identify.point import candidates, pointed, profile, written
from twinproof.nouns.errors import PosteriorError
from twinproof.nouns.files import read_json, write_json
from twinproof.nouns.hashing import Json, content_key
from twinproof.nouns.progress import Progress
from twinproof.nouns.randomness import stream
from twinproof.nouns.split import Split
from twinproof.nouns.store import Store
from twinproof.nouns.strict import plain
from twinproof.nouns.twin import Twin
from twinproof.sim.scene import Scene

FORMAT = "twinproof/identify-start/1"
TEXTS = ("parameters", "prior", "differ", "scenes", "fix", "fit", "horizons", "free_starts", "starts", "seed")


def fit_one(folder: Path, told: dict[str, Any], k: int) -> None:
    """One start, as a piece of work: its profiled cost, written into a folder."""
    values: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in told.items()}
    values |= {name: Path(told[name]) for name in ("twin", "split")}
    values |= dict.fromkeys(("plots", "actuators", "residual"))
    asked = Asked(**values, out=folder, method="laplace")
    twin, (calibration, _, _) = Twin.load(asked.twin), Split.load(asked.split).parts()
    question, rng = question_of(asked, calibration), stream(asked.seed, "identify")
    problem = problem_of(Scene.of(twin), calibration.recording.episodes, question, dict(twin.start))
    with threadpool_limits(1, user_api="blas"):
        tries, rngs, _, _ = candidates(problem, asked.starts, rng)
        found = pointed(problem, point_of(asked.fit, asked.horizons, asked.free_starts), tries[k], rngs[k])
    write_json(folder / "start.json", {"format": FORMAT, "profile": profile(found)})


def elsewhere(asked: Asked, where: Where, work: Path, progress: Progress) -> Callable[[int], list[float]]:
    """What tells how good each of so many starts gets, by workers of a place; finished ones are kept in `work`."""

    def profiles(count: int) -> list[float]:
        told: dict[str, Json] = {name: plain(getattr(asked, name)) for name in TEXTS}
        told |= {name: str(getattr(asked, name).absolute()) for name in ("twin", "split")}
        if asked.scenes is not None:
            told["scenes"] = str(Path(asked.scenes).absolute())
        hashes = [Twin.load(asked.twin).hash, Split.load(asked.split).hash]
        point = written(point_of(asked.fit, asked.horizons, asked.free_starts))
        decides = [*hashes, point, *(told[name] for name in TEXTS), __version__]
        pieces = [Piece(content_key("identify start", decides, k), (told, k), f"start {k}") for k in range(count)]
        folders = spread(fit_one, pieces, Store(work), where, progress=progress)
        return [float(read_json(each / "start.json", FORMAT, PosteriorError)["profile"]) for each in folders]

    return profiles
