"""The command that fits capture's confidences to what the user accepted and rejected."""

from __future__ import annotations

from typing import Any

import typer

from ..capture import calibrate, pipeline, reliability_diagram
from ..capture.calibrate import Report
from ..capture.reliability_diagram import Pair
from . import app
from .common import opened, write, write_json


@app.command("calibrate")
def calibrate_command(
    dry_run: bool = typer.Option(
        False, "--dry-run", help="Change nothing, only say what would change."
    ),
    reset: bool = typer.Option(
        False, "--reset", help="Go back to the calibration that came with git mem."
    ),
    as_json: bool = typer.Option(False, "--json", help="Print JSON."),
) -> int:
    """Fit capture's confidences to what you accepted and rejected with `git mem review`. Exit code
    1 where nothing changed.

    New numbers count only if they predict decisions better that they were not fitted to. They live
    in your private notes. Needs scikit-learn: `pip install 'git-mem[llm]'`."""
    with opened() as store:
        if reset:
            changed = not dry_run and calibrate.reset(store)
            if as_json:
                write_json({"status": "reset" if changed else "unchanged"})
            elif changed:
                write("back to the packaged calibration")
            else:
                write("the packaged calibration is in force")
            return 0 if changed else 1
        report = calibrate.calibrate(store, write=not dry_run)
        if as_json:
            write_json(_as_json(report, pipeline.thresholds(store), dry_run))
        else:
            _print(report, pipeline.thresholds(store), dry_run)
        return 0 if report.better else 1


def _tiers(pairs: list[Pair], thresholds: tuple[float, float]) -> dict[str, dict[str, Any]]:
    """For each tier: how many suggestions, and the share that was accepted."""
    auto, suggest = thresholds
    out = {}
    for tier, low, high in (("AUTO", auto, 2.0), ("SUGGEST", suggest, auto), ("SKIP", -1, suggest)):
        kept = [right for p, right in pairs if low <= p < high]
        precision = round(sum(kept) / len(kept), 4) if kept else None
        out[tier] = {"count": len(kept), "precision": precision}
    return out


def _figures(pairs: list[Pair], thresholds: tuple[float, float]) -> dict[str, Any]:
    bins = [
        {
            "low": b.low,
            "high": b.high,
            "count": b.n,
            "confidence": b.confidence,
            "accepted": b.right,
        }
        for b in reliability_diagram.bins(pairs)
    ]
    return {
        "ece": round(reliability_diagram.error(pairs), 4),
        "log_loss": round(calibrate.loss(pairs), 4),
        "tiers": _tiers(pairs, thresholds),
        "bins": [{name: round(value, 4) for name, value in b.items()} for b in bins],
    }


def _as_json(report: Report, thresholds: tuple[float, float], dry: bool) -> dict[str, Any]:
    return {
        "status": "changed" if report.better and not dry else "unchanged",
        "better": report.better,
        "reason": report.reason,
        "verdicts": len(report.before),
        "accepted": sum(kept for _, kept in report.before),
        "unasked": {"stored": report.stored, "taken_back": report.forgotten},
        "old": report.old._asdict(),
        "new": report.new._asdict(),
        "before": _figures(report.before, thresholds),
        "after": _figures(report.after, thresholds),
    }


def _print(report: Report, thresholds: tuple[float, float], dry: bool) -> None:
    decided, accepted = len(report.before), sum(kept for _, kept in report.before)
    write(
        f"{decided} suggestion{'s' * (decided != 1)} decided, {accepted} accepted;"
        f" {report.stored} memor{'y' if report.stored == 1 else 'ies'} stored unasked,"
        f" {report.forgotten} of them forgotten since"
    )
    if report.before:
        write()
        for line in reliability_diagram.text(report.after if report.better else report.before):
            write(line)
        write()
        write(_summary("before", report.before, thresholds))
    if not report.better:
        write(f"nothing changed: {report.reason}")
        return
    write(_summary("after", report.after, thresholds))
    write(f"new numbers: {report.reason}")
    suggest = thresholds[1]
    fewer = sum(p >= suggest for p, _ in report.before) - sum(p >= suggest for p, _ in report.after)
    if fewer > 0:
        write(f"of these, {fewer} would no longer have been suggested")
    if dry:
        write("nothing was changed; without --dry-run the new numbers would be in force")
    else:
        write("the new numbers are in force; `git mem calibrate --reset` goes back")


def _summary(name: str, pairs: list[Pair], thresholds: tuple[float, float]) -> str:
    tiers = []
    for tier, found in _tiers(pairs, thresholds).items():
        accepted = f" ({found['precision']:.2f} accepted)" if found["count"] else ""
        tiers.append(f"{tier} {found['count']}{accepted}")
    return f"{name + ':':<8}ECE {reliability_diagram.error(pairs):.3f}; {', '.join(tiers)}"
