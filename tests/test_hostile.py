"""Texts that try to be markup, through everything that turns text into HTML or Markdown."""

import re

import pytest
from harmless import VIEW, harms
from hostile import HOSTILE
from widgets.played import PlayedRun, Script, acting_tokens

from artifactflow_nb.text.markdown import MarkdownRenderer, escape, portable, speak
from artifactflow_nb.widgets.frozen import frozen_bundle

EACH = pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))


def run_of(text: str) -> PlayedRun:
    """A run in which every text is this one."""
    script = Script()
    script.add("agent_start", text, job_id="main", step=1, instruction=text, model=text)
    script.say(text, text, call="llm-1", reasoning=text)
    script.add("retry", text, job_id="main", call_id="llm-1", reason=text)
    script.call(text, "tc-1", {text: text, "list": [text]}, error=text, success=False)
    script.call("web_search", "tc-2", {"query": text}, metadata={"results": [text], f"n_{text}": 1})
    script.add("tool_start", tool="call_subagent", job_id="main", tool_call_id="tc-3", params={"instruction": text})
    script.add("agent_start", text, job_id="tc-3", step=1, instruction=text, model=text)
    script.say(text, text, call="llm-2", job="tc-3", agent=text)
    for request, decided in (("r-1", False), ("r-2", True)):
        script.add(
            "permission_request", text, text, id=request, tool_call_id=request, job_id="main", kind=text,
            params={text: text}, title=text, preview=text, message=text,
        )  # fmt: skip
        if decided:
            words = {"decision": text, "scope": "run", "decided_by": text, "instruction": text}
            script.add("permission_result", text, text, id=request, tool_call_id=request, approved=False, **words)
    for kind in ("text/markdown", text):
        changed = {"artifact_id": f"{kind}{text}", "version": 1, "title": text, "content_type": kind}
        script.add("artifact_changed", tool_call_id="tc-2", **changed)
    run = PlayedRun(script.events, question=text)
    run.artifacts = {(f"text/markdown{text}", 1): text, (f"{text}{text}", 1): text}
    run.results["tc-2"] = text
    return run


def without_style(html: str) -> str:
    """The HTML behind the product's own style sheet."""
    return re.sub(r"^<style>[^<]*</style>", "", html)


def test_the_corpus_is_large_and_every_text_of_it_tries_something() -> None:
    """There are more than a hundred texts, no two alike; taken for HTML or Markdown, most would act."""
    assert len(HOSTILE) == len(set(HOSTILE)) > 100
    acting = [text for text in HOSTILE if harms(text, VIEW) or acting_tokens(text)]
    assert len(acting) > 150


@EACH
def test_rendered_markdown_holds_nothing_but_prose(text: str) -> None:
    """What a model writes becomes elements of prose, without handlers, styles, classes or addresses that act."""
    assert harms(MarkdownRenderer().html(text)) == []


@EACH
def test_portable_markdown_does_not_act(text: str) -> None:
    """The Markdown for other people's pages holds no HTML and no image where both are allowed."""
    assert acting_tokens(portable(text)) == []


@EACH
def test_one_portable_text_leaves_the_next_alone(text: str) -> None:
    """Texts that stand one behind the other read as each does alone: none leaves code open or closed for the next."""
    listing = portable(f"~~~~~~\n{text}\n~~~~~~")
    assert acting_tokens(f"{listing}\n\n{listing}\n\n{portable(text)}") == []


@EACH
def test_names_and_values_are_text(text: str) -> None:
    """A name or a value becomes its letters, and at most an element that names their language."""
    assert harms(escape(text), frozenset()) == []
    assert harms(f'<p title="{escape(text)}">', frozenset({"p"})) == []
    assert harms(speak(text), frozenset({"span"})) == []


@EACH
def test_a_frozen_run_holds_nothing_but_its_own_elements(text: str) -> None:
    """A run made of hostile texts is the view's own elements in HTML, and folds in Markdown."""
    bundle = frozen_bundle(run_of(text))
    assert harms(without_style(bundle["text/html"]), VIEW) == []
    own = re.compile(r"html_(?:block|inline) </?(?:details(?: open)?|summary)>|html_block <details")
    assert [token for token in acting_tokens(bundle["text/markdown"]) if not own.match(token)] == []
