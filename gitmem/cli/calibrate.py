"""The command that fits capture's confidences to what the user accepted and rejected."""

from collections.abc import Iterator
from typing import Any

from ..capture import calibrate, pipeline
from ..capture.calibrate import Pair, Report
from ..core.plural import many
from ..store import Store
from .options import Answer, command, flag


@command("calibrate")
def calibrate_command(
    store: Store,
    dry_run: bool = flag("--dry-run", "Only say what would change."),
    reset: bool = flag("--reset", "Go back to the calibration that came with git mem."),
) -> Answer:
    """Fit capture's confidences to what you accepted and rejected with `git mem review`.

    New numbers count only if they predict other decisions better; they live in your private notes.
    Needs scikit-learn. Exit code 1 where nothing changed.
    """
    if reset and calibrate.reset(store, write=not dry_run):
        if dry_run:
            told = "nothing was changed; without --dry-run the packaged calibration would be back"
            return Answer({"status": "unchanged"}, [told])
        return Answer({"status": "reset"}, ["back to the packaged calibration"])
    if reset:
        return Answer({"status": "unchanged"}, ["the packaged calibration is in force"], 1)
    report = calibrate.calibrate(store, write=not dry_run)
    facts = {
        "status": "changed" if report.better and not dry_run else "unchanged",
        "better": report.better,
        "reason": report.reason,
        "verdicts": len(report.before),
        "accepted": sum(kept for _, kept in report.before),
        "old": report.old._asdict(),
        "new": report.new._asdict(),
        "before": _figures(report.before),
        "after": _figures(report.after),
    }
    suggest = pipeline.thresholds(store)[1]
    return Answer(facts, _lines(report, facts, suggest, dry_run), 0 if report.better else 1)


def _figures(pairs: list[Pair]) -> dict[str, Any]:
    names = ("low", "count", "confidence", "accepted")
    bins = [[round(value, 4) for value in b] for b in calibrate.bins(pairs)]
    return {
        "ece": round(calibrate.calibration_error(pairs), 4),
        "log_loss": round(calibrate.loss(pairs), 4),
        "bins": [dict(zip(names, b, strict=True)) for b in bins],
    }


def _lines(report: Report, facts: dict[str, Any], suggest: float, dry: bool) -> Iterator[str]:
    before, after = report.before, report.after
    yield f"{many(len(before), 'suggestion')} decided, {facts['accepted']} accepted"
    if before:
        yield from ["", *calibrate.diagram(after if report.better else before), ""]
    if not report.better:
        yield f"nothing changed: {report.reason}"
        return
    errors = f"ECE {facts['before']['ece']:.3f} before, {facts['after']['ece']:.3f} after"
    yield f"new numbers: {report.reason}; {errors}"
    fewer = sum(p >= suggest for p, _ in before) - sum(p >= suggest for p, _ in after)
    if fewer > 0:
        yield f"of these, {fewer} would no longer have been suggested"
    if dry:
        yield "nothing was changed; without --dry-run the new numbers would be in force"
    else:
        yield "the new numbers are in force; `git mem calibrate --reset` goes back"
