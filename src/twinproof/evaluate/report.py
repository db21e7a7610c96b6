"""What the commands of evaluation print."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from twinproof.nouns.panel import Panel
from twinproof.nouns.trials import Trials


def comparison(told: Mapping[str, Any], out: Path) -> None:
    """A line an arm, what could not be paired, and where the page is."""
    count = len(told["pairs"])
    lines = [f"{out}: {count} pair{'s' if count != 1 else ''}"]
    for name, arm in told["arms"].items():
        rmse, position = arm["rmse"], arm["position_m"]
        text = f"  {name}: RMSE {rmse['value']:.4f}{_between(rmse, 1.0, 4)}"
        if position is not None:
            turn = 57.29577951308232 * arm["orientation_rad"]["mean_over_pairs"]["value"]
            text += f", tip {1e3 * position['mean_over_pairs']['value']:.1f} mm and {turn:.2f}°"
        if arm["warped"] is not None:
            text += f", timing's share {100 * arm['warped']['timing_share']:.0f} %"
        onset = arm["onset"]
        text += f", diverges in {onset['pairs']} of {onset['of']}"
        lines.append(text + (f" (median at {onset['median_s']:.2f} s)" if onset["pairs"] else ""))
    counts: dict[str, int] = {}
    for verdicts in told["events"]["verdicts"].values():
        for verdict, count in verdicts.items():
            counts[verdict] = counts.get(verdict, 0) + count
    lines.append("  events: " + (", ".join(f"{count} {verdict}" for verdict, count in counts.items()) or "none found"))
    for side, key in (("real", "only_real"), ("simulated", "only_sim")):
        if told[key]:
            names = ", ".join(f"{episode['id'][:8]} ({episode['source']})" for episode in told[key][:3])
            more = f" and {len(told[key]) - 3} more" if len(told[key]) > 3 else ""
            lines.append(f"  {side} without a partner: {names}{more}")
    lines += [f"  {note}" for note in told["notes"]]
    lines.append(f"  open {out / 'report.html'}")
    sys.stdout.write("\n".join(lines) + "\n")


def _between(found: Mapping[str, Any], scale: float, digits: int) -> str:
    if found["low"] is None:
        return ""
    return f" ({scale * found['low']:.{digits}f} … {scale * found['high']:.{digits}f})"


def say(text: str) -> None:
    """A line."""
    sys.stdout.write(text + "\n")


def panel(frozen: Panel, out: Path) -> None:
    """What was frozen."""
    say(f"{out}: panel {frozen.hash[:16]}, task {frozen.task.name!r}, {len(frozen.conditions)} holdout episodes by id")
    say(f"  success: {frozen.task.success}")
    for domain in frozen.domains:
        say(f"  {domain.name}: {domain.trials} trials of each policy in each condition")
    for criterion in frozen.criteria:
        sign = "≤" if criterion.better == "lower" else "≥"
        say(f"  {criterion.claim}: {criterion.number} {sign} {criterion.threshold:g}")


def _false_alarms(held: Mapping[str, Any] | None) -> str:
    """What the monitor does on holdout episodes, which set no threshold."""
    if held is None or "why_not" in held:
        return f"false alarms were not measured{'' if held is None else ': ' + held['why_not']}"
    shown = (
        f"{held[name]['alarms']} {verb} ({100 * held[name]['low']:.0f} … {100 * held[name]['high']:.0f} %)"
        for name, verb in (("slow", "slowed"), ("stop", "stopped"))
    )
    return f"false alarms measured on {held['episodes']} holdout episodes, which set no threshold: {', '.join(shown)}"


def paired(told: Mapping[str, Any]) -> list[str]:
    """The other policies against the one under test on the same seeds; of three or more, who is apart from whom."""
    lines = []
    for domain, both in told.items():
        if both is None:
            continue
        first = both["pairs"][0]["first"]
        for pair in (each for each in both["pairs"] if each["first"] == first):
            low, high = (100 * pair["difference"][end] for end in ("low", "high"))
            points = f"{100 * pair['difference']['value']:+.0f} points ({low:+.0f} … {high:+.0f})"
            needed = pair["trials_needed"]
            more = "" if needed is None else f"; rates like these need {needed} trials each"
            lines.append(f"{domain}: {pair['second']} minus {first} {points}, p {pair['p_holm']:.2g}{more}")
        if len(both["letters"]) > 2:
            shown = ", ".join(f"{name} {letters}" for name, letters in both["letters"].items())
            lines.append(f"{domain}: who shares a letter was not told apart: {shown}")
    return lines


def trials(found: Trials, out: Path) -> None:
    """Success of every policy in every domain, what pairs say, and the claims."""
    told = found.summary
    count = len(found.trials)
    say(f"{out}: {count} trials of {told['conditions']} conditions; the holdout was opened {found.attempt} times")
    if found.reality:
        say(f"  reality: {found.reality}")
    for policy, domains in told["success"].items():
        shown = (
            f"{name} {rate['successes']}/{rate['trials']} ({100 * rate['wilson']['low']:.0f} … "
            f"{100 * rate['wilson']['high']:.0f} %)"
            for name, rate in domains.items()
        )
        say(f"  {policy}: {', '.join(shown)}")
        for name, labels in told["failures"].get(policy, {}).items():
            counted = ", ".join(f"{count} {label}" for label, count in labels.items())
            say(f"    failures in {name}: {counted}")
        for name, both in told["domains_paired"][policy].items():
            bias = both["bias_points"]
            worth = told["powered"][policy].get(name, {}).get("correlation")
            rho = "" if worth is None else f"; ρ {worth['value']:.2f} ({worth['low']:.2f} … {worth['high']:.2f})"
            say(f"    {name} minus real: {bias['value']:+.0f} points ({bias['low']:+.0f} … {bias['high']:+.0f}){rho}")
    for line in paired(told["policies_paired"]):
        say(f"  {line}")
    for domain, ranks in (told["agreement"] or {}).items():
        r, ceiling = ranks["pearson"], ranks["ceiling"]["pearson"]
        value = (
            "not defined, one side does not vary"
            if r is None
            else f"{r['value']:.2f} ({r['low']:.2f} … {r['high']:.2f})"
        )
        say(f"  {domain}: r {value}; a perfect twin would show {ceiling[0]:.2f} … {ceiling[2]:.2f}")
        ranked, most = ranks["mmrv"], ranks["ceiling"]["mmrv"][1]
        between = f"{ranked['low']:.3f} … {ranked['high']:.3f}"
        say(f"  {domain}: MMRV {ranked['value']:.3f} ({between}); a perfect twin would show at most {most:.3f}")
    for step in told.get("decomposition") or ():
        if step["value"] is not None:
            say(f"  gap {step['step']}, {step['what']}: {step['value']:.3g} {step['unit']}")
    watched = told.get("monitor")
    if watched is not None:
        promised = f"{100 * watched['stop_false_alarms']:.0f} % false alarms promised"
        say(f"  monitor: {watched['slowed']} slowed, {watched['stopped']} stopped of {watched['trials']}; {promised}")
        say(f"    {_false_alarms(watched.get('measured'))}")
    for claim in told["claims"]:
        ends = "{:.3g} … {:.3g}, ".format(*claim["interval"]) if "interval" in claim else ""
        why = claim.get("reason") or f"{claim['number']}: {claim['value']:.3g}, {ends}threshold {claim['threshold']:g}"
        say(f"  {claim['name']}: {claim['verdict']} ({why})")
    for note in told["notes"]:
        say(f"  {note}")
