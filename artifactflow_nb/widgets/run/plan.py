"""Plans as checklists: steps with status and time; the work of a step's agents can be expanded.

Every status is also a word, so that a reader needs neither colour nor symbols.
"""

from collections.abc import Callable, Iterable

from artifactflow_nb.core.language import agent_label, translate
from artifactflow_nb.core.plan import plan_label
from artifactflow_nb.core.text.format import clip, translate_count, translate_duration
from artifactflow_nb.core.text.markdown import escape, escape_with_language
from artifactflow_nb.store.runs import RUNNING
from artifactflow_nb.widgets.page.elements import STATUS_MARKS, name_html, status_mark
from artifactflow_nb.widgets.page.nodes import Node
from artifactflow_nb.widgets.run import labels
from artifactflow_nb.widgets.run.parts import TranscriptCall, TranscriptJob, TranscriptPlan, TranscriptStep

RenderTurns = Callable[[TranscriptJob], Iterable[Node]]
_LINE_COLUMNS = 400


class PlanRenderer:
    """Creates the nodes of a plan.

    Args:
        render_turns: Creates the nodes of a job's turns.
        render: Converts Markdown into sanitised HTML.
        with_metrics: Show times.
    """

    def __init__(self, render_turns: RenderTurns, render: Callable[[str], str], *, with_metrics: bool) -> None:
        self._render_turns = render_turns
        self._render = render
        self._with_metrics = with_metrics

    def node(self, call: TranscriptCall, plan: TranscriptPlan, decision: str = "") -> Node:
        """Build the expanded fold of a plan, with a person's decision on the plan."""
        ms = call.duration_ms if self._with_metrics else None
        time = labels.time_label(ms, call.wait_ms) if ms else ""
        progress = labels.progress(plan.steps)
        summary = (
            f'{status_mark(call.status)} <span class="af-name">{translate("Plan")}</span> '
            f'<span class="af-arg">{escape_with_language(plan_label(plan.title))}</span> '
            f'<span class="af-out">{progress}</span> <span class="af-time">{time}</span>'
        )
        steps = tuple(self._step(call.id, number, step) for number, step in enumerate(plan.steps, 1))
        children = (
            *([Node(f"{call.id}-decided", f"<p>{escape(decision)}</p>", css="af-quiet")] if decision else []),
            Node(f"{call.id}-steps", kind="list", css="af-steps", children=steps),
            *(
                Node(
                    f"{call.id}-note{i}",
                    f"<p>{escape(translate('The plan was changed: {note}', note=note))}</p>",
                    css="af-notice",
                )
                for i, note in enumerate(plan.notes)
            ),
            *(self._agent(job) for job in plan.jobs),
        )
        first = translate("Plan: {title} ({progress})", title=plan_label(plan.title), progress=progress)
        text = "\n".join([first, *_checklist(plan)])
        return Node(call.id, summary, "fold", "af-tool af-job af-plan", True, children=children, text=text)

    def _step(self, prefix: str, number: int, step: TranscriptStep) -> Node:
        key = f"{prefix}-step-{step.id}"
        details: list[Node] = []
        if step.description:
            details.append(Node(f"{key}-task", f"<p>{escape_with_language(step.description)}</p>", css="af-task"))
        last_turns = step.jobs[-1].turns[-1:] if step.jobs else []
        is_last_reply = any(turn.text.startswith(step.result.strip()) for turn in last_turns)
        if step.result and not is_last_reply:  # else the last turn shows the result
            css = "af-prose af-md af-error" if step.status == "failed" else "af-prose af-md"
            details.append(Node(f"{key}-result", self._render(step.result), css=css))
        for i, job in enumerate(step.jobs):
            if i and job.agent != step.jobs[0].agent:  # the replanner after an attempt
                details.append(self._agent(job))
            else:
                details += self._render_turns(job)
        kind, css = ("fold", "af-step") if details else ("leaf", "af-step af-step-line")
        line = Node(f"{key}-line", self._line(number, step), kind, css, children=tuple(details))
        return Node(key, kind="item", children=(line,))

    def _line(self, number: int, step: TranscriptStep) -> str:
        activity = labels.activity(step.jobs[-1]) if step.status == RUNNING and step.jobs else ""
        if not self._with_metrics:
            time = ""
        elif step.started_at is None:
            time = f'<span class="af-time">{translate_duration(step.duration_ms) if step.duration_ms else ""}</span>'
        else:  # the page counts the time of a running step
            since = step.started_at.timestamp() * 1000 - step.duration_ms
            time = f'<span class="af-time" data-since="{since:.0f}"></span>'
        return (
            f'<span class="af-mark af-{step.status}" aria-hidden="true">{STATUS_MARKS[step.status]}</span> '
            f'<span class="af-step-title">{number}. {escape_with_language(step.title)}</span> '
            f'<span class="af-arg">{escape(activity)}</span> '
            f'<span class="af-step-state">{labels.step_state(step)}</span> {time}'
        )

    def _agent(self, job: TranscriptJob) -> Node:
        """Build the fold of an agent that replanned or summarized."""
        summary = (
            f"{name_html(job.agent, agent_label(job.agent))} "
            f'<span class="af-arg">{escape(labels.activity(job))}</span> '
            f'<span class="af-out">{translate_count(len(job.tools), "tool call") if job.tools else ""}</span>'
        )
        return Node(f"{job.id}-agent", summary, "fold", "af-tool af-job", children=tuple(self._render_turns(job)))


def _checklist(plan: TranscriptPlan) -> list[str]:
    """Format steps as lines of plain text, unescaped, with the reason why a step was not completed."""
    lines = []
    for number, step in enumerate(plan.steps, 1):
        reason = f": {clip(step.result, _LINE_COLUMNS)}" if step.result and step.status != "completed" else ""
        lines.append(f"{number}. [{labels.step_state(step)}] {clip(step.title, _LINE_COLUMNS)}{reason}")
    return lines
