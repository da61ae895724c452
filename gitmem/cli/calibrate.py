"""The command that fits capture's confidences to what the user accepted and rejected."""

from collections.abc import Iterator
from typing import Any

from ..capture import calibrate, pipeline, reliability_diagram
from ..capture.calibrate import Report
from ..capture.reliability_diagram import Pair
from ..core.plural import many
from ..store import Store
from .options import Answer, command, flag

_Thresholds = tuple[float, float]  # from which confidence on a turn is AUTO, and SUGGEST


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
    if reset and not dry_run and calibrate.reset(store):
        return Answer({"status": "reset"}, ["back to the packaged calibration"])
    if reset:
        return Answer({"status": "unchanged"}, ["the packaged calibration is in force"], 1)
    report = calibrate.calibrate(store, write=not dry_run)
    tiers = pipeline.thresholds(store)
    facts = _facts(report, tiers, dry_run)
    return Answer(facts, _lines(report, facts, tiers[1], dry_run), 0 if report.better else 1)


def _tiers(pairs: list[Pair], thresholds: _Thresholds) -> dict[str, dict[str, Any]]:
    """For each tier: how many suggestions, and the share that was accepted."""
    auto, suggest = thresholds
    out = {}
    for tier, low, high in (("AUTO", auto, 2.0), ("SUGGEST", suggest, auto), ("SKIP", -1, suggest)):
        kept = [right for p, right in pairs if low <= p < high]
        precision = round(sum(kept) / len(kept), 4) if kept else None
        out[tier] = {"count": len(kept), "precision": precision}
    return out


def _figures(pairs: list[Pair], thresholds: _Thresholds) -> dict[str, Any]:
    names = ("low", "high", "count", "confidence", "accepted")
    bins = [[round(value, 4) for value in b] for b in reliability_diagram.bins(pairs)]
    return {
        "ece": round(reliability_diagram.error(pairs), 4),
        "log_loss": round(calibrate.loss(pairs), 4),
        "tiers": _tiers(pairs, thresholds),
        "bins": [dict(zip(names, b, strict=True)) for b in bins],
    }


def _facts(report: Report, thresholds: _Thresholds, dry: bool) -> dict[str, Any]:
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


def _lines(report: Report, facts: dict[str, Any], suggest: float, dry: bool) -> Iterator[str]:
    before, after = report.before, report.after
    yield (
        f"{many(len(before), 'suggestion')} decided, {facts['accepted']} accepted;"
        f" {many(report.stored, 'memory')} stored unasked,"
        f" {report.forgotten} of them forgotten since"
    )
    if before:
        yield ""
        yield from reliability_diagram.text(after if report.better else before)
        yield ""
        yield _summary("before", facts)
    if not report.better:
        yield f"nothing changed: {report.reason}"
        return
    yield _summary("after", facts)
    yield f"new numbers: {report.reason}"
    fewer = sum(p >= suggest for p, _ in before) - sum(p >= suggest for p, _ in after)
    if fewer > 0:
        yield f"of these, {fewer} would no longer have been suggested"
    if dry:
        yield "nothing was changed; without --dry-run the new numbers would be in force"
    else:
        yield "the new numbers are in force; `git mem calibrate --reset` goes back"


def _summary(name: str, facts: dict[str, Any]) -> str:
    tiers = []
    for tier, found in facts[name]["tiers"].items():
        accepted = f" ({found['precision']:.2f} accepted)" if found["count"] else ""
        tiers.append(f"{tier} {found['count']}{accepted}")
    return f"{name + ':':<8}ECE {facts[name]['ece']:.3f}; {', '.join(tiers)}"
