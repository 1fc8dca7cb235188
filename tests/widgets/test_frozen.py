"""Saved outputs of runs."""

import re
from datetime import timedelta

from support.played_runs import PlayedRun, Script
from support.safe_html import VIEW, harms

from artifactflow_nb.widgets.run.saved import saved_run, saved_running


def without_style(html: str) -> str:
    return re.sub(r"<style>.*?</style>", "", html, flags=re.DOTALL)


def hostile(script: Script) -> PlayedRun:
    """A run in which every text contains markup."""
    bad = "<script>alert(1)</script><img src=https://evil.example/x onerror=alert(1)>"
    script.add("agent_start", bad, job_id="main", step=1, instruction=bad, model=bad)
    script.say(bad, bad, call=f'llm-"{bad}', reasoning=bad)
    script.call(f"tool{bad}", "tc-1", {f"name{bad}": bad, "list": [bad]}, error=bad, success=False)
    script.call("web_search", "tc-2", {"query": bad})
    script.add(
        "permission_request", bad, f"tool{bad}", id="r", tool_call_id="tc-3", job_id="main", params={bad: bad},
        title=bad, preview=bad, message=bad,
    )  # fmt: skip
    changed = {"artifact_id": bad, "version": 1, "title": bad, "content_type": "text/html"}
    script.add("artifact_changed", tool_call_id="tc-2", **changed)
    run = PlayedRun(script.events, question=bad)
    run.artifacts[bad, 1] = bad
    run.results["tc-2"] = bad
    return run


def test_html_contains_answer_report_and_steps(finished: PlayedRun) -> None:
    """Question, answer, report, agents, calls and their results are in the saved HTML."""
    html = saved_run(finished)["text/html"]
    for part in (
        "How do context managers end?",
        "The new exception <strong>replaces</strong>",
        'af-title">Report</span>',
        'af-name">Search agent<',
        'af-name">Search<',
        "five &lt;b&gt;results",
        "Approved by user",
        "600 tokens",
    ):
        assert part in html


def test_reasoning_is_folded(finished: PlayedRun) -> None:
    """Reasoning is in a closed fold with its length."""
    html = saved_run(finished)["text/html"]
    fold = re.search('<details class="af-think">(.*?)</details>', html, re.DOTALL)
    assert fold
    assert "Thought" in fold[1]
    assert "23 characters" in fold[1]
    assert "<p>The user wants to know.</p>" in fold[1]


def test_html_has_no_scripts_and_no_external_resources(finished: PlayedRun) -> None:
    """The saved HTML has no script, no widget and no external address."""
    bundle = saved_run(finished)
    html = bundle["text/html"]
    assert set(bundle) == {"text/plain", "text/html"}
    assert "<script" not in html
    assert "://" not in html
    assert "@import" not in html
    assert "url(" not in html


def test_hostile_texts_stay_texts(script: Script) -> None:
    """Markup in names, parameters, errors, results, titles and ids is displayed as text."""
    bundle = saved_run(hostile(script))
    html = without_style(bundle["text/html"])
    assert "<script" not in html
    assert "<img" not in html
    label, _, content = html.partition("\n")
    assert re.fullmatch("<!-- [^<>]* -->", label)
    assert harms(content, VIEW) == []


def test_plain_text_depends_only_on_answer(finished: PlayedRun) -> None:
    """Runs that differ in ids, times, durations and counts have the same plain text."""
    later = [
        type(event)(event.type, event.timestamp + timedelta(days=event.seq), event.seq + 7, "run-9", event.agent,
                    event.tool, {key: value for key, value in event.data.items() if key != "token_usage"})
        for event in finished.events
    ]  # fmt: skip
    again = PlayedRun(later)
    again.artifacts = finished.artifacts
    plain = saved_run(finished)["text/plain"]
    assert saved_run(again)["text/plain"] == plain
    assert plain == (
        "Run completed: How do context managers end?\n\n"
        "The new exception **replaces** the old one [1].\n\nSee the report."
    )  # fmt: skip


def test_waiting_run_explains_how_to_decide(waiting: PlayedRun) -> None:
    """Every saved format of a waiting run names the call and the code that decides the request."""
    bundle = saved_run(waiting)
    for output in bundle.values():
        assert "Write “" in output
        assert "wb.pending()" in output
    assert bundle["text/plain"].startswith("Run waiting for you: ")


def test_running_run_has_reproducible_output() -> None:
    """Without a page, a running run shows its question and no text that changes."""
    assert saved_running("Why?")["text/plain"] == "Run: Why?"
    assert "<strong>Why?</strong>" in saved_running("Why?")["text/html"]


def test_style_is_scoped_to_view(finished: PlayedRun) -> None:
    """Every rule of the style sheet matches only elements of the view."""
    style = re.search(r"<style>(.*?)</style>", saved_run(finished)["text/html"], re.DOTALL)
    assert style
    not_rules = r"/\*.*?\*/|@keyframes[^{]*\{[^{}]*\{[^{}]*\}\s*\}|@(?:media|container)[^{]*\{|\.af-run\.af-run(?=\{)\{"
    rules = re.sub(not_rules, "", style[1], flags=re.DOTALL)
    selectors = [part.strip() for rule in re.findall(r"([^{}]+)\{", rules) for part in re.split(r",(?![^(]*\))", rule)]
    assert selectors
    assert all(
        selector.startswith("& ") or ".af-" in selector for selector in selectors if not selector.startswith("@")
    )
