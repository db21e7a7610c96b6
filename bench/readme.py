"""The README's tables of figures, made from bench/results.

    python -m bench.readme            fills the marked sections of README.md
    python -m bench.readme --check    says whether they are as they would be made

A section stands between `<!-- made by bench.readme: NAME -->` and `<!-- end -->`. Real recordings come from the JSON
that bench/real writes. Of the other pages, which people wrote around a run, single figures are quoted; a page that no
longer has one stops the script.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "bench" / "results"
MARK = re.compile(r"(<!-- made by bench\.readme: (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)


@dataclass(frozen=True)
class Quoted:
    """A row that quotes a page of results; every text in `quotes` must stand there."""

    what: str
    ours: str
    beside: str
    page: str
    quotes: tuple[str, ...]


MEASURED = (
    Quoted("90 % intervals of 13 parameters, 200 planted pendulums", "cover 93 % ± 2", "NPE 89 %", "coverage.md",
           ("93.2 %", "± 2.0", "89.0 %")),
    Quoted("the same on pushes and drawers, 100 each", "85 % ± 3, 88 % ± 3", "bar 85 to 95 %", "coverage.md",
           ("87.9 %",)),
    Quoted("cameras from pictures of the robot, last fresh seed (308)", "2.8 mm, 0.11°",
           "bar 5 mm, 0.5°; error over stated error 2.6 at worst; 307 2.6 mm, 0.07°", "reconstruct.md",
           ("still cameras 2.8 mm (worst 4.6) and 0.11°", "positions 2.6 at worst", "2.6 mm and 0.07°")),
    Quoted("tool centre and clocks after that, the same seed", "0.54 mm, 1.3 ms", "bar 4 mm, 5 ms",
           "reconstruct.md", ("tool centre 0.54 mm", "clocks 1.3 ms")),
    Quoted("object from one click, Chamfer and volume, the same seed", "1.00 mm, +0.7 %",
           "bar 3 mm, 8 %; the fresh seed before (306), before a mend found on it, 3.29 mm, −40 %",
           "reconstruct.md",
           ("| tee_07 | **1.00** (2.95) | **+0.7 %** |", "| 3.29 (12.10): missed | −40.3 %: missed |")),
    Quoted("its views kept apart, PSNR of all and inside its mask, the same seed", "28.7 dB, 30.8 dB",
           "bar 25 dB, 24 dB", "reconstruct.md", ("**28.7 / 30.8**",)),
    Quoted("windowed fit, CPU time", "1 ×", "`mujoco.sysid` 4.2 × (bar 5: missed)", "identify.md", ("4.2",)),
    Quoted("PPO on two cores, environment steps a second", "1.87 ×",
           "Stable-Baselines3 1 × at its best worker count, which uses one core (bar 1.5; per CPU-second 1.22 ×: "
           "missed); `reach` to 95 % in 0.38 × its time (bar 0.5; 0.60 × its CPU time: missed)",
           "train.md", ("**1.87**", "**1.22**", "**0.38**", "**0.60**")),
    Quoted("PPO on an H200, `reach` to 95 %", "10 s", "bar 60 s", "train_gpu.md", ("**10.4 s**",)),
    Quoted("PPO on an H200, environment steps a second: `push` from 128 × 128 pictures, from state", "31k, 305k",
           "bars 20k, 500k: the second missed; 495k with `--coarse 2`", "train_gpu.md",
           ("**31,300**", "**305,000**", "**495,000**")),
    Quoted("policies of the pendulum on sixteen robots: ranges of the posterior, a delay stated beside them", "87 %",
           "point 70 %, hand-set wide 2 %: +17 (+2 to +31) and +84 (+79 to +90); the one bench of four on which they "
           "beat both (bar two: missed). Over the delay drawn alone +6 (+1 to +10), 24 robots", "transfer.md",
           ("87 % (82–92)", "it wins +6 (+1 to +10)", "70 % (56–84)", "2 % (0–6)", "beat the point (+17, +2 to +31)",
            "(+84, +79 to +90)")),
    Quoted("the same on one robot, 5 seeds, no delay stated", "81 %",
           "point 84 %, hand-set wide 44 %, nominal 0 %: no better than the point", "transfer.md",
           ("81 %", "84 %", "44 %")),
    Quoted("the same for `push`, boxes never seen before, imitation", "63 %",
           "point 64 %, hand-set wide 55 %, nominal 47 %: surely better than nominal alone", "transfer.md",
           ("63 % (53–73)", "64 % (62–66)", "55 % (42–68)", "47 % (33–61)", "beat nominal (+16 points")),
    Quoted("… with encoders' zeros from pictures beside encoders that are believed", "+12 to +18 points",
           "whatever ranges: nominal 50 and 38 %, wide 60 and 48 %, point 48 and 30 %, posterior 54 and 36 %",
           "transfer.md",
           ("50 % (43–57)", "38 % (24–52)", "60 % (47–73)", "48 % (38–58)", "30 % (18–42)", "54 % (40–68)",
            "36 % (22–50)", "12 to 18 points")),
    Quoted("the same for `push`, policies that see pictures, boxes of other colours: looks drawn", "2 %",
           "dynamics drawn 0 %, neither 2 %: all fail; the robot's pictures alone put actions 22 % off", "transfer.md",
           ("| visual | identification, looks drawn | 3 | 42 % (26–57) | 2 % (0–7) |", "the policy acts 22 % of half")),
    Quoted("the same for `drawer`, cabinets never seen before, imitation", "100 %",
           "point and nominal 100 %; hand-set wide 0 %, with zeros from pictures 100 %: too easy to tell ranges apart",
           "transfer.md", ("| wide | randomisation, by hand | 5 | 99 % (97–100) | 0 % (0–0)", "100 against 0 %")),
    Quoted("the same for `handover`, cubes never seen before: encoders' zeros from pictures", "82 %",
           "encoders believed 4 %; with zeros posterior 78 %, wide 82 %, nominal 80 %: no difference", "transfer.md",
           ("82 % (66–98)", "4 % (0–13)", "78 % (62–94)", "82 % (70–94)", "80 % (67–93)")),
)  # fmt: skip


def measured() -> list[str]:
    """What was measured beside something, each row with its page."""
    lines = ["| what | ours | beside it | page |", "|---|---|---|---|"]
    for row in MEASURED:
        text = (RESULTS / row.page).read_text(encoding="utf-8")
        for quote in row.quotes:
            if quote not in text:
                raise SystemExit(f"bench/results/{row.page} no longer says {quote!r}: mend the row {row.what!r}.")
        page = f"[{row.page}](bench/results/{row.page})"
        lines.append(f"| {row.what} | {row.ours} | {row.beside} | {page} |")
    return lines


def real() -> list[str]:
    """Real recordings through the public commands, beside published and baseline figures."""
    tosses, pendulum, camera, tee = (_read(f"real_{name}") for name in NAMES)
    ours, theirs = tosses["ours"]["scored"], tosses["CMA-ES"]["scored"]
    found = pendulum["degrees"]
    best = min((name for name in found if name.startswith("published")), key=lambda name: found[name]["sealed"][1])
    track = min((name for name in found if name.startswith("published")), key=lambda name: found[name]["tracking"][2])
    mine = [name for name in found if not name.startswith("published")][-1]
    seen = ", ".join(f"{share:.2f}" for share in tee["IoU, median by camera"]["sealed"].values())
    return [
        "| recording | figure | ours | beside it |",
        "|---|---|---|---|",
        f"| cube tosses, {tosses['tosses']['scored']} sealed | position after a toss, % of the width | {ours[0]:.1f} "
        f"| {theirs[0]:.1f}, CMA-ES |",
        f"| | rotation after a toss | {ours[2]:.1f}° | {theirs[2]:.1f}°, CMA-ES |",
        f"| | 108 ms ahead | {ours[4]:.2f} mm, {ours[5]:.2f}° | {theirs[4]:.2f} mm, {theirs[5]:.2f}°, CMA-ES |",
        f"| | CPU-seconds, all commands | {tosses['ours']['cpu_s']:.0f} | {tosses['CMA-ES']['cpu_s']:.0f}, the fit |",
        f"| double pendulum, sealed run | 0.5 s, 1 s ahead | {found[mine]['sealed'][1]:.2f}°, "
        f"{found[mine]['sealed'][2]:.2f}° | {found[best]['sealed'][1]:.2f}°, {found[best]['sealed'][2]:.2f}°, {best} |",
        f"| tracking run, never fitted | 0.2 s, 0.5 s ahead | {found[mine]['tracking'][1]:.2f}°, "
        f"{found[mine]['tracking'][2]:.1f}° | {found[track]['tracking'][1]:.2f}°, {found[track]['tracking'][2]:.1f}°, "
        f"{track} |",
        f"| Franka hand-eye, 8 pictures | scatter of the camera | {camera['ours']['camera_deg']:.3f}°, "
        f"{camera['ours']['camera_mm']:.2f} mm | {camera['published']['camera_deg']:.3f}°, "
        f"{camera['published']['camera_mm']:.2f} mm, ViSP |",
        f"| push-T, sealed pictures | outline's IoU, three cameras | {seen} | none known |",
    ]


def memory() -> list[str]:
    """Peak memory of the demo's stages, and what a longer recording adds."""
    told = _read("memory")
    most = max(told["demo"], key=lambda name: told["demo"][name]["peak_mb"])
    more = {name: told["longer"][name]["more"] for name in ("ingest", "split", "identify")}
    grown = ", ".join(f"{name} {100 * share:+.0f} %" for name, share in more.items())
    return [
        "| what | measured | bar |",
        "|---|---|---|",
        f"| pendulum demo, largest stage ({most}), children included | {told['demo'][most]['peak_mb'] / 1024:.2f} GB | "
        "3 GB |",
        f"| a recording ten times as long | {grown} | 10 % |",
    ]


NAMES = ("cube_tosses", "double_pendulum", "hand_eye", "pusht")
TABLES: dict[str, Callable[[], list[str]]] = {"measured": measured, "real": real, "memory": memory}


def _read(name: str) -> Any:
    return json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))


def filled(text: str) -> str:
    """A page with its marked sections made anew."""

    def made(found: re.Match[str]) -> str:
        lines = TABLES[found[2]]()
        return f"{found[1]}{chr(10).join(lines)}\n{found[3]}"

    return MARK.sub(made, text)


def main() -> None:
    """Fills the README, or checks it."""
    path = ROOT / "README.md"
    now = path.read_text(encoding="utf-8")
    made = filled(now)
    if sys.argv[1:] == ["--check"]:
        sys.exit("README.md is not as bench.readme makes it: run python -m bench.readme" if made != now else 0)
    path.write_text(made, encoding="utf-8")


if __name__ == "__main__":
    main()
