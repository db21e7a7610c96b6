"""How well the range-miss test tells right ranges from wrong ones, and how fast pictures are changed and drawn.

python -m bench.randomize miss --worlds 20        # rates on planted pendulums: alarms, power, coverage after widening
python -m bench.randomize augment                 # pictures a second: numpy reference, torch on the CPU, CUDA if there
python -m bench.randomize synth --count 20        # labelled pictures a second, meshes and splats, of a twin given
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

IDS = ("body.bob.mass", "joint.hinge.damping")
TRUTH = {"body.bob.mass": 0.6, "joint.hinge.damping": 0.08}
SD = {"body.bob.mass": 0.01, "joint.hinge.damping": 0.004}
SHIFTS = (0.0, 2.0, 4.0, 8.0, 12.0)
VALIDATION = 8


def planted(world: int, shift: float) -> dict[str, Any]:
    """One pendulum whose damping's range is `shift` sd off: what the test says, and what widening makes of it."""
    from tests.sim.motions import PENDULUM, swing

    from twinproof.nouns.belief import Discrepancy, Prior
    from twinproof.nouns.posterior import Posterior
    from twinproof.nouns.randomization import Randomization
    from twinproof.nouns.randomness import stream
    from twinproof.nouns.source import Declared
    from twinproof.nouns.theta import ParameterInfo
    from twinproof.randomize.against import Against, noise_of
    from twinproof.randomize.coverage import judge
    from twinproof.randomize.inferred import from_posterior
    from twinproof.randomize.residual import halves
    from twinproof.randomize.widen import louder_signals, wider_ranges
    from twinproof.sim.experiment import experiment
    from twinproof.sim.scene import Scene

    rng = stream(world, "bench", "randomize")
    # a right posterior's centre lies about one sd from the truth, not on it
    off = rng.normal(size=2) + np.array([0.0, -shift])
    centre = [TRUTH[id] + SD[id] * off[k] for k, id in enumerate(IDS)]
    draws = np.array(centre) + np.array([SD[id] for id in IDS]) * rng.normal(size=(800, 2))
    infos = (
        ParameterInfo(IDS[0], "kg", 0.2, 1.8, True),
        ParameterInfo(IDS[1], "N m s/rad or N s/m", 0.0, 0.5),
    )
    error = Discrepancy("state.hinge", "rad", (0.1, 0.4), (0.003, 0.012))
    posterior = Posterior(
        infos, (Prior(Declared("wide")),) * 2, np.clip(draws, 0.0, None), np.full(800, -np.log(800)), "planted",
        ("none",), {}, discrepancy=(error,),
    )  # fmt: skip
    block = from_posterior(posterior, 0.95, rng)
    made = Randomization(block.ranges, {}, IDS, block.draws, discrepancy=(error,))
    truth, scene = {**TRUTH, "joint.hinge.frictionloss": 0.04}, Scene(PENDULUM)
    seen = tuple(experiment(swing(PENDULUM, truth, 1000 * world + k, 0.9, size=0.4), scene) for k in range(VALIDATION))

    def against(some: Any, ranges: Randomization) -> Against:
        held = Against(some, ranges, IDS, {"joint.hinge.frictionloss": 0.04}, {})
        return Against(some, ranges, IDS, held.fixed, noise_of(posterior, held.shooting))

    whole = judge(against(seen, made))
    first, second = halves(seen, world)
    wider, told, sentences = wider_ranges(made, lambda ranges: judge(against(first, ranges)))
    wider, more = louder_signals(wider, told, against(first, wider))
    after, before = judge(against(second, wider)), judge(against(second, made))
    inside = made.range(IDS[1]).low <= TRUTH[IDS[1]] <= made.range(IDS[1]).high
    return {
        "covers_truth": inside,
        "missed": {check.id: check.missed for check in whole.parameters},
        "signal": any(each.missed for each in whole.signals),
        "covered": whole.whole.covered,
        "widened": [text.split(":")[0] for text in (*sentences, *more)],
        "before": before.whole.covered,
        "after": after.whole.covered,
        "holds_truth": wider.range(IDS[1]).low <= TRUTH[IDS[1]] <= wider.range(IDS[1]).high,
    }


def miss(worlds: int, first: int) -> None:
    """Rates over worlds, by how far the damping's range is off."""
    print("| off by | range holds the truth | damping named | mass named (false) | signal named | bands cover | the "
          "judging half before → after | widened range holds the truth | CPU-s a world |")  # fmt: skip
    print("|---|---|---|---|---|---|---|---|---|")
    for shift in SHIFTS:
        cpu = time.process_time()
        found = [planted(world, shift) for world in range(first, first + worlds)]
        cost = (time.process_time() - cpu) / worlds

        def rate(pick: Any, rows: list[dict[str, Any]] = found) -> str:
            return f"{sum(bool(pick(each)) for each in rows)}/{len(rows)}"

        row = [
            f"{shift:g} sd", rate(lambda e: e["covers_truth"]), rate(lambda e: e["missed"][IDS[1]]),
            rate(lambda e: e["missed"][IDS[0]]), rate(lambda e: e["signal"]),
            f"{np.mean([e['covered'] for e in found]):.0%}",
            f"{np.mean([e['before'] for e in found]):.0%} → {np.mean([e['after'] for e in found]):.0%}",
            rate(lambda e: e["holds_truth"]), f"{cost:.1f}",
        ]  # fmt: skip
        print("| " + " | ".join(row) + " |", flush=True)


def augment(count: int, size: int) -> None:
    """Pictures a second, all quantities on, median of five; CPU-seconds beside."""
    import torch

    from twinproof.randomize import augment as batch
    from twinproof.randomize import augment_reference as reference
    from twinproof.randomize.adjust import Adjustments

    rng = np.random.default_rng(0)
    wide = {
        "image.brightness": (0.7, 1.4), "image.contrast": (0.8, 1.25), "image.saturation": (0.8, 1.2),
        "image.hue": (-0.06, 0.06), "image.temperature": (4500, 9000), "image.noise": (0.0, 0.02),
        "image.blur": (0.0, 0.8), "image.dropout": (0.0, 0.005),
    }  # fmt: skip
    how = Adjustments(np.arange(count), {id: rng.uniform(*ends, size=count) for id, ends in wide.items()})
    images = rng.integers(0, 256, size=(count, size, size, 3), dtype=np.uint8)
    few = min(count, 64)
    expected = reference.augmented(images[:few], how.part(0, few))
    rates = {"numpy": _rate(lambda: reference.augmented(images[:few], how.part(0, few)), few)}
    devices = ["cpu"] + (["cuda"] if torch.cuda.is_available() else [])
    for device in devices:
        tensor = torch.tensor(images, device=device)
        apart = np.abs(batch.augmented(tensor, how)[:few].cpu().numpy().astype(int) - expected.astype(int))
        print(f"{device}: at most {apart.max()} of 255 from the reference, in {np.mean(apart > 0):.1e} of the bytes")

        def act(tensor: Any = tensor, device: str = device) -> None:
            batch.augmented(tensor, how)
            if device == "cuda":
                torch.cuda.synchronize()

        rates[device] = _rate(act, count)
    name = torch.cuda.get_device_name() if torch.cuda.is_available() else f"{torch.get_num_threads()} CPU threads"
    print(f"{count} pictures of {size} × {size}, uint8, {name}, torch {torch.__version__}")
    for device, (rate, cpu) in rates.items():
        print(f"  {device}: {rate:,.0f} pictures/s ({rate / rates['numpy'][0]:.1f} × numpy), {cpu:.2f} CPU-ms each")


def _rate(act: Any, count: int) -> tuple[float, float]:
    """Pictures a second, and CPU-milliseconds for one: the second does not care who else is at work."""
    act()
    times, cpu = [], []
    for _ in range(5):
        begin, spent = time.perf_counter(), time.process_time()
        act()
        times.append(time.perf_counter() - begin)
        cpu.append(time.process_time() - spent)
    return count / float(np.median(times)), 1e3 * float(np.median(cpu)) / count


def synth(twin: Path, ranges: Path, count: int, width: int) -> None:
    """Labelled pictures a second of a twin, files and tables written."""
    from twinproof.randomize.synth import Asked, run

    for looks in ("meshes", "splats"):
        with tempfile.TemporaryDirectory() as folder:
            for k, number in enumerate((1, count)):  # the first compiles kernels
                begin, cpu = time.perf_counter(), time.process_time()
                run(Asked(twin, ranges, number, Path(folder) / str(k), (), width, looks, 0))  # type: ignore[arg-type]
            wall, spent = time.perf_counter() - begin, time.process_time() - cpu
            table = json.loads((Path(folder) / "1" / "instances.json").read_text())
        print(f"{looks}: {count / wall:.1f} pictures/s, {spent / count:.2f} CPU-s each, {width} wide, "
              f"{len(table['annotations'])} instances in {count} pictures")  # fmt: skip


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    test = commands.add_parser("miss")
    test.add_argument("--worlds", type=int, default=20)
    test.add_argument("--first", type=int, default=100)  # worlds 0 to 19 were looked at while the test was made
    fast = commands.add_parser("augment")
    fast.add_argument("--count", type=int, default=64)
    fast.add_argument("--size", type=int, default=128)
    drawn = commands.add_parser("synth")
    drawn.add_argument("twin", type=Path)
    drawn.add_argument("ranges", type=Path)
    drawn.add_argument("--count", type=int, default=20)
    drawn.add_argument("--width", type=int, default=320)
    asked = parser.parse_args()
    match asked.command:
        case "miss":
            miss(asked.worlds, asked.first)
        case "augment":
            augment(asked.count, asked.size)
        case _:
            synth(asked.twin, asked.ranges, asked.count, asked.width)


if __name__ == "__main__":
    main()
