#!/usr/bin/env python3
"""Make the training pairs of the sentence encoder from public repositories.

    python tools/build_pairs.py --clones FOLDER --out pairs.jsonl

`tools/data/encoder_sources.tsv` names the repositories, the commit that is read,
the licence and the kinds of pair taken. FOLDER holds one clone each, named
OWNER+NAME (bare or not); a missing one is cloned from GitHub. Each line written is
`{"kind", "repo", "q", "d"}`: a question and the text that answers it. No text
is kept in this project; the same commits give the same bytes.

Kinds, all but the last by rule:

commit     subject of a commit -> its body
order      subject of a commit -> body of an earlier one on the same file that shares a rare word
heading    heading in a document -> the text below it
changelog  changelog entry -> body of the commit with its number
why        what a lint rule does -> why it exists, and the other way round
docstring  first sentence of a docstring -> the code without it, or the rest of the docstring
tldr       what a command does -> the command
written    question and order of work in other words, by a language model: for a text of a
           repository (`encoder_questions.tsv`) or for a made-up note (`encoder_notes.tsv`)
"""

from __future__ import annotations

import argparse
import ast
import json
import random
import re
import subprocess
import textwrap
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from hashlib import sha256
from itertools import chain
from pathlib import Path

DATA = Path(__file__).resolve().parent / "data"
# Pairs of one repository.
MOST = {"commit": 1800, "order": 500, "heading": 1200, "changelog": 700, "why": 1600}
MOST |= {"docstring": 900, "tldr": 2500}
DOCUMENT = re.compile(r"\.(md|mdx|mdc|rst)$")
NO_DOCUMENT = re.compile(
    r"(^|/)(change|history|news|release|licen|code_of|test|fixture|vendor|node_modules|i18n"
    r"|translations)",
    re.I,
)
HELD_OUT = {
    *("LiLiKazine/Keraunos", "LightShield/guild", "helix-editor/helix", "electron/electron"),
    "notes/held-out",
}
STOP_WORDS = """
a an and are as at be been but by can did do does for from had has have how i if in into is it
its me more most my no not of on or our out so that the their them then there these they this to
up us use used using was we were what when where which while who why will with would you your
"""
STOP = set(STOP_WORDS.split())
TRAILER = re.compile(
    r"^([A-Z][\w-]+-by|Change-Id|Bug|Fixes|Closes|Refs?|Resolves|PR-URL|Co-authored|Signed-off"
    r"|Reviewed|Claude-Session)\b.*:|^(fixes|closes|resolves|refs?) #\d+|Generated with"
    r"|^https?://\S+$",
    re.I,
)
BOT = re.compile(
    r"^(merge|revert|bump|chore\(deps|build\(deps|update dependenc|release|prepare|backport"
    r"|auto merge|\[pre-commit|rollup|version )",
    re.I,
)
PREFIX = re.compile(r"^(\w+(\([^)]*\))?!?|\[[^\]]*\]|[\w./,-]+):\s+")


def git(clone: Path, *arguments: str) -> str:
    command = ["git", "-C", str(clone), *arguments]
    return subprocess.run(command, check=True, capture_output=True).stdout.decode(
        "utf-8", "replace"
    )


def files(clone: Path, head: str, wanted: Callable[[str], object]) -> Iterator[tuple[str, str]]:
    """Path and text of the files whose path is wanted, up to 400,000 characters each."""
    paths = [
        p for p in git(clone, "ls-tree", "-r", "--name-only", head).split("\n") if p and wanted(p)
    ]
    asked = "".join(f"{head}:{p}\n" for p in paths).encode()
    raw = subprocess.run(
        ["git", "-C", str(clone), "cat-file", "--batch"],
        input=asked,
        check=True,
        capture_output=True,
    ).stdout
    at = 0
    for path in paths:
        line = raw[at : raw.index(b"\n", at)]
        at += len(line) + 1
        if line.endswith(b" missing"):
            continue
        size = int(line.rsplit(b" ", 1)[1])
        if size < 400_000:
            yield path, raw[at : at + size].decode("utf-8", "replace")
        at += size + 1


def tidy(text: str) -> str:
    """Markup off, blanks single."""
    text = re.sub(r"<!--.*?-->|<[^<>\n]{1,200}>", " ", text, flags=re.S)
    text = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", text)
    text = re.sub(r"https?://\S+", " ", text)
    text = re.sub(r"[*`]{1,3}|^[>#=~-]{2,}$|\{\{|\}\}|:\w+:(?=`)", "", text, flags=re.M)
    return re.sub(r"\s+", " ", text).strip()


def cut(text: str, most: int = 90) -> str:
    return " ".join(text.split()[:most])


def prose_enough(text: str, least: int = 12) -> bool:
    return len(text.split()) >= least and sum(
        c.isalpha() or c.isspace() for c in text
    ) > 0.75 * len(text)


def commits(clone: Path, head: str, most: int = 12000) -> Iterator[tuple[str, str, list[str]]]:
    """Subject, body without trailers, and files; newest first."""
    shape = ("--no-merges", "--name-only", "--diff-merges=off", "--no-renames")
    log = git(clone, "log", head, *shape, f"-n{most}", "--format=%x01%s%x02%b%x03")
    for entry in log.split("\x01")[1:]:
        subject, rest = entry.split("\x02", 1)
        body, files = rest.rsplit("\x03", 1)
        if BOT.match(PREFIX.sub("", subject)) or BOT.match(subject):
            continue
        lines = [x for x in body.split("\n") if not TRAILER.search(x.strip())]
        yield subject.strip(), cut(tidy("\n".join(lines))), files.split()[:20]


def plain_subject(subject: str) -> str:
    subject = re.sub(r"\s*\(?(GH-)?#\d+\)?\.?$", "", subject)
    return tidy(PREFIX.sub("", subject)) or subject


def from_history(clone: Path, head: str, kinds: set[str]) -> Iterator[tuple[str, str, str]]:
    entries = list(commits(clone, head))
    seen: set[str] = set()
    by_file: dict[str, list[int]] = defaultdict(list)
    rare = Counter(word for _, body, _ in entries for word in set(re.findall(r"\w{5,}", body)))
    kept = []
    for at, (subject, body, files) in enumerate(entries):
        short = plain_subject(subject)
        if not prose_enough(body) or body[:60] in seen or len(short.split()) < 3:
            continue
        seen.add(body[:60])
        kept.append(at)
        for file in files:
            by_file[file].append(at)
        if "commit" in kinds:
            yield "commit", short, body
    if "order" not in kinds:
        return
    for at in kept:
        subject, body, files = entries[at]
        words = {w for w in re.findall(r"\w{5,}", subject + " " + body) if 2 <= rare[w] <= 8}
        best, score = -1, 0
        for older in {o for file in files for o in by_file[file] if at < o < at + 3000}:
            shared = len(words & set(re.findall(r"\w{5,}", entries[older][1])))
            if (shared, -older) > (score, -best):
                best, score = older, shared
        if score >= 2:
            yield "order", plain_subject(subject), entries[best][1]


def sections(text: str, rst: bool) -> Iterator[tuple[str, str, str]]:
    """Title of the document, heading and the text below it."""
    text = re.sub(r"\A---\n.*?\n---\n", "", text, flags=re.S)
    text = re.sub(r"^(```|~~~).*?^\1", "", text, flags=re.S | re.M)
    if rst:
        parts = re.split(r"^(.+)\n([=\-~^\"+#*])\2{2,}\n", text, flags=re.M)
        found = [(parts[i], parts[i + 2]) for i in range(1, len(parts) - 2, 3)]
    else:
        parts = re.split(r"^#{1,5}\s+(.+)$", text, flags=re.M)
        found = [(parts[i], parts[i + 1]) for i in range(1, len(parts) - 1, 2)]
    title = tidy(found[0][0]) if found else ""
    for heading, body in found:
        yield title, tidy(heading), body


def from_documents(clone: Path, head: str) -> Iterator[tuple[str, str, str]]:
    for path, text in files(
        clone, head, lambda p: DOCUMENT.search(p) and not NO_DOCUMENT.search(p)
    ):
        for title, heading, body in sections(text, path.endswith("rst")):
            body = cut(tidy(body))
            heading = re.sub(
                r"^[\d.)\s]+|^(ADR|D|DEC|L)[-\s]?\d+[:.\s—–-]*"
                r"|^\d{4}-\d\d-\d\d[:\s—–-]*|\{#.*\}$",
                "",
                heading,
            ).strip(" —–-:")
            if not prose_enough(body, 14):
                continue
            if len(heading.split()) < 3 and title and title != heading and len(title.split()) < 7:
                heading = f"{title}: {heading}"
            if len(heading.split()) >= 3:
                yield "heading", heading, body


def from_changelog(clone: Path, head: str) -> Iterator[tuple[str, str, str]]:
    bodies: dict[str, str] = {}
    for subject, body, _ in commits(clone, head):
        for number in re.findall(r"#(\d{2,6})", subject):
            if prose_enough(body):
                bodies.setdefault(number, body)
    changelog = re.compile(r"(^|/)(CHANGELOG|CHANGES|changelog)[^/]*(/[^/]*)?\.(md|rst)$")
    for _, text in files(clone, head, changelog.search):
        for entry in re.split(r"^\s*[-*] ", text, flags=re.M)[1:]:
            entry = entry.split("\n\n")[0]
            numbers = re.findall(r"#(\d{2,6})|/(?:pull|issues)/(\d{2,6})", entry)
            short = tidy(
                re.sub(r"\(?\[?#\d+\]?(\([^)]*\))?\)?|\(?@[\w-]+\)?|\bby\s+@.*", "", entry)
            ).strip(" .,()[]")
            for pair in numbers[:1]:
                body = bodies.get(pair[0] or pair[1])
                if body and 4 <= len(short.split()) <= 40:
                    yield "changelog", short, body


def from_lints(clone: Path, head: str) -> Iterator[tuple[str, str, str]]:
    text = git(clone, "grep", "-hE", r"^\s*///", head, "--", "*.rs")
    text = re.sub(r"^\s*/// ?", "", text, flags=re.M)
    parts = re.split(r"^#+ (.+)$", text, flags=re.M)
    what = ""
    for i in range(1, len(parts) - 1, 2):
        body = cut(tidy(re.split(r"^```", parts[i + 1], flags=re.M)[0]))
        if parts[i].startswith("What it does"):
            what = re.sub(
                r"^(Checks? for|Detects|Lints|Warns (about|if|when))( the)?"
                r"( usages?| uses?)?( of)?\s+",
                "",
                body,
            )
        elif parts[i].startswith("Why") and what and prose_enough(body, 8):
            yield "why", cut(what, 30), body
            yield "why", cut(re.split(r"(?<=[.!]) ", body)[0], 30), cut(what)
            what = ""


def from_python(clone: Path, head: str) -> Iterator[tuple[str, str, str]]:
    for _, text in files(
        clone, head, lambda p: p.endswith(".py") and not re.search(r"(^|/)tests?(/|_)", p)
    ):
        try:
            tree = ast.parse(text)
        except (SyntaxError, ValueError):
            continue
        lines = text.split("\n")
        for node in ast.walk(tree):
            if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) or len(node.body) < 2:
                continue
            doc = ast.get_docstring(node)
            if not doc:
                continue
            first, _, rest = doc.partition("\n\n")
            first, rest = (
                tidy(first),
                tidy(re.split(r">>>|^\s*(:param|Args:|Parameters|Returns|@)", rest, flags=re.M)[0]),
            )
            if not 4 <= len(first.split()) <= 30:
                continue
            head_line = lines[node.lineno - 1].strip()
            code = "\n".join(lines[node.body[1].lineno - 1 : (node.end_lineno or node.lineno)])
            code = f"{head_line}\n{textwrap.dedent(code)}"[:420]
            if prose_enough(rest, 14) and len(rest) % 2:
                yield "docstring", first, cut(rest)
            elif len(code) > 80:
                yield "docstring", first, code


def from_tldr(clone: Path, head: str) -> Iterator[tuple[str, str, str]]:
    for path, text in files(clone, head, lambda p: p.startswith("pages/") and p.endswith(".md")):
        name = path.rsplit("/", 1)[1][:-3]
        about = tidy(" ".join(re.findall(r"^> (?!More info|See also)(.+)$", text, re.M)))
        found = [
            (tidy(re.sub(r"\[(\w+)\]", r"\1", w)), tidy(c))
            for w, c in re.findall(r"^- (.+):\n\n`(.+)`$", text, re.M)
        ]
        yield from (("tldr", what, command) for what, command in found[:2])
        if len(about.split()) > 3:
            yield (
                "tldr",
                about.rstrip("."),
                f"{name}: " + cut("; ".join(what for what, _ in found[:4]), 50),
            )


def key(text: str) -> str:
    return sha256(" ".join(text.split()[:8]).encode()).hexdigest()[:12]


def from_written(clone: Path, head: str, name: str) -> Iterator[tuple[str, str, str]]:
    wanted = defaultdict(list)
    for row in (DATA / "encoder_questions.tsv").read_text(encoding="utf-8").splitlines()[1:]:
        repo, at, q, order = row.split("\t")
        if repo == name:
            wanted[at].append((q, order))
    if not wanted:
        return

    def candidates() -> Iterator[str]:
        yield from (body for _, body, _ in commits(clone, head))
        for path, text in files(clone, head, DOCUMENT.search):
            for _, _, body in sections(text, path.endswith("rst")):
                yield tidy(body)
                yield from (
                    tidy(item) for item in re.split(r"^\s*(?:[-*]|\d+\.) ", body, flags=re.M)
                )

    for text in candidates():
        for q, order in wanted.pop(key(text), []):
            yield "written", q, cut(text, 60)
            yield "written", order, cut(text, 60)
    if wanted:
        print(f"{name}: {len(wanted)} texts of questions not found")


def made_up() -> Iterator[dict[str, str]]:
    for i, row in enumerate(
        (DATA / "encoder_notes.tsv").read_text(encoding="utf-8").splitlines()[1:]
    ):
        note, q, order = row.split("\t")
        for asked in (q, order):
            yield {
                "kind": "written",
                "repo": "notes/held-out" if i % 5 == 4 else "notes",
                "q": asked,
                "d": note,
            }


READERS = {
    "heading": from_documents,
    "changelog": from_changelog,
    "why": from_lints,
    "docstring": from_python,
    "tldr": from_tldr,
}


def pairs_of(clone: Path, head: str, kinds: set[str]) -> Iterator[tuple[str, str, str]]:
    if kinds & {"commit", "order"}:
        yield from from_history(clone, head, kinds)
    for kind, reader in READERS.items():
        if kind in kinds:
            yield from reader(clone, head)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--clones", required=True, type=Path)
    parser.add_argument("--out", required=True, type=Path)
    arguments = parser.parse_args()
    total: Counter[str] = Counter()
    with arguments.out.open("w", encoding="utf-8") as out:
        for source in (DATA / "encoder_sources.tsv").read_text(encoding="utf-8").splitlines()[1:]:
            name, head, _licence, kinds = source.split("\t")
            clone = arguments.clones / name.replace("/", "+")
            if not clone.exists():
                subprocess.run(
                    [
                        "git",
                        "clone",
                        "-q",
                        "--no-checkout",
                        f"https://github.com/{name}",
                        str(clone),
                    ],
                    check=True,
                )
            found: dict[str, list[tuple[str, str, str]]] = defaultdict(list)
            for kind, q, d in chain(
                pairs_of(clone, head, set(kinds.split(","))), from_written(clone, head, name)
            ):
                if q.isascii() or sum(c.isascii() for c in q + d) > 0.9 * len(q + d):
                    found[kind].append((kind, q[:240], d[:600]))
            for group, rows in found.items():
                rows = sorted(set(rows))  # a checksum as seed: the same draw on every machine
                random.Random(sha256(f"{name} {group}".encode()).hexdigest()).shuffle(rows)
                for kind, q, d in rows[: MOST.get(group)]:
                    total[kind] += 1
                    out.write(json.dumps({"kind": kind, "repo": name, "q": q, "d": d}) + "\n")
            print(name, {k: len(v) for k, v in found.items()}, flush=True)
        for row in made_up():
            total["made up"] += 1
            out.write(json.dumps(row) + "\n")
    print(dict(total), sum(total.values()))


if __name__ == "__main__":
    main()
