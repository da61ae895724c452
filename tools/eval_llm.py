#!/usr/bin/env python3
"""Does a language model earn its place in capture? Measures what its label probabilities and its
titles add.

The linear model here has seen nothing of the evaluation's turns (it is trained on the other chats
alone); how much the language model counts beside it is fitted on one of the evaluation's
repositories and judged on the others. Answers are kept in a file, so a long run can be broken off:
what is there is measured.

    python tools/eval_llm.py --turns turns.jsonl --eval ../shared/eval --model FILE.gguf --answers
    answers.jsonl python tools/eval_llm.py --model FILE.gguf --answers titles.jsonl --titles 210
    --commits CLONE ...
"""

from __future__ import annotations

import argparse
import json
import os
import random
import sys
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tools")]

import eval_capture as measure  # noqa: E402
import train_capture as train  # noqa: E402
from sklearn.linear_model import LogisticRegression  # noqa: E402

from gitmem.capture import classify, commitlog, linear, signals  # noqa: E402
from gitmem.core import record  # noqa: E402
from gitmem.git.gitcmd import Git  # noqa: E402
from gitmem.models import llama, promptform  # noqa: E402

np = train.np
NEWEST = 3000  # commits of a repository from which bodies are drawn
LONG = 120  # characters of a body that needs a title


def answers(
    path: Path, rows: list[train.Row], model: str, threads: int, most: int
) -> dict[str, dict[str, Any]]:
    """{id: {"p": label probabilities, "s": seconds}}; what the file lacks is asked, in random
    order.
    """
    found = (
        {a["id"]: a for a in map(json.loads, path.read_text(encoding="utf-8").splitlines())}
        if path.exists()
        else {}
    )
    left = [r for r in rows if r.id not in found and r.keep is not None]
    random.Random(1).shuffle(left)
    if left[:most] and model:
        asked = llama.Language(model, "", threads)
        with path.open("a", encoding="utf-8") as f:
            if "leaning" not in found:
                found["leaning"] = {"id": "leaning", "p": asked.leaning()}
                print(json.dumps(found["leaning"]), file=f, flush=True)
            for r in left[:most]:
                start = time.perf_counter()
                p = asked.probabilities(r.role, r.text)
                found[r.id] = {"id": r.id, "p": p, "s": round(time.perf_counter() - start, 3)}
                print(json.dumps(found[r.id]), file=f, flush=True)
    return found


def logit(x: Any) -> Any:
    x = np.clip(x, 0.002, 0.99)
    return np.log(x / (1 - x))


def report(name: str, wanted: Any, shares: Any) -> None:
    auto = shares >= 0.95
    print(
        f"| {name} | {len(wanted)} | {wanted.mean():.2f} |"
        f" {measure.average_precision(wanted, shares):.3f} |"
        f" {measure.recall_at(wanted, shares, 0.9):.2f} |"
        f" {measure.recall_at(wanted, shares, 0.7):.2f} |"
        f" {measure.calibration_error(wanted, shares):.3f} | {int(auto.sum())} |"
        f" {wanted[auto].mean() if auto.any() else float('nan'):.3f} |"
    )


def keep_or_not(
    rows: list[train.Row], model: linear.Model, told: dict[str, dict[str, Any]]
) -> None:
    rows = [
        r
        for r in rows
        if r.keep is not None
        and r.id in told
        and (s := signals.read(r.role, r.text), s is None or s.kind == "stated")[1]
    ]
    wanted, repo = np.array([r.keep for r in rows]), np.array([r.repo for r in rows])
    own = np.array([model.confidence(model.score(r.role, r.text), r.role) for r in rows])
    said = np.array([1 - told[r.id]["p"][promptform.SKIP] for r in rows])
    print(
        f"\nturns that the rules leave open: {len(rows)};"
        f" {np.mean([told[r.id]['s'] for r in rows]):.2f} s an answer on this machine as it was\n"
    )
    print(
        "| judged by | turns | kept | average precision | recall at 0.9 | at 0.7 | ECE | at least"
        " 0.95 | right of them |\n|---|---|---|---|---|---|---|---|---|"
    )
    report("linear model alone", wanted, own)
    report("language model alone", wanted, said)
    both, without = np.zeros(len(rows)), np.zeros(len(rows))
    for name in sorted(set(repo)):
        test, rest = repo == name, repo != name
        for out, columns in (
            (both, np.c_[logit(own), logit(said)]),
            (without, logit(own)[:, None]),
        ):
            fitted = LogisticRegression(C=1.0).fit(columns[rest], wanted[rest])
            out[test] = fitted.predict_proba(columns[test])[:, 1]
            if columns.shape[1] == 2:
                print(
                    f"  (judged on {name}: weights {fitted.coef_[0][0]:.2f} and"
                    f" {fitted.coef_[0][1]:.2f}, {test.sum()} turns)",
                    file=sys.stderr,
                )
    report("linear, recalibrated on the other repository", wanted, without)
    report("both, fitted on the other repository", wanted, both)
    for low, high in ((0.2, 0.95), (0.2, 0.6)):
        some = (own >= low) & (own < high)
        if 0 < wanted[some].sum() < some.sum():
            report(f"unsure ({low} to {high}): linear", wanted[some], own[some])
            report(f"unsure ({low} to {high}): language model", wanted[some], said[some])
            report(f"unsure ({low} to {high}): both", wanted[some], both[some])
    rng = np.random.default_rng(1)
    gains = []
    for _ in range(1000):
        pick = rng.integers(0, len(rows), len(rows))
        gains.append(
            measure.average_precision(wanted[pick], both[pick])
            - measure.average_precision(wanted[pick], without[pick])
        )
    print(
        f"\naverage precision gained by asking: {np.mean(gains):+.3f}, 95 % of resamples between"
        f" {np.quantile(gains, 0.025):+.3f} and {np.quantile(gains, 0.975):+.3f}"
    )


def types(rows: list[train.Row], model: linear.Model, told: dict[str, dict[str, Any]]) -> None:
    kept = [r for r in rows if r.type in linear.TYPES and r.id in told]
    own = [max(t := model.types(r.role, r.text), key=t.__getitem__) for r in kept]
    said = [max(promptform.TYPES, key=told[r.id]["p"].__getitem__) for r in kept]
    leaning = told.get("leaning", {}).get("p")
    both = (
        [
            classify._likeliest_by_both(
                model.types(r.role, r.text), promptform.types(told[r.id]["p"], leaning)
            )
            for r in kept
        ]
        if leaning
        else own
    )
    right = {
        name: np.array([a == r.type for a, r in zip(got, kept, strict=True)])
        for name, got in (("linear model", own), ("language model", said), ("both", both))
    }
    print(
        f"\ntype of {len(kept)} turns worth keeping: "
        + ", ".join(f"{name} right {np.mean(x):.3f}" for name, x in right.items())
    )
    print(
        f"by both: {int((right['both'] & ~right['linear model']).sum())} became right,"
        f" {int((right['linear model'] & ~right['both']).sum())} wrong"
    )


def words(text: str) -> set[str]:
    return {
        w for w in "".join(c.lower() if c.isalnum() else " " for c in text).split() if len(w) > 2
    }


def bodies(repositories: list[Path], most: int) -> list[tuple[str, str, str]]:
    """(id, subject, body without trailers) of commits whose body is long enough for a title, as
    many from each repository, of its newest.
    """
    out: list[tuple[str, str, str]] = []
    for place, path in enumerate(repositories):
        found = []
        for c in commitlog.read(Git(str(path)), ["HEAD"], [], NEWEST):
            subject, _, body = commitlog.split(c.message.replace("\r\n", "\n").strip())[
                1
            ].partition("\n")
            if (
                len(body.strip()) > LONG
                and not commitlog._BOT.search(c.author)
                and not commitlog._ROUTINE.match(subject)
                and len(words(subject)) > 2
            ):
                found.append((c.id, subject, body.strip()))
        out += sorted(found)[
            : (most - len(out)) // (len(repositories) - place)
        ]  # ids are as good as drawn
    return sorted(out)


def titles(repositories: list[Path], path: str, threads: int, most: int, kept: Path) -> None:
    """Titles of commit bodies against the subjects that their authors wrote."""
    told = (
        {
            a["id"]: a["title"]
            for a in map(json.loads, kept.read_text(encoding="utf-8").splitlines())
        }
        if kept.exists()
        else {}
    )
    asked = None
    rows: dict[str, list[tuple[float, float]]] = {"first line": [], "language model": []}
    for id, wanted, body in bodies(repositories, most):
        if id not in told:
            if not path:
                continue
            asked = asked or llama.Language(path, "", threads)
            told[id] = asked.title("commit", promptform.shortened(body), "learning")
            with kept.open("a", encoding="utf-8") as f:
                print(json.dumps({"id": id, "title": told[id]}), file=f)
        subject = words(wanted)
        for name, title in (
            ("first line", record.title_of({"body": body})),
            ("language model", told[id]),
        ):
            got = words(title)
            rows[name].append(
                (
                    2 * len(got & subject) / (len(got) + len(subject)),
                    len(got & words(body)) / len(got) if got else 1.0,
                )
            )
    print(
        f"\n| title of {len(rows['first line'])} commit bodies | F1 of its words against the"
        " author's subject | words that the text has |\n|---|---|---|"
    )
    for name, found in rows.items():
        print(
            f"| {name} | {np.mean([f for f, _ in found]):.3f} |"
            f" {np.mean([s for _, s in found]):.2f} |"
        )
    gains = np.array([b[0] - a[0] for a, b in zip(*rows.values(), strict=True)])
    drawn = gains[np.random.default_rng(1).integers(0, len(gains), (10_000, len(gains)))].mean(1)
    print(
        f"\nthe model's title against the first line: {gains.mean():+.3f}, 95 % of resamples"
        f" between {np.quantile(drawn, 0.025):+.3f} and {np.quantile(drawn, 0.975):+.3f}; better"
        f" {int((gains > 0).sum())}, worse {int((gains < 0).sum())}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--turns",
        type=Path,
        help="chats to train the linear model on, as tools/build_capture_data.py writes them",
    )
    parser.add_argument("--eval", type=Path, default=os.environ.get("GIT_MEM_EVAL_ROOT"))
    parser.add_argument(
        "--model",
        default="",
        help="the GGUF to ask; without it only what --answers holds is measured",
    )
    parser.add_argument("--answers", type=Path, required=True)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--most", type=int, default=1 << 30)
    parser.add_argument(
        "--titles",
        type=int,
        default=0,
        help="judge titles of so many commits instead; made ones are kept in --answers",
    )
    parser.add_argument(
        "--commits", type=Path, nargs="*", default=[], help="git directories for --titles"
    )
    args = parser.parse_args()
    if args.titles:
        titles(args.commits, args.model, args.threads, args.titles, args.answers)
        return
    dev = train.dev_turns(args.eval)
    told = answers(args.answers, dev, args.model, args.threads, args.most)
    rows = train.turns(args.turns)
    data = train.Data(rows)
    model = measure.trained_without(data, np.ones(len(rows), bool))
    keep_or_not(dev, model, told)
    types(dev, model, told)


if __name__ == "__main__":
    main()
