"""The approval request for a plan: its steps, its form, and how many steps can be executed."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from artifactflow_nb.core.approvals import plan_note
from artifactflow_nb.core.language import Texts
from artifactflow_nb.core.text.markdown import safe_markdown_line
from artifactflow_nb.widgets.forms.form import Field
from artifactflow_nb.widgets.run.parts import TranscriptRequest

_DECISIONS = ("continue", "retry", "revise", "finish")
_PLAN_PARAMETERS = frozenset({"title", "steps", "decision", "reason"})
_PLAN_FIELDS = frozenset({"title", "description", "tools"})
"""The fields of a step that a person edits; a step keeps its id."""
_PLAN_LIMIT = re.compile(r"Of these ([\d,]+) steps? at most (\d+) can be carried out\.")


def plan_field(field: Field, texts: Texts) -> Field:
    """Field of a plan with a label for people instead of the name of its parameter."""
    if field.name not in _PLAN_PARAMETERS:
        return field
    labelled = replace(field, label=texts(f"plan_{field.name}"), doc=texts(f"plan_{field.name}_help"))
    if field.kind == "choice":
        names = tuple(texts(f"decision_{choice}") for choice in field.choices)
        return replace(labelled, choice_names=names)
    if field.kind != "items":
        return labelled

    def of_step(columns: Iterable[Field]) -> tuple[Field, ...]:
        # A list of tools without any to choose from would be a field to type names into.
        shown = (column for column in columns if column.kind != "list" or column.choices)
        return tuple(
            replace(
                column,
                label=texts(f"step_{column.name}"),
                doc=texts(f"step_{column.name}_help"),
                choice_names=tuple(map(texts.tool, column.choices)),
            )
            for column in shown
            if column.name in _PLAN_FIELDS
        )

    return replace(labelled, items=tuple(map(of_step, field.items)), blank=of_step(field.blank))


def plan_params(request: TranscriptRequest, texts: Texts) -> dict[str, Any]:
    """Map the labels of the fields to the parameters, with the decision in words."""
    names = {"decision": texts("plan_decision"), "reason": texts("plan_reason"), "title": texts("plan_title")}
    params = {names.get(name, name): value for name, value in request.params.items()}
    if (decision := request.params.get("decision")) in _DECISIONS:
        params[names["decision"]] = texts(f"decision_{decision}")
    return params


def plan_preview(request: TranscriptRequest, texts: Texts) -> str:
    """Format the steps of a plan in Markdown, and note how many of them can be executed if not all."""
    steps = request.params.get("steps")
    if not steps:
        return request.preview
    lines = []
    for number, step in enumerate(steps if isinstance(steps, list) else (), 1):
        fields = step if isinstance(step, Mapping) else {"title": step}
        description, tools = fields.get("description"), fields.get("tools")
        names = texts.listed(texts.tool(str(name)) for name in tools) if isinstance(tools, list) else ""
        line = f"{number}. **{safe_markdown_line(str(fields.get('title', '')))}**"
        line += texts("step_details", details=safe_markdown_line(str(description))) if description else ""
        lines.append(line + (texts("step_with_tools", tools=safe_markdown_line(names)) if names else ""))
    if limit := plan_limit(request, texts):
        lines += ["", limit]
    return "\n".join(lines)


def plan_limit(request: TranscriptRequest, texts: Texts) -> str:
    """Note how many steps of a plan can be executed if not all; otherwise empty."""
    note = plan_note(request.preview)
    if (limit := _PLAN_LIMIT.fullmatch(note)) is None:
        return note
    return texts("plan_limit", steps=texts.count(int(limit[1].replace(",", "")), "n_steps"), most=limit[2])
