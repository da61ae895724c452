"""No test is skipped in silence: `verdict` lists every reason that is allowed."""

from __future__ import annotations

import ast
import pathlib
import re

import pytest
import verdict

HERE = pathlib.Path(__file__).parent


def reasons(path: pathlib.Path) -> list[str]:
    """Why tests of a file may be skipped; of what is only known in a run a word stands there."""
    found = []
    text = path.read_text(encoding="utf-8")
    for node in ast.walk(ast.parse(text if "skip" in text else "")):
        name = ast.unparse(node.func) if isinstance(node, ast.Call) else ""
        if name in ("pytest.skip", "pytest.mark.skipif", "pytest.mark.skip", "pytest.importorskip"):
            assert isinstance(node, ast.Call)
            said = [k.value for k in node.keywords if k.arg == "reason"] or (
                node.args[:1] if name == "pytest.skip" else []
            )
            assert said, f"{path.name}: a skip without a reason"
            parts = said[0].values if isinstance(said[0], ast.JoinedStr) else said
            found.append(
                "".join(str(p.value) if isinstance(p, ast.Constant) else "bash" for p in parts)
            )
    return found


def test_every_reason_to_skip_a_test_is_known() -> None:
    found = [(f"{path.name}::test", one) for path in HERE.glob("*.py") for one in reasons(path)]
    assert len(found) > 30 and verdict.judged(found, set()) == []


def test_an_unknown_reason_or_a_promise_that_waits_for_data_elsewhere_is_no_pass() -> None:
    assert verdict.judged([("tests/test_x.py::test_a", "Skipped: no strace")], {"test_a"}) == []
    assert verdict.judged([("tests/test_x.py::test_a", "Skipped: it fails today")], set())
    away = [("tests/test_x.py::test_a[1]", "Skipped: no evaluation data here (GIT_MEM_EVAL_ROOT)")]
    assert verdict.judged(away, set()) == [] and verdict.judged(away, {"test_a"})


NEEDS = {
    "llama-cpp-python is not installed: tools/fetch_llama.sh builds it": "llama_cpp_python-9.whl",
    "no /a/place/coder.gguf: tools/fetch_models.sh brings it": "coder.gguf",
    "no Claude Code 2.1.197 here: sh tools/fetch_clients.sh": "claude-2.1.197/claude",
    "no client codex-0.171.0 here: sh tools/fetch_clients.sh": "codex-0.171.0/package.json",
}


@pytest.mark.parametrize("reason", NEEDS)
@pytest.mark.parametrize("test", ["tests/test_x.py::test_a[1]", "tests/test_x.py"])
def test_a_promise_does_not_wait_for_what_lies_in_the_cache(
    tmp_path: pathlib.Path, reason: str, test: str
) -> None:
    skipped = [(test, f"Skipped: {reason}")]
    promised = {"test_x.py"} if test.endswith("py") else {"test_a"}
    assert verdict.judged(skipped, promised, tmp_path) == []
    path = tmp_path / NEEDS[reason]
    path.parent.mkdir(exist_ok=True)
    path.write_text("")
    assert len(verdict.judged(skipped, promised, tmp_path)) == 1
    assert verdict.judged(skipped, {"test_b", "test_y.py"}, tmp_path) == []


def test_every_fetched_thing_is_looked_for_by_a_reason_that_tests_give() -> None:
    said = [one for path in HERE.glob("*.py") for one in reasons(path)]
    for pattern, _ in verdict.IN_CACHE:
        assert any(re.match(pattern, one) for one in said), pattern


def test_tests_that_documents_name_are_found() -> None:
    assert "test_a_changed_text_is_bad_whoever_changed_it" in verdict.held()
    assert {"test_llama.py", "test_simulation.py"} < verdict.held()


def test_no_document_rests_on_a_test_that_only_runs_nightly() -> None:
    nightly = {
        node.name
        for path in HERE.glob("test_*.py")
        if "mark.nightly" in (text := path.read_text(encoding="utf-8"))
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.FunctionDef)
        and "pytest.mark.nightly" in map(ast.unparse, node.decorator_list)
    }
    assert nightly and not nightly & verdict.held()
