"""The approval card: its HTML, the data of its controls, and the decision that the page sends back."""

import json
import re
from dataclasses import replace
from typing import Any, Literal

import pytest

from artifactflow_nb.core.approvals import Decision
from artifactflow_nb.core.language import agent_label, in_language, tool_label
from artifactflow_nb.core.text.comparison import fenced_diff
from artifactflow_nb.core.text.markdown import MarkdownRenderer
from artifactflow_nb.errors import FormError, UsageError
from artifactflow_nb.flows.plan.tools import plan_create, with_step_tools
from artifactflow_nb.tools.base import ToolContext, tool
from artifactflow_nb.widgets.page.nodes import Node
from artifactflow_nb.widgets.page.saved import saved_html
from artifactflow_nb.widgets.run.approval_card import approval_card, read_decision
from artifactflow_nb.widgets.run.labels import call_subject, request_sentence, request_source
from artifactflow_nb.widgets.run.parts import TranscriptCall, TranscriptRequest

PARAMS = {"to": "Ada", "copies": 1, "mode": "fast"}
HOSTILE = "<img src=x onerror=alert(1)></ins><script>alert(1)</script>"


@tool(permission="confirm")
def send(ctx: ToolContext, to: str, copies: int = 1, mode: Literal["fast", "slow"] = "fast") -> str:
    """Send a letter."""
    return "sent"


def question(**changes: Any) -> TranscriptRequest:
    parts: dict[str, Any] = {
        "id": "req-1", "kind": "tool", "agent": "lead_agent", "tool": "send", "tool_call_id": "tc-1",
        "title": "lead_agent wants to run send: Ada", "preview": "", "message": "", "params": PARAMS,
    }  # fmt: skip
    return TranscriptRequest(**parts | changes)


def card(**changes: Any) -> Node:
    return approval_card(question(**changes), send, MarkdownRenderer().html)


def decide(values: Any = None, **payload: Any) -> Decision:
    return read_decision({"choice": "approve", "params": values, **payload}, question(), send)


def test_card_data_describes_request() -> None:
    """The data are JSON: the request, names, and a field for each parameter."""
    node = card()
    data = json.loads(json.dumps(dict(node.data)))
    assert (node.key, node.kind, data["request"], data["subject"]) == ("approval-req-1", "approval", "req-1", "send")
    assert [(field["name"], field["value"]) for field in data["fields"]] == [
        ("to", "Ada"), ("copies", "1"), ("mode", "fast")
    ]  # fmt: skip
    assert (data["edit"], data["submit"], data["answer"]) == (
        "Edit parameters",
        "Approve with these values",
        "Instruct instead",
    )


def test_fields_have_labels_in_words() -> None:
    """Built-in parameters have names in the language of the interface; parameters of a user's tool are words."""

    @tool(permission="confirm")
    def post(ctx: ToolContext, urls: list[str], reply_to: str, items: list[dict[str, str]]) -> str:
        """Post."""
        return ""

    request = question(tool="post", params={"urls": [], "reply_to": "", "items": []})
    for language, addresses in (("en", "addresses"), ("zh", "网址")):
        with in_language(language):
            fields = approval_card(request, post, str).data["fields"]
        assert [field["label"] for field in fields] == [addresses, "reply to", "items"]


def test_card_names_the_possible_outcomes() -> None:
    """The page has buttons for the possible outcomes only; without a list of outcomes it has all buttons."""
    assert card(allowed=("approved", "instructed")).data["allowed"] == ["approved", "instructed"]
    assert card().data["allowed"] == []


def test_budget_request_has_fields_for_limits() -> None:
    """The limits are the fields, even if a tool has the name of the request, and the card takes no answer."""
    node = card(kind="budget", tool="budget", params={"tokens": 4000})
    assert [field["name"] for field in node.data["fields"]] == ["tokens", "usd", "seconds"]
    assert not node.data["answer"]


@pytest.mark.parametrize("kind", ["plan", "edit"])
def test_plans_and_edits_use_approval_card(kind: str) -> None:
    """The card shows the preview, has no tool whose parameters could be edited, and is decided in the same way."""
    pending_request = question(
        kind=kind, tool="plan_create", title="A plan of two steps", preview="1. Search\n2. Write"
    )
    node = approval_card(pending_request, None, MarkdownRenderer().html)
    assert "<ol>" in node.html
    assert (node.kind, node.data["fields"], node.data["answer"]) == ("approval", [], "Instruct instead")
    assert read_decision({"choice": "instruct", "note": "Search first."}, pending_request, None).replaces_call


def test_plan_steps_are_editable_in_card() -> None:
    """The steps are in the preview, and in the form as objects; the form returns the parameters of the plan."""
    params = {"title": "The <plan>", "steps": ["Find", '{"title": "Compare", "tools": ["web_fetch"]}']}
    pending_request = question(
        kind="plan", tool="plan_create", title="agent wants to carry out a plan: The <plan>", params=params
    )
    pending_request.preview = "1. **Find**\n2. **Compare** (with web_fetch)"
    node = approval_card(pending_request, plan_create, MarkdownRenderer().html)
    assert "<dt>" not in node.html
    assert node.data["edit"] == "Edit the plan"
    title, steps = node.data["fields"]
    assert (title["value"], steps["kind"], steps["value"]) == ("The <plan>", "items", [0, 1])
    assert [[field["name"] for field in item] for item in steps["items"]] == [["title", "description"]] * 2
    new = {"of": None, "values": {"title": "Write", "description": "", "id": "", "tools": []}}
    payload = {"choice": "approve", "params": {"steps": [1, {"of": 0, "values": {"title": "Search"}}, new]}}
    decision = read_decision(payload, pending_request, plan_create)
    assert decision.params == {
        "title": "The <plan>",
        "steps": [params["steps"][1], {"title": "Search"}, {"title": "Write"}],
    }
    assert read_decision({"choice": "approve", "params": {"steps": [0, 1]}}, pending_request, plan_create) == Decision(
        True
    )
    pending_request.title = "agent wants to carry out a plan: The …"
    assert "<dt>Title</dt>" in approval_card(pending_request, plan_create, str).html


def test_tools_of_steps_are_chosen_from_those_of_the_executor() -> None:
    """The form of a plan offers the executor's tools for each step, and for a new step."""
    request = question(kind="plan", tool="plan_create", params={"title": "T", "steps": [{"title": "Find"}]})
    node = approval_card(request, with_step_tools(plan_create, ("web_search", "web_fetch", "report_failure")), str)
    _title, steps = node.data["fields"]
    for fields in (*steps["items"], steps["blank"]):
        assert {field["name"]: field.get("choices") for field in fields}["tools"] == ["web_search", "web_fetch"]


def test_call_of_unregistered_tool_is_not_editable() -> None:
    """A workbench that does not know the tool shows the question without a form, and refuses edited parameters."""
    assert approval_card(question(), None, str).data["fields"] == []
    with pytest.raises(UsageError, match="'send' is not registered here"):
        read_decision({"choice": "approve", "params": {"to": "Bob"}}, question(), None)


@pytest.mark.parametrize(
    ("tool_name", "params", "sentence"),
    [
        ("web_fetch", {"urls": ["https://python.org/a", "https://python.org/b"]}, "Read 2 pages of python.org"),
        ("web_fetch", {"urls": ["https://a.org", "https://b.org"]}, "Read 2 pages of a.org and 1 other site"),
        ("web_fetch", {"urls": ["local:a/b", "local:a/c"]}, "Read 2 of your sources"),
        (
            "web_fetch",
            {"urls": ["local:a/b", "https://example.org/", "local:a/c"]},
            "Read 1 page of example.org and 2 of your sources",
        ),
        ("web_search", {"query": "backups"}, "Search for “backups”"),
        ("create_artifact", {"id": "notes", "title": "My notes"}, "Write “My notes”"),
        ("rewrite_artifact", {"id": "notes"}, "Rewrite “notes”"),
        ("send", PARAMS, "Run “send”: Ada"),
    ],
)
def test_card_says_what_will_happen(tool_name: str, params: dict[str, Any], sentence: str) -> None:
    """The title of the card is a sentence about the call, and the agent is below it."""
    title = "lead_agent wants to run send: Ada" if tool_name == "send" else f"lead_agent wants to run {tool_name}: x"
    node = card(tool=tool_name, params=params, title=title)
    assert node.data["title"] == sentence
    assert f"<strong>{sentence}</strong>" in node.html
    assert (
        re.sub("<span title[^>]*>|</span>", "", node.html).count(
            f'<p class="af-quiet">{tool_label(tool_name).capitalize()} · lead agent</p>'
        )
        == 1
    )
    has_tooltip = tool_label(tool_name) != tool_name.replace("_", " ")
    assert (f'<span title="{tool_name}">' in node.html) == has_tooltip


def test_question_of_a_graph_is_the_title() -> None:
    """A request without a call shows its question unchanged."""
    assert card(tool_call_id="req-1", title="lead_agent wants to run away?").data["title"] == (
        "lead_agent wants to run away?"
    )


def test_parameters_follow_the_preview_folded() -> None:
    """The list has only parameters that are not empty and that neither the sentence nor the preview shows."""
    params = {"id": "notes", "title": "My notes", "content": "# A", "tags": [], "note": "", "copies": 0}
    html = card(tool="create_artifact", params=params, preview="# A").html
    assert html.index("<h1>A</h1>") < html.index("<details><summary>Parameters</summary>")
    assert [name for name in params if f"<dt>{name}</dt>" in html] == ["id", "copies"]
    without_preview = card(params={"urls": ["https://a.org", "https://b.org"]}).html
    assert "<details>" not in without_preview
    assert "https://a.org\nhttps://b.org" in without_preview


def test_diff_preview_marks_lines() -> None:
    """Removed lines are `<del>`, added lines `<ins>`, with their signs; a removed line may look like a header."""
    diff = "```diff\n--- a (version 1)\n+++ a as proposed\n@@ -1,2 +1,2 @@\n same\n--- old\n+new\n```"
    html = card(preview=diff).html
    assert "<del>--- old\n</del><ins>+new\n</ins>" in html
    assert html.count("<del>") == html.count("<ins>") == 1


def test_diff_preview_marks_changed_words_of_a_paragraph() -> None:
    """In a changed line only the differing words are marked; the title of the card names the text of the diff."""
    old = "In short: nitrate fell. One open question: no source covers winter."
    new = "In short: nitrate fell. Two open questions: no source covers winter."
    diff = fenced_diff(old, new, "The wells of Tai (version 2)", "The wells of Tai as proposed")
    html = card(tool="update_artifact", params={"id": "research_report", "old": old, "new": new}, preview=diff).html
    ends = "In short: nitrate fell. ", ": no source covers winter.\n"
    assert f"<del>-{ends[0]}<mark>One </mark>open <mark>question</mark>{ends[1]}</del>" in html
    assert f"<ins>+{ends[0]}<mark>Two </mark>open <mark>questions</mark>{ends[1]}</ins>" in html
    assert "Change a passage of “The wells of Tai”" in html
    assert "no line feed" not in html
    with_feed = card(preview=fenced_diff("a b", "a c\n", "x (version 1)", "x as proposed")).html
    assert '<mark>b</mark><span class="af-where"> (no line feed at the end)</span>' in with_feed


def test_question_is_plain_text_outside_its_card() -> None:
    """Row, toast and screen reader get no Markdown and no font commands of formulas; the card renders both."""
    text = r"As $\mathrm{NO_3^-}$ or as **nitrogen** (`N`), a < b?"
    request = question(kind="question", tool="ask_person", tool_call_id="call-1", title=text, params={"question": text})
    plain = "As NO_3^- or as nitrogen (N), a < b?"
    assert request_sentence(request) == plain
    assert call_subject(TranscriptCall("call-1", "ask_person", {"question": text}, request=request)) == plain
    node = approval_card(request, None, MarkdownRenderer().html)
    assert node.data["title"] == plain
    assert "<strong>nitrogen</strong>" in node.html


def test_preview_replaces_equal_parameter() -> None:
    """The text that would be written is rendered once, and not listed again."""
    html = card(params={"to": "Ada", "text": "# Title"}, preview="# Title").html
    assert "<h1>Title</h1>" in html
    assert "<dt>text</dt>" not in html


def test_hostile_texts_stay_texts() -> None:
    """Markup in a name, title, message, parameter, preview or difference is shown and does nothing."""
    for preview in (HOSTILE, f"```diff\n{HOSTILE}\n+++ b\n+{HOSTILE}\n```"):
        shown = card(
            tool=HOSTILE,
            agent=HOSTILE,
            title=f"Do {HOSTILE}",
            message=HOSTILE,
            params={HOSTILE: HOSTILE},
            preview=preview,
        )
        assert "<script" not in saved_html((shown,))
        assert "<img" not in saved_html((shown,))


@pytest.mark.parametrize(
    ("payload", "decision"),
    [
        ({}, Decision(True)),
        ({"note": " Gladly \n", "scope": "run"}, Decision(True, "Gladly", scope="run")),
        ({"choice": "deny", "scope": "conversation"}, Decision(False, scope="conversation")),
        ({"choice": "instruct", "note": "Ask Bob."}, Decision(False, "Ask Bob.", replaces_call=True)),
        ({"choice": "instruct", "note": "Ask Bob.", "scope": "run"}, Decision(False, "Ask Bob.", replaces_call=True)),
        ({"choice": "deny", "values": {"to": "Bob"}}, Decision(False)),
    ],
)
def test_click_is_read_as_decision(payload: dict[str, Any], decision: Decision) -> None:
    """A decision has verdict, note and scope; an instruction applies once, and a denial has no parameters."""
    assert decide(**payload) == decision


def test_decision_contains_edited_parameters() -> None:
    """The decision has the changed and the unchanged parameters, typed as in the signature."""
    assert decide({"to": " Bob", "copies": "2"}) == Decision(True, params={"to": " Bob", "copies": 2, "mode": "fast"})


def test_unchanged_form_approves_original_parameters() -> None:
    """An unchanged form sends no edited parameters."""
    assert decide({"to": "Ada", "copies": " 1 ", "mode": "fast"}) == Decision(True)


def test_invalid_decision_is_an_error() -> None:
    """An error names the invalid fields; values that no page sends are refused, too."""
    with pytest.raises(FormError) as caught:
        decide({"copies": "many"})
    assert caught.value.fields.keys() == {"copies"}
    with pytest.raises(FormError, match="Say what the agent should do"):
        decide(choice="instruct", note="  ")
    with pytest.raises(UsageError, match="'perhaps'"):
        decide(choice="perhaps")
    with pytest.raises(UsageError, match="'forever'"):
        decide(scope="forever")
    with pytest.raises(UsageError, match="values by name"):
        decide(["to"])


def test_budget_decision_contains_limits() -> None:
    """Changed limits are parameters of the decision; an empty field means no limit."""
    pending_request = question(kind="budget", tool="budget", params={"tokens": 4000})
    payload = {"choice": "approve", "params": {"tokens": "", "usd": "2"}}
    assert read_decision(payload, pending_request, send) == Decision(True, params={"tokens": None, "usd": 2.0})


def test_question_has_emphasis_and_is_asked_by_its_agent() -> None:
    """Markdown in the line of a question is rendered; not the tool but the agent asks, in both languages."""
    fields = {"kind": "question", "tool": "ask_person", "agent": "lead_agent", "title": "By *order* or size?"}
    request = question(**fields, params={"question": fields["title"]})
    node = approval_card(request, None, MarkdownRenderer().html)
    assert "<strong>By <em>order</em> or size?</strong>" in node.html
    assert request_source(request) == agent_label("lead_agent")
    with in_language("zh"):
        assert request_source(request) == "主智能体"
    several = approval_card(replace(request, params={"question": "One\n\nTwo"}), None, MarkdownRenderer().html)
    assert "<strong>One" in several.html


def test_question_card_has_choices_and_no_approval() -> None:
    """The title is the whole question; texts of the model are escaped; an empty answer is an error at the field."""
    params = {"question": f"City or state? {HOSTILE}", "choices": ["City", HOSTILE]}
    request = question(
        kind="question", tool="ask_person", title="City or", params=params, allowed=("instructed", "denied")
    )
    node = approval_card(request, None, MarkdownRenderer().html)
    assert node.data["choices"] == ["City", HOSTILE]
    assert "City or state? &lt;img" in node.html
    assert "<script" not in node.html
    assert read_decision({"choice": "instruct", "note": " City "}, request, None).instruction == "City"
    with pytest.raises(FormError, match="Say what you answer"):
        read_decision({"choice": "instruct", "note": " "}, request, None)
    assert not read_decision({"choice": "deny", "note": ""}, request, None).replaces_call
