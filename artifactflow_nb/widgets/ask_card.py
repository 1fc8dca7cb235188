"""The card of a question to the person.

Here it is made: what is asked, in HTML, and what the page makes its buttons and form from. And here the decision is
read that the page sends back.
"""

import json
import re
from collections.abc import Callable, Mapping
from typing import Any

from artifactflow_nb.approvals import BUDGET, SCOPES, Decision
from artifactflow_nb.errors import FormError, UsageError
from artifactflow_nb.text.markdown import escape, speak
from artifactflow_nb.text.width import clip
from artifactflow_nb.tools.base import Tool
from artifactflow_nb.tools.forms import Field, form_fields, read_form, read_values, value_fields
from artifactflow_nb.widgets import labels
from artifactflow_nb.widgets.parts import Question
from artifactflow_nb.widgets.pieces import mark, params_html, scrolling
from artifactflow_nb.widgets.tree import Node

_TITLE_COLUMNS = 120
LONG_CHARS = 200
"""A parameter that is longer is folded away where there is a preview."""
_DIFF = re.compile(r"(`{3,})diff\n(.*)\n\1", re.DOTALL)
_DIFF_HEADER_LINES = 2
_VERDICTS = ("approve", "deny", "instruct")
_MISSING = {True: "what the agent should do instead", False: "what you answer"}
_EDIT = {BUDGET: "Change the limits", "plan": "Edit the plan"}


def ask_node(question: Question, tool: Tool | None, render: Callable[[str], str]) -> Node:
    """The card of an open question.

    Args:
        question: What is asked.
        tool: The tool that waits; None where nobody here knows it, whose call cannot be edited then. A question that is
            about no call needs none: its parameters are edited as what they are.
        render: Makes sanitised HTML of the preview's Markdown.
    """
    title = _title(question)
    is_budget = question.kind == BUDGET
    data = {
        "request": question.id,
        "tool": question.tool,
        "title": clip(title, _TITLE_COLUMNS),
        "fields": [field.as_json() for field in _fields(question, tool)],
        "edit": _EDIT.get(question.kind, "Edit parameters"),
        "submit": "Go on with these" if is_budget else "Approve with these",
        **_words(question),
    }
    return Node(f"ask-{question.id}", _html(question, title, render), "ask", "af-ask", data=data)


def _fields(question: Question, tool: Tool | None) -> tuple[Field, ...]:
    if question.kind == BUDGET:
        return form_fields(None, question.params)
    if not question.is_of_call:
        return value_fields(question.params)
    return form_fields(tool, question.params) if tool else ()


def _words(question: Question) -> dict[str, str]:
    """What an answer and a note are called; an empty `answer` where there is none to give."""
    if not question.is_of_call and question.kind != BUDGET:  # a graph asks: it gets the answer, and may read the note
        return {"answer": "Answer", "answerField": "Your answer", "note": "Note"}
    answer = "" if question.kind == BUDGET else "Answer instead"  # without more to spend no agent could go on with it
    return {"answer": answer, "answerField": "What the agent should do instead", "note": "Note to the agent"}


def _title(question: Question) -> str:
    return question.title or f"{question.tool} asks for your approval"


def _html(question: Question, title: str, render: Callable[[str], str]) -> str:
    parts = [f'<p class="af-ask-title">{mark("waiting")} <strong>{speak(title)}</strong></p>']
    if not (question.tool in question.title and question.agent in question.title):
        is_named = question.agent in {"", question.tool}
        agent = "" if is_named else f' <span class="af-quiet">· {escape(question.agent)}</span>'
        parts.append(f"<p><code>{escape(question.tool)}</code>{agent}</p>")
    if question.message:
        parts.append(f'<p class="af-ask-message">{speak(question.message)}</p>')
    if not question.preview:
        return "".join([*parts, params_html(question.params)])
    shown = {name: value for name, value in question.params.items() if not _is_said(question, name, value)}
    long = {name: value for name, value in shown.items() if len(labels.value_text(value)) > LONG_CHARS}
    parts += [params_html(shown, without=long), _preview(question.preview, render)]
    if long:  # what the preview says of it is what a person wants to read first
        parts.append(
            f"<details><summary>{escape(', '.join(long))}, as it was sent</summary>{params_html(long)}</details>"
        )
    return "".join(parts)


def _is_said(question: Question, name: str, value: Any) -> bool:
    """Whether the preview says a parameter; of a plan it says the steps, and the title stands above."""
    is_plan = question.kind == "plan"
    if is_plan and name == "title":
        return question.title.endswith(f": {value}")
    return (is_plan and name == "steps") or str(value).strip() == question.preview.strip()


def _preview(preview: str, render: Callable[[str], str]) -> str:
    """What would be written or sent, in a box that scrolls and that the keyboard reaches."""
    changes = _DIFF.fullmatch(preview.strip())
    shown = _changes(changes[2]) if changes else render(preview)
    return scrolling(shown, "af-preview af-md", "Preview")


def _changes(diff: str) -> str:
    """A unified difference, with what goes and what comes marked as such."""
    rows = [_row(i, line) for i, line in enumerate(diff.split("\n"))]
    return f'<pre class="af-changes">{"".join(rows)}</pre>'


def _row(number: int, line: str) -> str:
    """One of its lines; the end of a line is kept for a page that shows no styles."""
    if number < _DIFF_HEADER_LINES or line.startswith(("@@", "\\")):
        return f'<span class="af-where">{escape(line)}\n</span>'
    name = {"+": "ins", "-": "del"}.get(line[:1], "span")
    return f"<{name}>{escape(line)}\n</{name}>"


def read_decision(args: Mapping[str, Any], asked: Question, tool: Tool | None) -> Decision:
    """The decision that a card sends.

    Args:
        args: `verdict` (approve, deny or instruct), `note`, `scope`, and `params`: what stands in the form, or None.
        asked: What was asked.
        tool: The tool that waits; None where nobody here knows it, or no call waits.

    Errors: `FormError` for fields that cannot be used, `UsageError` for everything else; nothing is decided then.
    """
    verdict, scope, values = args.get("verdict"), args.get("scope", "once"), args.get("params")
    note = str(args.get("note") or "").strip()
    if verdict not in _VERDICTS:
        raise UsageError(f"The verdict is {verdict!r}; it must be one of {', '.join(map(repr, _VERDICTS))}.")
    if verdict == "instruct":
        if not note:
            raise FormError({"note": f"Say {_MISSING[asked.is_of_call]}."})
        return Decision(approved=False, instruction=note, instead=True)
    known = next((one for one in SCOPES if one == scope), None)
    if known is None:
        raise UsageError(f"The scope is {scope!r}; it must be one of {', '.join(map(repr, SCOPES))}.")
    params = _edited(values, asked, tool) if verdict == "approve" and values is not None else None
    return Decision(approved=verdict == "approve", instruction=note, params=params, scope=known)


def _edited(values: Any, asked: Question, tool: Tool | None) -> Mapping[str, Any] | None:
    """The parameters in the form; None if they are those that were asked about."""
    if tool is None and asked.is_of_call:
        raise UsageError(f"The tool {asked.tool!r} is not registered here: register it first, then edit its call.")
    if not isinstance(values, Mapping):
        raise UsageError("The edited parameters must be values by name.")
    if asked.kind == BUDGET:
        params = read_form(None, asked.params, values)
    elif asked.is_of_call:
        params = read_form(tool, asked.params, values)
    else:
        params = read_values(asked.params, values)
    return None if _exactly(params) == _exactly(asked.params) else params


def _exactly(params: Mapping[str, Any]) -> str:
    return json.dumps(dict(params), sort_keys=True, default=str)
