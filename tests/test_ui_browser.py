"""The page of `git mem ui` in a real browser: 10,000 memories, keys, no error, and the review."""

from __future__ import annotations

import pathlib
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import browser
import pytest
import verdict
from conftest import Lab
from consolidate_world import MONDAY, WIPED
from review_world import Place

from gitmem.ui import page

AXE = verdict.CACHE / "axe-4.10.3.js"
AUDIT = """axe.run(document, {resultTypes: ["violations"]}).then(found => found.violations
    .filter(v => ["serious", "critical"].includes(v.impact))
    .map(v => `${v.id}: ${v.nodes.map(n => n.target).join(" ")}`))"""
EVIL = "</script><script>document.title = 'broken'</script><!-- <img src=x onerror=alert(1)>"


def memory(n: int, **fields: Any) -> dict[str, Any]:
    return {
        "id": f"{n:032x}",
        "title": f"Memory number {n}",
        "body": f"Memory number {n}.\n\n" + "about the cache, the worker and the pool " * 10,
        "type": ("decision", "bugfix", "lesson")[n % 3],
        "created_at": f"2026-{n % 9 + 1:02}-{n % 27 + 1:02}T00:00:00Z",
        "author": "Ada <ada@example.org>",
        "scope": "private" if n % 100 == 0 else "team",
        "status": "active",
        "anchor": {"commit": f"{n % 50:040x}", "state": "unmerged" if n % 7 == 0 else "reachable"},
        "paths": [{"path": f"src/part{n % 40}.py", "state": "changed" if n % 5 == 0 else "same"}],
        **fields,
    }


FEEDBACK = {
    "injected": 130,
    "by_type": {"decision": {"injected": 130, "used": 52, "ignored": 78}},
    "by_confidence": {
        "90 to 100 %": {"injected": 120, "used": 51, "ignored": 69, "contradicted": 0},
        "below 50 %": {"injected": 10, "used": 1, "ignored": 9, "contradicted": 1234},
    },
    "decided": {"50 to 69 %": {"accepted": 12, "rejected": 8}},
}


def written(file: pathlib.Path, memories: list[dict[str, Any]], **more: Any) -> str:
    commits = {
        f"{n:040x}": {"commit": f"{n:040x}", "subject": f"Commit {n}", "date": "2026-03-01"}
        for n in range(50)
    }
    data = {
        "repository": "shop",
        "branch": "main",
        "memories": memories,
        "commits": commits,
        "communities": [
            {
                "size": len(memories),
                "paths": ["src"] + [m["paths"][0]["path"] for m in memories[:1]],
                "central": memories[:3],
            }
        ],
        "feedback": FEEDBACK,
        **more,
    }
    file.write_text(page.joined(data).html, encoding="utf-8")
    return file.as_uri()


def press(tab: browser.Tab, view: str) -> None:
    buttons = "[...document.querySelectorAll('nav button')]"
    tab.run(f"{buttons}.find(b => b.textContent === '{view}').click()")


@contextmanager
def served(place: Place) -> Iterator[str]:
    """The address that `git mem ui` prints; it ends with Ctrl-C, and well."""
    argv = ["git-mem", "ui", "--no-browser"]
    server = subprocess.Popen(
        argv,
        cwd=place.repo,
        env=place.lab.env,
        text=True,
        stdout=subprocess.PIPE,
    )
    try:
        assert server.stdout
        yield server.stdout.readline().strip()
        server.send_signal(signal.SIGINT)
        assert server.wait(20) == 0
    finally:
        server.kill()
        server.communicate()


def test_10_000_memories_are_loaded_searched_and_read_with_keys(tmp_path: pathlib.Path) -> None:
    memories = [memory(n) for n in range(10_000)]
    memories[4321] |= {"title": "Invoices are rounded per line", "body": EVIL}
    url = written(tmp_path / "page.html", memories)
    with browser.tab(tmp_path / "home") as tab:
        tab.size(1280, 800)
        tab.open(url)
        rows = "document.querySelectorAll('.row').length"
        assert tab.run(rows) == 100
        tab.press("/")
        tab.type("invoices ROUNDED")
        assert tab.run("document.getElementById('count').textContent") == "1 of 10,000 memories"
        tab.press("Enter")
        tab.press("Enter")
        tab.wait("!document.getElementById('detail').hidden")
        assert EVIL in tab.run("document.getElementById('detail').innerText")
        tab.press("Escape")
        assert tab.run("document.getElementById('detail').hidden")
        assert tab.run("document.activeElement.className") == "row"
        tab.press("/")
        tab.press("Escape")
        assert tab.run(rows) == 100
        tab.press("j")
        tab.press("j")
        tab.press("k")
        assert tab.run("document.activeElement.innerText").startswith("Memory number 0")
        for view in ("Timeline", "Communities", "Statistics", "Memories"):
            press(tab, view)
            assert tab.run("document.getElementById('view').innerText.length") > 100
        assert tab.run("document.title") == "git mem: shop"
        assert tab.errors == []


def test_the_filters_narrow_the_list_and_private_memories_are_marked(
    tmp_path: pathlib.Path,
) -> None:
    url = written(tmp_path / "page.html", [memory(n) for n in range(210)])
    with browser.tab(tmp_path / "home") as tab:
        tab.size(400, 800, dark=True)
        tab.open(url)
        for key, value, expected in (
            ("scope", "private", 3),
            ("files", "stale", 3),
            ("state", "unmerged", 1),
        ):
            select = f"document.querySelector('select[name={key}]')"
            tab.run(f"{select}.value = '{value}'")
            tab.run(f"{select}.dispatchEvent(new Event('change'))")
            assert tab.run("document.querySelectorAll('.row').length") == expected
        assert "private" in tab.run("document.querySelector('.row').innerText")
        assert tab.run("document.documentElement.scrollWidth") <= 400
        assert tab.errors == []


def test_words_that_are_too_long_for_a_narrow_page_are_broken(tmp_path: pathlib.Path) -> None:
    long = "feature/JIRA-1234-" + "very-long-name-" * 10 + "x" * 150
    fields: Any = {
        "title": long,
        "anchor": {"commit": f"{0:040x}", "branch": long, "state": "unmerged"},
        "paths": [{"path": long, "state": "changed"}],
        "history": [{"op": "edit", "at": "2026-01-02", "reason": long}] * 2,
        "alternatives": [{"title": long, "body": long}],
    }
    both = [{"id": str(n), "title": long, "scope": "private"} for n in range(2)]
    waiting = {"id": "a", "kind": "contradiction", "proposal": True, "choose": True}
    more = {"served": True, "queue": [{**waiting, "memories": both}]}
    url = written(tmp_path / "page.html", [memory(n, **fields) for n in range(3)], **more)
    wide = "[...document.querySelectorAll('main, #detail')].map(e => e.scrollWidth - e.clientWidth)"
    with browser.tab(tmp_path / "home") as tab:
        tab.size(400, 800)
        tab.open(url)
        tab.run("document.querySelector('.row').click()")
        tab.wait("!document.getElementById('detail').hidden")
        for view in ("Memories", "Timeline", "Communities", "Statistics", "Review"):
            press(tab, view)
            assert (view, tab.run(wide)) == (view, [0, 0])


def test_keys_go_on_from_a_link_of_the_open_memory_and_leave_an_input_method_alone(
    tmp_path: pathlib.Path,
) -> None:
    url = written(tmp_path / "page.html", [memory(n) for n in range(9)])
    with browser.tab(tmp_path / "home") as tab:
        tab.size(1280, 800)
        tab.open(url)
        for key in "jjj":
            tab.press(key)
        tab.press("Enter")
        for expected in ("number 2", "number 3"):
            tab.wait(f"document.querySelector('#detail h2')?.innerText.includes('{expected}')")
            tab.run("document.querySelector('#detail button').focus()")
            tab.press("j")
        tab.wait("document.querySelector('#detail h2')?.innerText.includes('number 4')")
        tab.wait("document.activeElement.id === 'detail'")
        tab.press("/")
        composing = "{key: 'Enter', isComposing: true, bubbles: true}"  # it takes the word over
        tab.run(f"document.activeElement.dispatchEvent(new KeyboardEvent('keydown', {composing}))")
        assert tab.run("document.activeElement.id") == "query"


def test_the_statistics_say_how_far_confidences_held(tmp_path: pathlib.Path) -> None:
    url = written(tmp_path / "page.html", [memory(n) for n in range(3)])
    with browser.tab(tmp_path / "home") as tab:
        tab.size(400, 800)
        tab.open(url)
        press(tab, "Statistics")
        rows = tab.run("[...document.querySelectorAll('tbody tr')].map(r => r.innerText)")
        assert "90 to 100 %\t120\t51\t43 %\t0" in rows
        assert "below 50 %\t10\t1\ttoo few\t1,234" in rows
        assert "50 to 69 %\t12\t8\t60 %" in rows
        assert tab.run("document.documentElement.scrollWidth") <= 400
        widths = "[...document.querySelectorAll('tbody th')].map(cell => cell.clientWidth)"
        assert min(tab.run(widths)) > 60  # room for the words
        assert tab.errors == []


def audited(tab: browser.Tab) -> None:
    """axe-core finds nothing serious or critical in any view of the page."""
    if not AXE.exists():
        pytest.skip("no axe-core: tools/fetch_clients.sh brings it")
    tab.run(AXE.read_text(encoding="utf-8") + ";0")
    for view in tab.run("[...document.querySelectorAll('nav button')].map(b => b.textContent)"):
        press(tab, view)
        assert (view, tab.run(AUDIT)) == (view, [])


@pytest.mark.each
@pytest.mark.parametrize("dark", [False, True])
def test_an_audit_of_accessibility_finds_nothing_serious(
    tmp_path: pathlib.Path, dark: bool
) -> None:
    url = written(tmp_path / "page.html", [memory(n) for n in range(210)])
    with browser.tab(tmp_path / "home") as tab:
        tab.size(1280, 800, dark=dark)
        tab.open(url)
        audited(tab)
        press(tab, "Communities")
        tab.run("document.querySelector('.row').click()")
        tab.wait("!document.getElementById('detail').hidden")
        assert tab.run(AUDIT) == []
        # The audit can fail: grey on grey, and a picture without words.
        tab.run("document.body.style.cssText = 'color: #777; background: #888'")
        tab.run("document.querySelector('main').append(new Image())")
        assert any(found.startswith("image-alt") for found in tab.run(AUDIT))


@pytest.mark.process
@pytest.mark.each
@pytest.mark.parametrize("dark", [False, True])
def test_an_audit_of_the_served_review_finds_nothing_serious(lab: Lab, dark: bool) -> None:
    place = Place(lab)
    for text in (WIPED, MONDAY):
        lab.mem(place.repo, "remember", text, "--type", "decision", "--path", "f0.txt")
    lab.mem(place.repo, "consolidate")  # a proposal about both
    taken = place.one("Invoices are rounded per line")
    with browser.tab(lab.root / "home") as tab, served(place) as url:
        tab.size(1280, 800, dark=dark)
        tab.open(url)
        place.review("--accept", taken)  # meanwhile, elsewhere
        audited(tab)  # Review is the last
        boxes = "[...document.querySelectorAll('.waiting')]"
        assert tab.run(f"{boxes}.length") == 2
        assert tab.run(f"{boxes}.every(box => box.ariaLabel)")  # which one is accepted
        press(tab, "Review")
        for word, verb, kind in (("rounded", "Accept", "bad"), ("wiped", "Reject", "good")):
            box = f"{boxes}.find(box => box.innerText.includes('{word}'))"
            buttons = f"[...{box}.querySelectorAll('button')]"
            tab.run(f"{buttons}.find(b => b.textContent === '{verb}').click()")
            tab.wait(f"document.querySelector('.waiting [role=status].{kind}')")
            assert tab.run("document.activeElement.getAttribute('role')") == "status"
            assert tab.run(AUDIT) == []
        tab.open(url)
        audited(tab)  # nothing waits
        assert "Nothing waits" in tab.run("document.getElementById('view').innerText")
        assert tab.errors == []


@pytest.mark.process
@pytest.mark.parametrize("scope", ["team", "private"])
def test_of_two_that_contradict_each_other_a_person_says_which_stays(lab: Lab, scope: str) -> None:
    place = Place(lab)
    for text, own in ((WIPED, []), (MONDAY, ["--private"] if scope == "private" else [])):
        lab.mem(place.repo, "remember", text, "--type", "decision", "--path", "f0.txt", *own)
    lab.mem(place.repo, "consolidate")
    with browser.tab(lab.root / "home") as tab, served(place) as url:
        tab.size(1280, 800)
        tab.open(url)
        press(tab, "Review")
        box = "document.querySelector('.waiting')"
        assert f"{MONDAY} ({scope})" in tab.run(f"{box}.innerText")
        assert tab.run(f"[...{box}.querySelectorAll('button')].map(b => b.textContent)") == [
            f"Keep “{WIPED}”",
            f"Keep “{MONDAY}”{' and share it with the team' * (scope == 'private')}",
            "Reject",
        ]
        tab.run(f"{box}.querySelectorAll('button')[1].click()")
        tab.wait(f"{box}.querySelector('[role=status].good')")
        assert tab.errors == []
    assert [(m["body"], m["scope"]) for m in place.memories()] == [(MONDAY, "team")]


@pytest.mark.process
def test_a_suggestion_is_accepted_on_the_served_page(lab: Lab) -> None:
    place = Place(lab)
    place.one("Invoices are rounded per line")
    with browser.tab(lab.root / "home") as tab, served(place) as url:
        tab.size(1280, 800)
        tab.open(url)
        tab.run("[...document.querySelectorAll('nav button')].at(-1).click()")
        tab.run("document.querySelector('.waiting button').click()")
        tab.wait("document.querySelector('.waiting [role=status]')")
        assert "remembered" in tab.run("document.querySelector('.waiting').innerText")
        tab.open(url)
        assert "Invoices are rounded per line" in tab.run("document.body.innerText")
        assert tab.errors == []
    assert [m["scope"] for m in place.memories()] == ["private"]
