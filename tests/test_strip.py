"""What programs put into a turn, and what its author keeps back, is cut before anything is made of it."""

from __future__ import annotations

import random

import pytest

from gitmem.capture.strip import BLOCKS, cleaned


def test_a_plain_turn_stays_as_it_is() -> None:
    assert cleaned("  use <b>bold</b> if a < b and c > d\n") == "use <b>bold</b> if a < b and c > d"


@pytest.mark.parametrize("name", [*sorted(BLOCKS), "command-name", "local-command-stdout", "bash-input", "ide_selection"])
def test_an_injected_block_is_cut(name: str) -> None:
    assert cleaned(f"before <{name} a='b'>Remember this: echo</{name}> after").split() == ["before", "after"]
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


@pytest.mark.parametrize("text", ["#skip", "Remember this: #skip echo", "never mind (#SKIP)", "/private the door code", "use yarn. /private"])
def test_a_turn_that_its_author_keeps_back_is_nothing(text: str) -> None:
    assert cleaned(text) == ""


@pytest.mark.parametrize("text", ["look in /private/tmp for it", "see page.html#skip-link", "the #skipped tests", "make it a/private thing"])
def test_words_that_look_alike_keep_nothing_back(text: str) -> None:
    assert cleaned(text) == text


@pytest.mark.parametrize("text", ["This session is being continued from a previous conversation that ran out of context.", "[Request interrupted by user for tool use]"])
def test_a_turn_that_the_client_wrote_is_nothing(text: str) -> None:
    assert cleaned(text) == ""


@pytest.mark.parametrize("name", ["hindsight_memories", "user_memories", "project_memory", "supermemory-context", "memory-bank", "recalled_context", "mem0:memories", "editorContext", "tool-reminder", "remembered",
                                  "workspace_context"])
def test_a_block_of_a_tool_that_nobody_listed_is_cut(name: str) -> None:
    assert cleaned(f"before <{name} n='3'>\nDecision: keep everything in Redis\n</{name}> after").split() == ["before", "after"]
    assert cleaned(f"before\n<{name}>\nDecision: keep everything in Redis") == "before"
    assert cleaned(f"Decision: keep everything in Redis\n</{name}>\nafter") == "after"


@pytest.mark.parametrize("text", ["the `<system-reminder>` tag is printed twice, we decided to hide it", 'why is "<memory_context>" in the prompt of the second session', "#include <memory>\nuse unique_ptr here",
                                  "change List<Memory> to Map<String, Memory> in the store", "wrap the test in <MemoryRouter> and <ThemeContext.Provider>", "rename <memory-panel> to <memory-view>, the old name is taken"])
def test_who_writes_about_such_a_tag_keeps_their_words(text: str) -> None:
    assert cleaned(text) == text


def test_a_fence_that_shows_a_tag_takes_no_more_along_than_itself() -> None:
    assert cleaned("a log:\n```\nx <system-reminder>\necho\n```\nwe keep the log") == "a log:\n```\nx  ```\nwe keep the log"
    assert cleaned("a log:\n```\necho</system-reminder>\nx\n```\nwe keep the log") == "a log:\n \nx\n```\nwe keep the log"
    assert cleaned("a log:\n```\n<memory_context>echo</memory_context>\n```\nwe keep the log") == "a log:\n```\n \n```\nwe keep the log"


def test_fences_and_ticks_open_no_way_out_of_a_block() -> None:
    assert cleaned("```\n<memory_context>\necho\n```\necho\n</memory_context> mine") == "```\n  mine"
    assert cleaned("<memory_context> a `</memory_context>` echo </memory_context> mine") == "mine"
    assert cleaned("an open ``` and\n<system-reminder>\necho\n") == "an open ``` and"
    assert cleaned("```\nnever closed\n<system-reminder>\necho\n") == "```\nnever closed"
    assert cleaned("a tick ` <system-reminder>echo ` echo</system-reminder> mine").split() == ["a", "tick", "`", "mine"]


@pytest.mark.parametrize("text", ["`<private>` SECRET `</private>`", "```\n<private>\n```\nSECRET", 'a "<private>" SECRET', "List<Private> <PRIVATE>SECRET"])
def test_what_its_author_keeps_back_is_cut_also_in_code(text: str) -> None:
    assert "SECRET" not in cleaned(text)


def test_no_mixture_of_tags_raises_or_lets_a_private_word_out() -> None:
    rnd = random.Random(7)
    parts = ["<private>", "</private>", "<memory_context x>", "</memory_context", "<", ">", "/", "word ", "<private/>", "<command-name>", "\n", "\n```\n", "`", "<a-memory>", "</a-memory>", "<x_context>"]
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
