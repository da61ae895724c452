"""The command that fits capture's confidences to what was accepted and rejected here."""

from __future__ import annotations

from typing import Any

import typer

from ..capture import calibrate, pipeline, reliability_diagram
from ..capture.calibrate import Judged, Learned, Report
from ..core.errors import MemError
from . import app
from .common import opened, write, write_json


@app.command("calibrate")
def calibrate_command(
    report: str = typer.Option(
        "", "--report", metavar="FILE", help="Write the reliability plot there, as SVG."
    ),
    dry_run: bool = typer.Option(
        False, "--dry-run", help="Change nothing, only say what would be."
    ),
    reset: bool = typer.Option(
        False, "--reset", help="Go back to the calibration that came with git mem."
    ),
    as_json: bool = typer.Option(False, "--json", help="Print JSON."),
) -> int:
    """Fit capture's confidences to what you accepted and rejected with `git mem review`. Exit code
    1 where nothing changed.

    New numbers count only if they do better on decisions they have not seen. They live in your
    private notes."""
    with opened() as store:
        if reset:
            done = not dry_run and calibrate.reset(store)
            if as_json:
                write_json({"status": "reset" if done else "unchanged"})
            else:
                write(
                    "back to the packaged calibration"
                    if done
                    else "the packaged calibration is in force"
                )
            return 0 if done else 1
        auto, suggest = pipeline.thresholds(store)
        found = calibrate.calibrate(store, auto, write=not dry_run)
        if report:
            _save(report, found)
        if as_json:
            write_json(_as_json(found, auto, suggest))
        else:
            _say(found, auto, suggest, dry_run)
        return 0 if found.changed or (dry_run and found.judged.better) else 1


def _after(j: Judged) -> list[reliability_diagram.Pair]:
    """As confidences are from now on."""
    return j.after if j.better else j.before


def _save(name: str, found: Report) -> None:
    picture = reliability_diagram.svg(
        [("before", found.judged.before), ("after", _after(found.judged))],
        "Confidence of suggestions, and how many were accepted",
    )
    try:
        with open(name, "w", encoding="utf-8") as f:
            f.write(picture)
    except OSError as e:
        raise MemError(f"cannot write '{name}': {e.strerror}") from e


def _tiers(
    pairs: list[reliability_diagram.Pair], auto: float, suggest: float
) -> dict[str, dict[str, Any]]:
    """For each tier: how many, and the share that was accepted."""
    out = {}
    for tier, low, high in (
        ("AUTO", auto, 2.0),
        ("SUGGEST", suggest, auto),
        ("SKIP", -1.0, suggest),
    ):
        here = [right for p, right in pairs if low <= p < high]
        out[tier] = {
            "count": len(here),
            "precision": round(sum(here) / len(here), 4) if here else None,
        }
    return out


def _figures(pairs: list[reliability_diagram.Pair], auto: float, suggest: float) -> dict[str, Any]:
    return {
        "ece": round(reliability_diagram.error(pairs), 4),
        "log_loss": round(calibrate.loss(pairs), 4),
        "tiers": _tiers(pairs, auto, suggest),
        "bins": [
            {
                "low": b.low,
                "high": b.high,
                "count": b.n,
                "confidence": round(b.confidence, 4),
                "accepted": round(b.share, 4),
            }
            for b in reliability_diagram.bins(pairs)
        ],
    }


def _numbers(learned: Learned) -> dict[str, Any]:
    return {**learned.fit._asdict(), "words": len(learned.weights)}


def _as_json(found: Report, auto: float, suggest: float) -> dict[str, Any]:
    j = found.judged
    return {
        "status": "changed" if found.changed else "unchanged",
        "better": j.better,
        "reason": j.why,
        "verdicts": found.verdicts,
        "accepted": sum(k for _, k in j.before),
        "unasked": {"stored": found.stored, "taken_back": found.taken_back},
        "old": _numbers(j.old),
        "new": _numbers(j.new),
        "before": _figures(j.before, auto, suggest),
        "after": _figures(j.after, auto, suggest),
    }


def _say(found: Report, auto: float, suggest: float, dry: bool) -> None:
    j = found.judged
    write(
        f"{found.verdicts} suggestion{'s' * (found.verdicts != 1)} decided,"
        f" {sum(k for _, k in j.before)} accepted; {found.stored}"
        f" memor{'y' if found.stored == 1 else 'ies'} stored unasked, {found.taken_back} of them"
        " forgotten since"
    )
    if j.before:
        write()
        for line in reliability_diagram.text(_after(j)):
            write(line)
        write()
        for name, pairs in (
            (("before", j.before), ("after", j.after))
            if j.after is not j.before
            else (("before", j.before),)
        ):
            tiers = _tiers(pairs, auto, suggest)
            write(
                f"{name + ':':<8}ECE {reliability_diagram.error(pairs):.3f}; "
                + ", ".join(
                    f"{tier} {t['count']}"
                    + (f" ({t['precision']:.2f} accepted)" if t["count"] else "")
                    for tier, t in tiers.items()
                )
            )
    if j.better:
        write(
            f"new numbers{f', and weights for {len(j.new.weights)} n-grams of what you turned down' if j.new.weights else ''}:"  # noqa: E501
            f" {j.why}"
        )
        fewer = sum(p >= suggest for p, _ in j.before) - sum(p >= suggest for p, _ in j.after)
        if fewer > 0:
            write(f"of these, {fewer} would no longer have been suggested")
        write(
            "nothing was changed; without --dry-run they would be in force"
            if dry
            else "they are in force; `git mem calibrate --reset` goes back"
        )
    else:
        write(f"nothing changed: {j.why}")
