"""Texts that try to be markup, through everything that turns text into HTML or Markdown."""

import re
from collections.abc import Callable, Iterator

import pytest
from support.hostile_texts import HOSTILE
from support.pages import place_nodes
from support.played_runs import START, PlayedRun, Script, acting_tokens
from support.safe_html import DRAWING, VIEW, harms

from artifactflow_nb.core.text.diff import diff_html
from artifactflow_nb.core.text.format import storable_text
from artifactflow_nb.core.text.markdown import MarkdownRenderer, escape, escape_with_language, safe_markdown
from artifactflow_nb.sources.citation_marks import Citations
from artifactflow_nb.store.artifact_versions import Artifact
from artifactflow_nb.store.conversation_tree import TreeEntry
from artifactflow_nb.store.conversations import Conversation, MessageHit, StoredMessage
from artifactflow_nb.widgets.artifacts import nodes as artifact_nodes
from artifactflow_nb.widgets.artifacts.nodes import ArtifactSelection, ArtifactTexts
from artifactflow_nb.widgets.chat.turn import ChatTurn
from artifactflow_nb.widgets.conversations import nodes as tree_nodes
from artifactflow_nb.widgets.conversations.compare import BranchSide, comparison
from artifactflow_nb.widgets.conversations.layout import layout_tree
from artifactflow_nb.widgets.conversations.picker import conversation_list
from artifactflow_nb.widgets.page.nodes import Node
from artifactflow_nb.widgets.run.saved import saved_run


def faults(check: Callable[[str], list[str]]) -> dict[str, list[str]]:
    """What a check finds in each hostile text that it finds something in."""
    return {text: found for text in HOSTILE if (found := check(text))}


def plan_of(script: Script, text: str) -> None:
    """Add a plan that uses `text` everywhere, with a completed, a failed and a running step."""
    where = {"tool_call_id": f"plan{text}", "plan_id": text}
    script.add(
        "tool_start", text, "plan_create", job_id="main", tool_call_id=where["tool_call_id"], params={"title": text}
    )
    steps = [{"id": f"{n}{text}", "title": text, "description": text, "status": "pending"} for n in range(4)]
    script.add("plan_created", text, job_id="main", title=text, steps=steps, **where)
    for n, status in enumerate(("completed", "failed", "")):
        step = {"job_id": f"job{n}{text}", "step_id": f"{n}{text}", "title": text, "attempt": n}
        script.add("step_start", text, **step, **where)
        script.say(text, text, call=f"llm-{n}{text}", job=step["job_id"], agent=text)
        if status:
            script.add("step_complete", text, **step, **where, status=status, result=f"{text}\n\n{n}")
    script.add("agent_start", text, job_id=f"again{text}", step=1, instruction=text, model=text)
    script.add("plan_revised", text, job_id="main", reason=text, steps=steps, **where)
    script.add("plan_updated", text, job_id="main", reason=text, steps=[{**steps[3], "status": "skipped"}], **where)


def run_of(text: str) -> PlayedRun:
    """Return a run that uses `text` for every text."""
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
    plan_of(script, text)
    for kind in ("text/markdown", text):
        changed = {"artifact_id": f"{kind}{text}", "version": 1, "title": text, "content_type": kind}
        script.add("artifact_changed", tool_call_id="tc-2", **changed)
    run = PlayedRun(script.events, question=text)
    run.artifacts = {(f"text/markdown{text}", 1): text, (f"{text}{text}", 1): text}
    run.results["tc-2"] = text
    return run


def tree_of(text: str) -> Iterator[Node]:
    """Yield the nodes of the panel of conversations with `text` as every text."""
    found = Conversation(text, text, text, START, START, 1, 1, 1, MessageHit(text, text))
    entries = [
        TreeEntry(f"{n}{text}", None, text, text, "failed", START, error=text, is_active=n == 0) for n in range(2)
    ]
    written = Artifact(text, 1, text, text, text, "create", START, text, text, text, text, None, text)
    yield conversation_list((found,), text, text, has_more=True)
    yield conversation_list((), None, text, has_more=False)
    yield from tree_nodes.heading(found)
    yield tree_nodes.confirmation(text, "delete", conversation=text)
    yield tree_nodes.drawing(layout_tree(entries), text)
    yield from tree_nodes.actions(entries[0], [text])
    yield tree_nodes.comparison_prompt(entries[0])
    yield from comparison(
        *(BranchSide(entry, 1, text, f"{n} {text}", {text: written}) for n, entry in enumerate(entries)),
    )


def panel_of(text: str) -> Iterator[Node]:
    """Yield the nodes of the panel of artifacts with `text` as every text."""
    old = Artifact(text, 1, text, text, text, text, START, text, text, text, text, None, None)
    new = Artifact(text, 2, text, text, f"{text}\n\n{text}", text, START, text, text, text, text, None, None)
    yield artifact_nodes.heading(text, "waiting")
    yield artifact_nodes.artifact_list((new,), text)
    for version in (old, new):
        shown = ArtifactSelection((old, new), version, "raw", old, "inline")
        yield from (
            artifact_nodes.title(shown),
            artifact_nodes.view_mode_buttons(shown),
            artifact_nodes.versions(shown.history, shown),
        )
    yield artifact_nodes.conflict_note(old, new)
    for look in ("raw", "rendered"):
        texts = ArtifactTexts(lambda _artifact: Citations({}))
        yield Node(look, artifact_nodes.text_html(new, look, texts))
    for layout in ("inline", "side_by_side"):
        yield Node(layout, diff_html(old.content, new.content, layout=layout, names=(text, text)))


def without_style(html: str) -> str:
    """The HTML after the product's own style sheet."""
    return re.sub(r"^(?:<!-- [^<>]* -->\n)?(?:<div><rp>)?<style>[^<]*</style>(?:</rp></div>)?", "", html)


def test_corpus_is_large_and_every_text_is_hostile() -> None:
    """The corpus has more than 100 different texts, and most are active as HTML or Markdown."""
    assert len(HOSTILE) == len(set(HOSTILE)) > 100
    acting = [text for text in HOSTILE if harms(text, VIEW) or acting_tokens(text)]
    assert len(acting) > 150


def test_rendered_markdown_contains_only_prose() -> None:
    """A model's text becomes elements of prose without handlers, styles, classes or active addresses."""
    assert faults(lambda text: harms(MarkdownRenderer().html(text))) == {}


def test_portable_markdown_is_inert() -> None:
    """Portable Markdown contains no HTML and no image, even for a renderer that allows both."""
    assert faults(lambda text: acting_tokens(safe_markdown(text))) == {}


def test_portable_texts_do_not_affect_each_other() -> None:
    """No text opens or closes a code block for the text after it."""

    def after_itself(text: str) -> list[str]:
        listing = safe_markdown(f"~~~~~~\n{text}\n~~~~~~")
        return acting_tokens(f"{listing}\n\n{listing}\n\n{safe_markdown(text)}")

    assert faults(after_itself) == {}


def test_names_and_values_are_escaped() -> None:
    """A hostile name or value is shown as text; the only new element is a `span` that names the language."""
    assert faults(lambda text: harms(escape(text), frozenset())) == {}
    assert faults(lambda text: harms(f'<p title="{escape(text)}">', frozenset({"p"}))) == {}
    assert faults(lambda text: harms(escape_with_language(text), frozenset({"span"}))) == {}


def test_saved_run_contains_only_own_elements() -> None:
    """The saved view of a run with hostile texts has no elements except the elements of the view."""
    assert faults(lambda text: harms(without_style(saved_run(run_of(text))["text/html"]), VIEW)) == {}


def test_panels_contain_only_own_elements() -> None:
    """The panels show hostile texts as text in lists, titles, drawings, comparisons and versions."""

    def in_panels(text: str) -> list[str]:
        placed = place_nodes((*tree_of(text), *panel_of(text)))
        return [harm for placement in placed for harm in harms(placement.node.html, VIEW | DRAWING)]

    assert faults(lambda text: in_panels(storable_text(text))) == {}


@pytest.mark.parametrize("before", ["", "word " * 79], ids=["short", "long"])
def test_saved_long_chat_contains_only_own_elements(before: str) -> None:
    """A shortened question or answer is harmless at every length."""

    def in_chat(text: str) -> list[str]:
        message = StoredMessage("msg-1", "conv-1", None, text, before + text, "completed", START, None, 0, 1)
        return harms(ChatTurn(message, None, lambda _keep: None).brief_saved_output()["text/html"], VIEW)

    assert faults(in_chat) == {}
