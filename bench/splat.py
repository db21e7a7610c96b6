"""How fast splats are drawn and how well they are fitted on a CPU: `python -m bench.splat [speed|fit|all]`.

speed   a real room's points as splats; ours, torch tile by tile and (where installed) Warp take turns on one thread,
        then ours on one thread and on two, then many small views in one batch and one by one. Best of 20 each.
fit     the recipe of `twinproof splat fit` against the plain one (degree 0, L1 + L2, cloning) on the same pictures with
        the same CPU-seconds: `python -m bench.splat fit --capture FOLDER --longest-px 480 --cpu-seconds 200`.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from twinproof.sim.render_camera import Lens
from twinproof.sim.splat import engine
from twinproof.sim.splat.blend import Flow
from twinproof.sim.splat.lens import packed
from twinproof.sim.splat.project import DEPTH, OPACITY, RED, A, B, C, Cloud, Eye

SCENES = ((20_000, 320, 240), (100_000, 640, 480))


def turns(contenders: dict[str, Callable[[], object]], repeat: int = 20) -> dict[str, tuple[float, float]]:
    """Best (CPU, wall) milliseconds of each; they take turns, so that a busy machine slows all alike."""
    for work in contenders.values():
        work()
    best = dict.fromkeys(contenders, (np.inf, np.inf))
    for _ in range(repeat):
        for name, work in contenders.items():
            cpu, wall = time.process_time(), time.perf_counter()
            work()
            took = 1e3 * (time.process_time() - cpu), 1e3 * (time.perf_counter() - wall)
            best[name] = min(best[name][0], took[0]), min(best[name][1], took[1])
    return best


@dataclass(frozen=True)
class Bench:
    """A scene before a camera, and what each step of drawing it needs."""

    cloud: Cloud
    eye: Eye
    kept: engine.Kept
    flow: Flow

    @classmethod
    def of(cls, count: int, width: int, height: int) -> Bench:
        from bench.splat_scene import room, view

        s = room(count)
        pose, (fx, fy, cx, cy) = view(width, height)
        cloud = engine.cloud_of(s.means, s.quats_wxyz, s.log_scales, s.logit_opacities, s.sh, s.group)
        V = np.ascontiguousarray(np.linalg.inv(pose)[None, :3])
        eye = Eye(V, packed(Lens(width, height, fx, fy, cx, cy)), engine.NEAR, 1)
        kept = engine.forward(cloud, eye, False, False, 1)
        rng = np.random.default_rng(0)
        colour = rng.normal(size=(height, width, 3)).astype(np.float32)
        nothing = np.zeros((0, 0), np.float32)
        flow = Flow(colour, np.zeros((height, width), np.float32), np.zeros((0, 0, 4), np.float32), nothing)
        return cls(cloud, eye, kept, flow)

    def forward(self, threads: int = 1) -> engine.Kept:
        """The whole way: projection, sort, lists, blending."""
        return engine.forward(self.cloud, self.eye, False, False, threads)

    def blended(self) -> None:
        """The last step alone, from projected splats and their lists: what the others do."""
        k, steps = self.kept, engine.kernels(False, False)
        steps.forward(k.lists, k.drawn, self.cloud.group, k.picture, 0, len(k.lists.start) - 1)

    def blended_back(self) -> None:
        """The way back from pixels to projected splats."""
        k, steps = self.kept, engine.kernels(False, False)
        pairs = np.empty((len(k.lists.splat), steps.grads), np.float32)
        steps.backward(k.lists, k.drawn, k.picture, self.flow, pairs, 0, len(k.lists.start) - 1)

    def whole_step(self, threads: int = 1) -> None:
        """Forward and backward, to the splats, the camera and the lens."""
        kept = self.forward(threads)
        engine.backward(self.cloud, kept, self.flow, False, False, threads, engine.room(self.cloud, 1))

    def projected(self) -> dict[str, np.ndarray]:
        """The same splats as the other contenders take them."""
        d = self.kept.drawn
        a, b, c = (d.row[:, k].astype(float) for k in (A, B, C))
        conics = np.stack([a * a, a * b, b * b + c * c], -1).astype(np.float32)
        return {
            "means2d": d.xy.astype(np.float32), "conics": conics, "opacities": d.row[:, OPACITY].copy(),
            "colours": d.row[:, RED : RED + 3].copy(), "depths": d.row[:, DEPTH].copy(),
        }  # fmt: skip


def against_others(count: int, width: int, height: int) -> list[str]:
    """Ours, torch by tiles and Warp on one thread."""
    import torch
    from bench.splat_contenders import Lists, torch_tiles, warp_tiles

    torch.set_num_threads(1)
    bench = Bench.of(count, width, height)
    splats, k = bench.projected(), bench.kept
    lists = Lists(k.lists.start, k.lists.splat)
    tensors = {name: torch.from_numpy(array) for name, array in splats.items()}
    leaves = {n: t.clone().requires_grad_(n != "depths") for n, t in tensors.items()}
    upstream = torch.from_numpy(bench.flow.colour)

    def torch_both() -> None:
        picture, _ = torch_tiles(*leaves.values(), width, height, lists)
        (picture * upstream).sum().backward()

    def torch_forward() -> object:
        with torch.no_grad():
            return torch_tiles(*tensors.values(), width, height, lists)

    contenders: dict[str, Callable[[], object]] = {
        "ours, forward, all of it": bench.forward,
        "ours, blending": bench.blended,
        "ours, blending back": bench.blended_back,
        "ours, forward and backward, all of it": bench.whole_step,
        "torch by tiles, forward": torch_forward,
        "torch by tiles, forward and backward": torch_both,
    }
    gap = float((torch_forward()[0] - torch.from_numpy(bench.kept.picture.colour)).abs().max())  # type: ignore[index]
    try:
        import warp as _  # noqa: F401
    except ImportError:
        pass
    else:
        contenders["Warp on the CPU, forward"] = lambda: warp_tiles(*splats.values(), width, height, lists)
    best = {name: cpu for name, (cpu, _) in turns(contenders, 20 if count < 50_000 else 8).items()}
    both = best["ours, blending"] + best["ours, blending back"]
    ratios = {
        "torch / ours, forward, like for like (blending)": best["torch by tiles, forward"] / best["ours, blending"],
        "torch blending / ours all of it, forward": best["torch by tiles, forward"] / best["ours, forward, all of it"],
        "torch / ours, forward and backward, like for like": best["torch by tiles, forward and backward"] / both,
        "torch blending / ours all of it, forward and backward": best["torch by tiles, forward and backward"]
        / best["ours, forward and backward, all of it"],
    }
    if "Warp on the CPU, forward" in best:
        ratios["Warp / ours, forward, like for like"] = best["Warp on the CPU, forward"] / best["ours, blending"]
    visible, pairs = len(k.drawn.which), len(k.lists.splat)
    lines = [f"### {count:,} splats, {width} × {height}: {visible:,} visible, {pairs:,} pairs of tile and splat", ""]
    lines += [f"light left {k.picture.light.mean():.3f}; largest difference from torch's picture {gap:.1e}", ""]
    lines += ["| one thread, best of 20, CPU ms | |", "|---|---|", *(f"| {n} | {ms:.1f} |" for n, ms in best.items())]
    return [*lines, "", *(f"- {name}: **{ratio:.1f} ×**" for name, ratio in ratios.items()), ""]


def two_threads() -> list[str]:
    """The same picture on one thread and on two."""
    lines = [
        "### One thread and two",
        "",
        "| scene | what | one, wall ms | two, wall ms | ratio |",
        "|---|---|---|---|---|",
    ]
    for count, width, height in SCENES:
        bench = Bench.of(count, width, height)
        for what, work in {"forward": bench.forward, "forward and backward": bench.whole_step}.items():
            best = turns({"one": lambda w=work: w(1), "two": lambda w=work: w(2)})  # type: ignore[misc]
            one, two = best["one"][1], best["two"][1]
            lines.append(f"| {count:,} at {width} × {height} | {what} | {one:.1f} | {two:.1f} | **{one / two:.2f}** |")
    return [*lines, "", f"load average {os.getloadavg()[0]:.1f}", ""]


def small_views(cameras: int = 32, size: int = 64) -> list[str]:
    """Many small views in one batch, and one by one."""
    bench = Bench.of(20_000, size, size)
    rng = np.random.default_rng(0)
    eyes = []
    for _ in range(cameras):
        V = bench.eye.V.copy()
        V[0, :, 3] += rng.normal(0, 0.1, 3)
        eyes.append(bench.eye._replace(V=V))
    lines = [
        f"### {cameras} views of {size} × {size}, 20,000 splats",
        "",
        "| threads | batch, views/s | one by one | ratio |",
    ]
    lines.append("|---|---|---|---|")
    for threads in (1, 2):
        best = turns(
            {
                "batch": lambda t=threads: engine.forward_batch(bench.cloud, eyes, False, False, t),  # type: ignore[misc]
                "single": lambda t=threads: [engine.forward(bench.cloud, eye, False, False, t) for eye in eyes],  # type: ignore[misc]
            },
            10,
        )
        rates = {name: 1e3 * cameras / wall for name, (_, wall) in best.items()}
        lines.append(
            f"| {threads} | {rates['batch']:.0f} | {rates['single']:.0f} | **{rates['batch'] / rates['single']:.2f}** |"
        )
    return [*lines, ""]


def fits(capture: Path | None, longest_px: int, cpu_seconds: float) -> list[str]:
    """Our recipe and the plain one on one capture, the same CPU-seconds each, judged on every 8th view."""
    import torch
    from bench.splat_plain import fit_plain
    from bench.splat_scene import kitchen_views

    from twinproof.ingest.posed_views import posed_views
    from twinproof.reconstruct.splat_fit import Fitted, fit
    from twinproof.reconstruct.splat_judge import held_out, judge, settled
    from twinproof.reconstruct.splat_recipe import Recipe

    torch.set_num_threads(1)
    views = kitchen_views(longest_px) if capture is None else posed_views(capture, longest_px)
    train, test = held_out(views, 8)
    fit(train, Recipe(iterations=2), threads=1)  # compiled before the clock runs
    ours = settled(fit(train, replace(Recipe(), cpu_seconds=cpu_seconds), threads=1))
    splats, steps = fit_plain(train, cpu_seconds)
    neutral = np.tile([[1.0, 1.0, 1.0], [0.0, 0.0, 0.0]], (len(train), 1, 1))
    poses = np.stack([view.T_world_camera for view in train.views])
    plain = Fitted(splats, neutral, poses, [], cpu_seconds, steps)
    lines = [
        f"### {capture or 'red kitchen'} at {train.views[0].rgb.shape[1]} × {train.views[0].rgb.shape[0]}, "
        f"{len(train)} fitted, {len(test)} held out, {cpu_seconds:.0f} CPU-s each",
        "", "| recipe | splats | steps | PSNR dB | SSIM | FLIP |", "|---|---|---|---|---|---|",
    ]  # fmt: skip
    means = {}
    for name, fitted in (("ours", ours), ("plain", plain)):
        judged = judge(fitted, train, test)
        row = [float(np.mean([getattr(j, key) for j in judged])) for key in ("psnr_db", "ssim", "flip")]
        means[name] = row[0]
        lines.append(
            f"| {name} | {len(fitted.splats):,} | {fitted.steps} | {row[0]:.2f} | {row[1]:.3f} | {row[2]:.3f} |"
        )
    return [*lines, "", f"- ours over plain: **{means['ours'] - means['plain']:+.2f} dB**", ""]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", nargs="?", default="speed", choices=("speed", "fit", "all"))
    parser.add_argument("--capture", type=Path, help="COLMAP model or transforms.json; default: the red kitchen")
    parser.add_argument("--longest-px", type=int, default=480)
    parser.add_argument("--cpu-seconds", type=float, default=200.0)
    parser.add_argument("--out", type=Path, help="write the tables here too")
    asked = parser.parse_args()
    lines = [f"load average at the start: {os.getloadavg()[0]:.1f}", ""]
    if asked.what in ("speed", "all"):
        for scene in SCENES:
            lines += against_others(*scene)
        lines += two_threads() + small_views()
    if asked.what in ("fit", "all"):
        lines += fits(asked.capture, asked.longest_px, asked.cpu_seconds)
    text = "\n".join(lines)
    print(text)
    if asked.out:
        asked.out.write_text(text + "\n")


if __name__ == "__main__":
    main()
