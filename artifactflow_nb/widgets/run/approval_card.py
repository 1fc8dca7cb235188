"""Approval cards: build the node of a permission request, and read the decision that the page sends back."""

import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

from artifactflow_nb.core.approvals import BUDGET_KIND, QUESTION_KIND, SCOPES, Decision
from artifactflow_nb.core.language import (
    EnglishText,
    agent_label,
    current_language,
    parameter_label,
    tool_label,
    translate,
)
from artifactflow_nb.core.text.cards import Named, cell_html
from artifactflow_nb.core.text.diff import marked_diff
from artifactflow_nb.core.text.format import capitalized, clip, value_text
from artifactflow_nb.core.text.markdown import escape, escape_with_language, plain_line
from artifactflow_nb.core.text.panels import scroll_box
from artifactflow_nb.errors import FormError, UsageError
from artifactflow_nb.tools.base import Tool
from artifactflow_nb.tools.web.tools import web_search
from artifactflow_nb.widgets.forms.form import Field, form_fields, read_form, read_values, value_fields
from artifactflow_nb.widgets.page.elements import params_html, status_mark
from artifactflow_nb.widgets.page.nodes import Node
from artifactflow_nb.widgets.run import labels
from artifactflow_nb.widgets.run.parts import TranscriptRequest
from artifactflow_nb.widgets.run.plan_request import plan_field, plan_params, plan_preview

_DIFF = re.compile(r"(`{3,})diff\n(.*)\n\1", re.DOTALL)
_DIFF_HEADER_LINES = 2
_TITLE_COLUMNS = 120
_PARAGRAPH = re.compile(r"<p[^>]*>((?:(?!<p\b).)*)</p>", re.DOTALL)
_PROPOSED = " as proposed"
_SAY_INSTEAD = "Say what the agent should do instead."
_SAY_ANSWER = "Say what you answer."
_CHOICES = ("approve", "deny", "instruct")
_EDITS: Mapping[str, EnglishText] = {BUDGET_KIND: "Change the limits", "plan": "Edit the plan"}
_LIMITS: Mapping[str, tuple[EnglishText, EnglishText]] = {
    "tokens": ("tokens", "Input and output tokens of all model calls of the run, including spent tokens."),
    "usd": ("US dollars", "US dollars that these calls cost."),
    "seconds": ("seconds", "Seconds of running time, without the time in which the run waits for you."),
}
"""Label and description of the limits of a budget."""


def approval_card(request: TranscriptRequest, tool: Tool | None, render: Callable[[str], str]) -> Node:
    """Build the card of an open request; `render` converts the preview's Markdown into sanitised HTML.

    A call whose tool is not registered here cannot be edited. A request without a call needs no tool: the form follows
    the types of the request's values.
    """
    if request.kind == QUESTION_KIND:
        return _question_card(request, render)
    title = labels.request_sentence(request)
    is_budget = request.kind == BUDGET_KIND
    if request.is_for_call or is_budget:
        # Without a larger budget no agent could act on an answer, so a budget request takes no answer.
        answer = "" if is_budget else translate("Instruct instead")
        answering = {
            "answer": answer,
            "answerField": translate("Instruction to the agent"),
            "answerSubmit": translate("Send instruction"),
            "note": translate("Note to the agent"),
        }
    else:  # a graph asked, and may read the answer and the note
        answering = {
            "answer": translate("Answer", context="request"),
            "answerField": translate("Your answer"),
            "answerSubmit": translate("Send answer"),
            "note": translate("Note"),
        }
    data = {
        "request": request.id,
        "subject": tool_label(request.tool),
        "title": title,
        "fields": [field.as_json() for field in _fields(request, tool)],
        "edit": translate(_EDITS.get(request.kind, "Edit parameters")),
        "submit": translate("Continue with these limits" if is_budget else "Approve with these values"),
        "allowed": list(request.allowed),
        "hosts": list(request.hosts),
        **answering,
    }
    return Node(f"approval-{request.id}", _html(request, title, render), "approval", "af-approval", data=data)


def _question_card(request: TranscriptRequest, render: Callable[[str], str]) -> Node:
    question = question_text(request)
    asks = translate("{agent} asks before it continues.", agent=agent_label(request.agent))
    # Only a single paragraph fits into the line of the title.
    line = _PARAGRAPH.fullmatch(render(question).strip())
    html = (
        f'<p class="af-approval-title">{status_mark("waiting")} '
        f"<strong>{line[1] if line else escape_with_language(question)}</strong></p>"
        f'<p class="af-quiet">{escape(asks)}</p>'
    )
    title = clip(plain_line(question), _TITLE_COLUMNS)
    data = {"request": request.id, "title": title, "choices": question_choices(request)}
    return Node(f"approval-{request.id}", html, "approval", "af-approval", data=data)


def answered_question(request: TranscriptRequest, answer: str) -> Node:
    """Build the line with a question to the person and the answer."""
    author = translate("{name} asked:", name=capitalized(labels.request_source(request)))
    question = question_text(request)
    html = (
        f'<p><span class="af-quiet">{escape(author)}</span> {escape_with_language(question)}</p>'
        f"<p>{escape_with_language(answer)}</p>"
    )
    return Node(f"answered-{request.id}", html, css="af-answered", text=f"{author} {question}\n{answer}")


def question_text(request: TranscriptRequest) -> str:
    """Return the whole question; the title of the request may be shorter."""
    return str(request.params.get("question") or request.title)


def question_choices(request: TranscriptRequest) -> list[str]:
    """Return the answers to choose from; may be empty."""
    choices = request.params.get("choices")
    return [str(choice) for choice in choices] if isinstance(choices, list) else []


def _fields(request: TranscriptRequest, tool: Tool | None) -> tuple[Field, ...]:
    if request.kind == BUDGET_KIND:
        return tuple(
            replace(
                field,
                label=translate(_LIMITS[field.name][0], context="limit"),
                doc=translate(_LIMITS[field.name][1]),
                placeholder=translate("no limit"),
            )
            for field in form_fields(None, request.params)
        )
    if not request.is_for_call:
        return _labelled(value_fields(request.params))
    fields = _labelled(form_fields(tool, request.params) if tool else ())
    return tuple(plan_field(field) for field in fields) if request.kind == "plan" else fields


def _labelled(fields: Iterable[Field]) -> tuple[Field, ...]:
    """Label fields and the fields of their items for people, instead of by the names of parameters."""
    return tuple(
        replace(
            field,
            label=parameter_label(field.name),
            doc="" if current_language() != "en" and field.doc.isascii() else field.doc,  # written for models
            items=tuple(_labelled(item) for item in field.items),
            blank=_labelled(field.blank),
        )
        for field in fields
    )


def approval_box(children: Iterable[Node]) -> Node:
    """Build the box with the cards of open requests; the page adds buttons that decide several requests at once."""
    return Node("approvals", kind="approvals", css="af-approvals", children=tuple(children))


def _html(request: TranscriptRequest, title: str, render: Callable[[str], str]) -> str:
    """Render the action, the requesting agent and the preview; then, folded, the remaining parameters."""
    mark = status_mark("waiting")
    parts = [f'<p class="af-approval-title">{mark} <strong>{escape_with_language(title)}</strong></p>']
    tool = cell_html(Named(capitalized(tool_label(request.tool)), request.tool))
    if request.agent not in {"", request.tool}:
        agent = cell_html(Named(agent_label(request.agent), request.agent))
        parts.append(f'<p class="af-quiet">{tool} · {agent}</p>')
    elif tool_label(request.tool) not in title:
        parts.append(f'<p class="af-quiet">{tool}</p>')
    if request.message:
        message = request.message
        if request.kind == BUDGET_KIND:
            message = translate("Approve to go on with the new limits; deny to end the run here. Written texts stay.")
        parts.append(f'<p class="af-approval-message">{escape_with_language(message)}</p>')
    params = plan_params(request) if request.kind == "plan" else request.params
    remaining = params_html(
        {
            name: "\n".join(map(value_text, value)) if isinstance(value, list) else value
            for name, value in params.items()
            if not _is_shown(request, title, name, value)
        }
    )
    preview = plan_preview(request) if request.kind == "plan" else request.preview
    if preview:
        parts.append(_preview(preview, render))
    if remaining and (preview or request.tool == web_search.name):
        parts.append(f"<details><summary>{translate('Parameters')}</summary>{remaining}</details>")
    elif remaining and request.is_for_call:  # without a preview, the parameters describe the call
        parts.append(scroll_box(remaining, "af-preview", translate("Parameters")))
    else:
        parts.append(remaining)
    return "".join(parts)


def _is_shown(request: TranscriptRequest, title: str, name: str, value: Any) -> bool:
    """Return whether a parameter is empty, or its whole value is in the sentence or preview of the card."""
    if value in (None, "", [], {}):
        return True
    text = " ".join(value_text(value).split())
    if text == " ".join(request.preview.split()) or (request.kind == "plan" and name == "steps" and request.preview):
        return True
    return isinstance(value, str) and (title.endswith((f": {text}", f"：{text}")) or f"“{text}”" in title)


def _preview(preview: str, render: Callable[[str], str]) -> str:
    """Render a preview in a scroll box; a unified diff has marks for insertions and deletions."""
    if diff := _DIFF.fullmatch(preview.strip()):
        *head, last = diff[2].split("\n", _DIFF_HEADER_LINES)
        names = [
            translate("{name} as proposed", name=name.removesuffix(_PROPOSED)) if name.endswith(_PROPOSED) else name
            for name in head
        ]
        # The line breaks are inside the elements, for pages that do not display the elements as blocks.
        html = "".join(f'<span class="af-where">{escape(name)}\n</span>' for name in names)
        html = f'<pre class="af-changes">{html}{marked_diff(last)}</pre>'
    else:
        html = render(preview)
    return scroll_box(html, "af-preview af-md", translate("Preview"))


def read_decision(args: Mapping[str, Any], request: TranscriptRequest, tool: Tool | None) -> Decision:
    """Read the decision from the arguments that a card sends.

    Args:
        args: `choice` (approve, deny or instruct), `note`, `scope`, and `params`: the contents of the form, or None.
        request: The request.
        tool: The waiting tool; None for a tool that is not registered here, or a request without a call.

    Errors: `FormError` for invalid fields, `UsageError` for other invalid arguments.
    """
    choice, scope, values = args.get("choice"), args.get("scope", "once"), args.get("params")
    note = str(args.get("note") or "").strip()
    if choice not in _CHOICES:
        raise UsageError(f"Invalid choice {choice!r}: use one of {', '.join(map(repr, _CHOICES))}.")
    if choice == "instruct":
        if not note:
            raise FormError({"note": _SAY_INSTEAD if request.is_for_call else _SAY_ANSWER})
        return Decision(approved=False, instruction=note, replaces_call=True)
    known_scope = next((known for known in SCOPES if known == scope), None)
    if known_scope is None:
        raise UsageError(f"Invalid scope {scope!r}: use one of {', '.join(map(repr, SCOPES))}.")
    params = None  # an unchanged form sends no parameters
    if choice == "approve" and values is not None:
        if tool is None and request.is_for_call:
            raise UsageError(f"Tool {request.tool!r} is not registered here. Register it first, then edit its call.")
        if not isinstance(values, Mapping):
            raise UsageError(f"The edited parameters are {type(values).__name__}: send an object of values by name.")
        if request.kind == BUDGET_KIND:
            params = read_form(None, request.params, values)
        elif request.is_for_call:
            params = read_form(tool, request.params, values)
        else:
            params = read_values(request.params, values)
        if _canonical_json(params) == _canonical_json(request.params):
            params = None
    return Decision(approved=choice == "approve", instruction=note, params=params, scope=known_scope)


def _canonical_json(params: Mapping[str, Any]) -> str:
    # JSON is compared, because 1, 1.0 and True are equal in Python.
    return json.dumps(dict(params), sort_keys=True, default=str)
