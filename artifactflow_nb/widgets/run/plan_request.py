"""The approval request for a plan: its steps, its form, and how many steps can be executed."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from artifactflow_nb.core.approvals import plan_note
from artifactflow_nb.core.language import EnglishText, tool_label, translate, translate_list
from artifactflow_nb.core.text.format import translate_count
from artifactflow_nb.core.text.markdown import safe_markdown_line
from artifactflow_nb.widgets.forms.form import Field
from artifactflow_nb.widgets.run.parts import TranscriptRequest

_DECISIONS: Mapping[str, EnglishText] = {
    "continue": "continue with the next step",
    "retry": "retry the step that failed",
    "revise": "revise the steps that are to come",
    "finish": "finish the plan as it is",
}
_PLAN_FIELDS: Mapping[str, tuple[EnglishText, EnglishText]] = {
    "title": ("Title", "What the plan is for, in a line."),
    "steps": ("Steps", "The steps, in order."),
    "decision": ("How the plan continues", "What happens with the remaining steps."),
    "reason": ("Reason", "Why, in a sentence."),
}
_STEP_FIELDS: Mapping[str, tuple[EnglishText, EnglishText]] = {
    "title": ("What is done", "What is done, in a line."),
    "description": ("Details", "What it takes, for an agent that knows nothing else."),
    "tools": ("Tools", "The tools that it needs; all if left out."),
}
"""Label and description of the fields that a person edits; a step keeps its id."""
_PLAN_LIMIT = re.compile(r"Of these ([\d,]+) steps? at most (\d+) can be carried out\.")


def plan_field(field: Field) -> Field:
    """Label a field of a plan for people, instead of by the name of its parameter."""
    if field.name not in _PLAN_FIELDS:
        return field
    label, doc = map(translate, _PLAN_FIELDS[field.name])
    labelled = replace(field, label=label, doc=doc)
    if field.kind == "choice":
        return replace(labelled, choice_names=tuple(translate(_DECISIONS[choice]) for choice in field.choices))
    if field.kind != "items":
        return labelled

    def of_step(columns: Iterable[Field]) -> tuple[Field, ...]:
        # Without choices, a list of tools would be a field in which the person types names.
        shown = (column for column in columns if column.kind != "list" or column.choices)
        return tuple(
            replace(
                column,
                label=translate(_STEP_FIELDS[column.name][0]),
                doc=translate(_STEP_FIELDS[column.name][1]),
                choice_names=tuple(map(tool_label, column.choices)),
            )
            for column in shown
            if column.name in _STEP_FIELDS
        )

    return replace(labelled, items=tuple(map(of_step, field.items)), blank=of_step(field.blank))


def plan_params(request: TranscriptRequest) -> dict[str, Any]:
    """Map the labels of the fields to the parameters, with the decision in words."""
    names = {name: translate(_PLAN_FIELDS[name][0]) for name in ("decision", "reason", "title")}
    params = {names.get(name, name): value for name, value in request.params.items()}
    if (decision := str(request.params.get("decision"))) in _DECISIONS:
        params[names["decision"]] = translate(_DECISIONS[decision])
    return params


def plan_preview(request: TranscriptRequest) -> str:
    """Format the steps of a plan in Markdown, with a note if the limit is below the number of steps."""
    steps = request.params.get("steps")
    if not steps:
        return request.preview
    lines = []
    for number, step in enumerate(steps if isinstance(steps, list) else (), 1):
        fields = step if isinstance(step, Mapping) else {"title": step}
        description, tools = fields.get("description"), fields.get("tools")
        names = translate_list(tool_label(str(name)) for name in tools) if isinstance(tools, list) else ""
        line = f"{number}. **{safe_markdown_line(str(fields.get('title', '')))}**"
        line += translate(": {details}", details=safe_markdown_line(str(description))) if description else ""
        lines.append(line + (translate(" (with {tools})", tools=safe_markdown_line(names)) if names else ""))
    if limit := plan_limit(request):
        lines += ["", limit]
    return "\n".join(lines)


def plan_limit(request: TranscriptRequest) -> str:
    """Note how many steps can be executed, if the limit is below the number of steps, or return an empty string."""
    note = plan_note(request.preview)
    if (limit := _PLAN_LIMIT.fullmatch(note)) is None:
        return note
    steps = translate_count(int(limit[1].replace(",", "")), "step")
    return translate("Of these {steps} at most {most} can be carried out.", steps=steps, most=limit[2])
