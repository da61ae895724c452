"""`git mem diff --format md`: a comment for a pull request in which no memory's text fires."""

from __future__ import annotations

import random
from typing import Any

import pytest
from conftest import Lab
from markdown_it import MarkdownIt
from places import commit

from gitmem.core.record import title_of
from gitmem.render import diff_markdown

HOSTILE = (
    "@ada please <img src=x onerror=alert(1)> <!-- hide",
    "`code` ends here @ada ``and`` here ```` @ada",
    "[click](https://evil.example) https://evil.example #12 GH-12 org/repo@main",
    "title\n\n# heading @ada\n- item\n```\n@ada",
    "\\` @ada \\",
    "`",
    "\u202e\x1b[31m @ada | cell |",
    "</details><script>@ada</script>",
)


def shown(text: str) -> tuple[str, str]:
    """(what of Markdown fires: text outside of code, HTML and links, what stands in code spans)."""
    parser = MarkdownIt("commonmark", {"html": True}).enable("table")
    free, code = [], []
    for block in parser.parse(text):
        if block.type in ("html_block", "fence", "code_block"):
            free.append(block.content)
        for token in block.children or []:
            (code if token.type == "code_inline" else free).append(token.content or token.type)
    return " ".join(free), " ".join(code)


def memory(title: str, **more: Any) -> dict[str, Any]:
    return {"id": "7c1e90a2" * 4, "type": "decision", "title": title, **more}


def about(title: str) -> dict[str, Any]:
    one = memory(title)
    return {
        "base": {"name": title},
        "tip": {"name": "topic"},
        "teaches": [one],
        "changes": [{"before": memory(f"{title} before"), "after": one}],
        "contradicts": [{"memory": one, "against": one, "by": "another value"}],
        "forgets": [memory("x", type=title)],
        "stale": [{**one, "paths": [{"path": title, "state": "gone"}]}],
    }


@pytest.mark.quick
@pytest.mark.parametrize("title", HOSTILE)
def test_a_memorys_text_stays_within_code_spans(title: str) -> None:
    free, code = shown("\n".join(diff_markdown.lines(about(title))))
    harmless, _ = shown("\n".join(diff_markdown.lines(about("harmless"))))
    assert free == harmless and "harmless" not in harmless
    assert title.split()[0].strip("`\\\u202e\x1b[31m") in code


@pytest.mark.quick
def test_the_probe_can_fail() -> None:
    assert "@ada" in shown("- `a` @ada")[0] and "<b>" in shown("- <b>x")[0]
    assert "link_open" in shown("[a](b)")[0]


@pytest.mark.quick
def test_long_lists_and_titles_are_cut() -> None:
    found = {**about("x" * 5000), "teaches": [memory(f"number {i}") for i in range(30)]}
    text = list(diff_markdown.lines(found))
    assert "- … and 10 more" in text and max(map(len, text)) < 500
    assert sum(line.startswith("- `decision` `number") for line in text) == 20


@pytest.mark.quick
def test_what_may_not_be_public_is_left_out_or_masked() -> None:
    private = memory("for me alone", scope="private")
    found = {
        **about("deploy with ghp_" + "MTX6T5bC6O3hDpHJanr4VjXiMha2mn82r7HQ"),
        "base": {"name": "1a" * 20},
        "teaches": [private, memory("for all", scope="team")],
        "contradicts": [{"memory": memory("for all"), "against": private, "by": "a value"}],
        "stale": [{**private, "paths": []}],
    }
    text = "\n".join(diff_markdown.lines(found))
    assert "for me alone" not in text and "deploy with [redacted: github" in text
    assert "ghp_" not in text
    assert "From `1a1a1a1a1a1a` to `topic`: 1 taught, 1 changed, 1 forgotten. 3 private" in text


@pytest.mark.quick
def test_of_a_secret_that_a_title_cuts_in_two_no_part_is_shown() -> None:
    word = "".join(random.Random(3).choices("abcdefghkmnpqrstuvwxyzABCDEFGH23456789", k=70))
    body = f"postgres://bob:{word}@db.corp/shop is the database"
    cut = memory(title_of({"body": body}), body=body)
    text = "\n".join(diff_markdown.lines({**about("x"), "teaches": [cut]}))
    assert word[:40] in cut["title"] and word[:8] not in text and "redacted" in text


@pytest.mark.quick
def test_of_a_change_that_keeps_the_title_the_title_stands_once() -> None:
    one = memory("the same")
    text = "\n".join(
        diff_markdown.lines({**about("x"), "changes": [{"before": one, "after": one}]})
    )
    assert text.count("the same") == 1


def test_the_command_prints_what_a_branch_teaches(lab: Lab) -> None:
    repo = lab.repo()
    commit(lab, repo, "a.py", "one")
    lab.mem(repo, "remember", "The parser must not recurse", "--path", "a.py")
    lab.git(repo, "checkout", "-q", "-b", "topic")
    assert "nothing new." in lab.mem(repo, "diff", "--format", "md", "main...topic")
    commit(lab, repo, "a.py", "two")
    lab.mem(repo, "remember", "The lexer is a table", "--type", "decision")
    told = lab.mem(repo, "diff", "--format", "md", "main...topic").splitlines()
    assert told[:3] == ["### Memories", "", "From `main` to `topic`: 1 taught, 1 made stale."]
    assert any(line.startswith("- `decision` `The lexer is a table` (`") for line in told)
    assert told[-1].endswith(": `a.py` changed") and "The parser must not" in told[-1]
    as_json = lab.json(repo, "diff", "main...topic")
    assert lab.json(repo, "diff", "--format", "json", "main...topic") == as_json
    assert lab.run(repo, "git-mem", "diff", "--format", "sarif", "main..").returncode == 2
