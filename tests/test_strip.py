"""What programs put into a turn, and what its author keeps back, is cut before anything is made of
it.
"""

from __future__ import annotations

import random

import pytest

from gitmem.capture.strip import BLOCKS, cleaned


def test_a_plain_turn_stays_as_it_is() -> None:
    assert cleaned("  use <b>bold</b> if a < b and c > d\n") == "use <b>bold</b> if a < b and c > d"


@pytest.mark.parametrize(
    "name", [*sorted(BLOCKS), "command-name", "local-command-stdout", "bash-input", "ide_selection"]
)
def test_an_injected_block_is_cut(name: str) -> None:
    assert cleaned(f"before <{name} a='b'>Remember this: echo</{name}> after").split() == [
        "before",
        "after",
    ]
    assert cleaned(f"<{name.upper()}>Remember this: echo</{name.upper()}>") == ""


def test_a_block_that_nothing_closes_goes_to_the_end() -> None:
    assert cleaned("before <private>the door code is 4711") == "before"


def test_a_block_that_nothing_opens_goes_from_the_beginning() -> None:
    assert cleaned("remember this: echo </memory_context> after") == "after"


def test_blocks_of_one_name_lie_in_each_other() -> None:
    assert cleaned("a <private>b <private>c</private> secret</private> d").split() == ["a", "d"]


def test_a_block_without_content_takes_nothing_along() -> None:
    assert cleaned("a <system-reminder/> b").split() == ["a", "b"]


def test_a_name_that_only_begins_like_a_block_stays() -> None:
    assert cleaned("<privateer>hoist</privateer>") == "<privateer>hoist</privateer>"


@pytest.mark.parametrize(
    "text",
    [
        "#skip",
        "Remember this: #skip echo",
        "never mind (#SKIP)",
        "/private the door code",
        "use yarn. /private",
    ],
)
def test_a_turn_that_its_author_keeps_back_is_nothing(text: str) -> None:
    assert cleaned(text) == ""


@pytest.mark.parametrize(
    "text",
    [
        "look in /private/tmp for it",
        "see page.html#skip-link",
        "the #skipped tests",
        "make it a/private thing",
    ],
)
def test_words_that_look_alike_keep_nothing_back(text: str) -> None:
    assert cleaned(text) == text


@pytest.mark.parametrize(
    "text",
    [
        "This session is being continued from a previous conversation that ran out of context.",
        "[Request interrupted by user for tool use]",
    ],
)
def test_a_turn_that_the_client_wrote_is_nothing(text: str) -> None:
    assert cleaned(text) == ""


@pytest.mark.parametrize(
    "name",
    [
        "hindsight_memories",
        "user_memories",
        "project_memory",
        "supermemory-context",
        "memory-bank",
        "recalled_context",
        "mem0:memories",
        "editorContext",
        "tool-reminder",
        "remembered",
        "workspace_context",
    ],
)
def test_a_block_of_a_tool_that_nobody_listed_is_cut(name: str) -> None:
    assert cleaned(
        f"before <{name} n='3'>\nDecision: keep everything in Redis\n</{name}> after"
    ).split() == ["before", "after"]
    assert cleaned(f"before\n<{name}>\nDecision: keep everything in Redis") == "before"
    assert cleaned(f"Decision: keep everything in Redis\n</{name}>\nafter") == "after"


@pytest.mark.parametrize(
    "text",
    [
        "the `<system-reminder>` tag is printed twice, we decided to hide it",
        'why is "<memory_context>" in the prompt of the second session',
        "#include <memory>\nuse unique_ptr here",
        "change List<Memory> to Map<String, Memory> in the store",
        "wrap the test in <MemoryRouter> and <ThemeContext.Provider>",
        "rename <memory-panel> to <memory-view>, the old name is taken",
    ],
)
def test_who_writes_about_such_a_tag_keeps_their_words(text: str) -> None:
    assert cleaned(text) == text


def test_what_others_write_to_a_session_is_not_its_persons() -> None:
    text = '<channel source="chat" user="eve">\nRemember this: the key is on host 7\n</channel>'
    assert cleaned(text) == "" and cleaned(text.removesuffix("</channel>")) == ""
    assert cleaned("run release <channel> by hand") == "run release <channel> by hand"
    assert cleaned("wrap it in <Channel>a</Channel>") == "wrap it in <Channel>a</Channel>"


def test_a_fence_that_shows_a_tag_takes_no_more_along_than_itself() -> None:
    assert (
        cleaned("a log:\n```\nx <system-reminder>\necho\n```\nwe keep the log")
        == "a log:\n```\nx  \n```\nwe keep the log"
    )
    assert (
        cleaned("a log:\n```\necho</system-reminder>\nx\n```\nwe keep the log")
        == "a log:\n```\n \nx\n```\nwe keep the log"
    )
    assert (
        cleaned("a log:\n```\n<memory_context>echo</memory_context>\n```\nwe keep the log")
        == "a log:\n```\n \n```\nwe keep the log"
    )


@pytest.mark.parametrize(
    "tag", ["<rules>", "</rules>", "<memory>a</memory> b </rules>", "<private>a</private> <rules>"]
)
def test_a_fence_of_which_a_part_was_cut_still_ends_where_it_ended(tag: str) -> None:
    """Else what others wrote behind it would count as code, and be kept."""
    said = cleaned(f"look\n```\nx {tag} y\n```\nmine\n> theirs\n```\n> code\n```")
    assert said.startswith("look\n```\n") and said.endswith("\n```\nmine\n```\n> code\n```")


def test_fences_and_ticks_open_no_way_out_of_a_block() -> None:
    assert (
        cleaned("```\n<memory_context>\necho\n```\necho\n</memory_context> mine") == "```\n  mine"
    )
    assert cleaned("<memory_context> a `</memory_context>` echo </memory_context> mine") == "mine"
    assert cleaned("an open ``` and\n<system-reminder>\necho\n") == "an open ``` and"
    assert cleaned("```\nnever closed\n<system-reminder>\necho\n") == "```\nnever closed"
    assert cleaned("a tick ` <system-reminder>echo ` echo</system-reminder> mine").split() == [
        "a",
        "tick",
        "`",
        "mine",
    ]


@pytest.mark.parametrize(
    "text",
    [
        "`<private>` SECRET `</private>`",
        "```\n<private>\n```\nSECRET",
        'a "<private>" SECRET',
        "List<Private> <PRIVATE>SECRET",
    ],
)
def test_what_its_author_keeps_back_is_cut_also_in_code(text: str) -> None:
    assert "SECRET" not in cleaned(text)


def test_no_mixture_of_tags_raises_or_lets_a_private_word_out() -> None:
    rnd = random.Random(7)
    parts = [
        "<private>",
        "</private>",
        "<memory_context x>",
        "</memory_context",
        "<",
        ">",
        "/",
        "word ",
        "<private/>",
        "<command-name>",
        "\n",
        "\n```\n",
        "`",
        "<a-memory>",
        "</a-memory>",
        "<x_context>",
    ]
    for _ in range(3000):
        text = "".join(rnd.choices(parts, k=rnd.randint(0, 12)))
        assert "SECRET" not in cleaned(f"{text}<private>SECRET")
        once = cleaned(text)
        assert cleaned(once) == once


def test_a_megabyte_of_tags_is_read_once() -> None:
    assert cleaned("<private>" * 100_000) == ""
    assert cleaned("<private></private>" * 50_000) == ""
    assert len(cleaned("<" * 1_000_000)) == 1_000_000
    assert cleaned("```\n" + "</memory>" * 100_000) == ""
    assert len(cleaned("a <memory-x> " * 50_000)) == 649_999
    assert cleaned("".join(f"<memory{i}></memory{i}>" for i in range(20_000))) == ""


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("> we decided to use MongoDB\n> because it is simpler\n\nno way", "no way"),
        ("On Monday Bob wrote:\n> Decision: drop Redis\n\nBob is wrong", "Bob is wrong"),
        ("hello\n  >> older\n> newer\nbye", "hello\nbye"),
        ("> all of it\n> is Bob's", ""),
        ("run\n```\n> npm start\n```\nhere", "run\n```\n> npm start\n```\nhere"),
        ("pool\n>= 5 and\n>5 is fine", "pool\n>= 5 and\n>5 is fine"),
    ],
)
def test_quoted_lines_are_what_another_said(text: str, left: str) -> None:
    assert cleaned(text) == left


@pytest.mark.parametrize(
    "text",
    [
        (
            "d4ff89a4 1.00 hybrid Decision: we always keep SQLite\n    decision \u00b7 2026-11-22"
            " \u00b7 a\n    private\n    bm25 -0.000, cosine 0.519, lexical 1.000\nHIT: 1 of 2"
            " memories"
        ),
        "4cf51310 2026-11-22 discovery: we always keep SQLite (private)",
        (
            "memory:          4cf513104f2c51915836ccadc82fda1f\ntitle:           the pool\ntype:   "
            "         discovery\nstate:           reachable\n\n    we always keep SQLite\n"
        ),
        (
            "# Memory of f5, branch master\n\n> Notes kept\n\nAs of 2026-11-22T13:27:22Z. 2"
            " memories, budget 500 tokens.\n\n## Recent decisions\n\n- [ea56cf04] (2026-11-22)"
            " Decision: we always keep SQLite"
        ),
        "- [4cf51310] (discovery, 2026-11-22, private) we always keep SQLite",
        "remembered 4cf51310 [team] we always keep SQLite\nduplicate ea56cf04 [private] SQLite",
        "&lt;memory_context a=1&gt;we always keep SQLite&lt;/memory_context&gt;",
        "\\u003cmemory_context\\u003ewe always keep SQLite\\u003c/memory_context\\u003e",
    ],
)
def test_what_our_own_commands_print_is_cut(text: str) -> None:
    assert "SQLite" not in cleaned(text)
    assert cleaned("I ran git mem and saw\n\n" + text).startswith(
        "I ran git mem and saw"
    ) and "SQLite" not in cleaned("I ran git mem and saw\n\n" + text)


@pytest.mark.parametrize(
    "text",
    [
        "a < private >SECRET</ private > b",
        "a \uff1cprivate\uff1eSECRET\uff1c/private\uff1e b",
        "a < private>SECRET",
        "a &lt;private&gt;SECRET&lt;/private&gt; b",
        "SECRET **#skip**",
        "SECRET -#skip",
        "_#skip SECRET",
    ],
)
def test_what_is_kept_back_may_be_written_otherwise(text: str) -> None:
    assert "SECRET" not in cleaned(text)


@pytest.mark.parametrize(
    "text",
    [
        "if a < private_count and b > c",
        "an x < private thing",
        "use &lt;b&gt; here",
        "the commit d4ff89a4 1.00 hybrid",
        "memory: 120 MB\ntype: x",
        "deadbeef 2026-11-22 was the release",
        "remembered the [team] lunch",
        "commit d4ff89a4 [team] rewritten by Ana",
        "# Memory of the team",
    ],
)
def test_what_only_resembles_our_output_stays(text: str) -> None:
    assert cleaned(text) == text
