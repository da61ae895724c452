"""The command that measures how well memories are found, on judged data or on the user's own."""

import os
import pathlib
from collections.abc import Iterator
from typing import Any

import typer

from ..bench import bar_chart, beir, known_item, scores
from ..bench.scores import Estimate
from ..core.errors import MemError
from ..core.plural import many
from ..opening import chosen_vectors
from .common import opened, warn, write_file
from .options import Answer, argument, command, number, text


@command("bench")
def bench_command(
    folder: str = argument(
        "[FOLDER]", "BEIR's shape: corpus.jsonl, queries.jsonl, qrels.tsv or qrels/test.tsv.", ""
    ),
    save: str = text("--plot FILE", "Write a picture of the figures there, as SVG."),
    sample: int = number("--sample", "Ask at most so many (default: all; 200 of your own)."),
    seed: int = typer.Option(0, metavar="S", help="Chooses these questions."),
) -> Answer:
    """Measure how well memories are found.

    Without FOLDER your own: by questions made of their titles, and by everyday prompts, which
    should be told nothing. A folder's documents become memories of a throw-away repository.
    """
    if save and not os.path.isdir(os.path.dirname(os.path.abspath(save))):
        raise MemError(f"cannot write '{save}': no such directory")
    if folder:
        found = beir.measure(folder, sample, seed, warn)
        rows = {
            name.replace("ndcg", "nDCG").replace("mrr", "MRR"): figure
            for name, figure in found["metrics"].items()
        }
        counted = f"{found['documents']} documents, {found['questions']} questions"
        title = f"{pathlib.Path(folder).resolve().name}: {counted}"
        remarks = _remarks_folder(found)
    else:
        with opened() as store, chosen_vectors(store) as vectors:
            found = known_item.measure(store, sample, seed, vectors, warn)
        items, prompts = found["known_items"], found["everyday"]
        rows = {
            "found first": items["first"],
            "in the first three": items["first_three"],
            "MRR@10": items["mrr@10"],
            "everyday prompts told anything": prompts["told"],
        }
        counted = f"{many(items['questions'], 'question')}, {prompts['prompts']} everyday prompts"
        title = f"{many(found['memories'], 'memory')}, {counted}"
        remarks = _remarks_own(found)
    figures = [(name, f) for name, f in rows.items() if f]
    if save:
        bars = [(name, f.mean, f.low, f.high) for name, f in figures]
        write_file(save, [bar_chart.bars(bars, title)])
    lines = [title, f"{'':<30}  value   95 % interval     n"]
    for name, f in figures:
        lines.append(f"{name:<30}  {f.mean:.3f}  {f.low:.3f} to {f.high:.3f}  {f.n:>4}")
    return Answer(_public(found), [*lines, *remarks])


def _remarks_folder(found: dict[str, Any]) -> Iterator[str]:
    for name, n in found["omitted"].items():
        if n:
            yield f"{name.replace('_', ' ')}: {n}"
    took = ", ".join(f"{name} {seconds:.1f}" for name, seconds in found["seconds"].items())
    yield f"{sum(found['seconds'].values()):.1f} s: {took}"


def _remarks_own(found: dict[str, Any]) -> Iterator[str]:
    memories, encoded = found["memories"], found["with_encoder_vector"]
    if not found["known_items"]["questions"]:
        yield f"no title or first sentence has {known_item.FEWEST} content words to ask with"
    if encoded is None:
        yield "the encoder is off: `git config mem.encoder true` turns it on"
    else:
        hint = "; `git mem index --all` makes the others" if encoded < memories else ""
        yield f"{encoded} of {memories} memories have the encoder's vector{hint}"
    for prompt in found["everyday"]["told_prompts"][:5]:  # --json names all
        yield f"told something: {' '.join(prompt.split())[:60]}"
    yield f"{found['seconds']:.1f} s"


def _public(found: Any) -> Any:
    if isinstance(found, Estimate):
        return scores.public(found)
    if isinstance(found, dict):
        return {name: _public(value) for name, value in found.items()}
    return found
