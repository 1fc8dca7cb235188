"""A plan as a checklist: its steps with status and time, and folded within each what was done for it.

A status is a word beside its sign, so that neither colour nor shape has to be seen.
"""

from collections.abc import Callable, Iterable, Iterator

from artifactflow_nb.store.runs import RUNNING
from artifactflow_nb.text.figures import count, duration
from artifactflow_nb.text.markdown import escape, speak
from artifactflow_nb.text.width import clip
from artifactflow_nb.widgets import labels
from artifactflow_nb.widgets.parts import Job, ToolUse
from artifactflow_nb.widgets.pieces import mark
from artifactflow_nb.widgets.plan_work import PlanWork, StepWork
from artifactflow_nb.widgets.tree import Node

Turns = Callable[[Job], Iterable[Node]]
_LINE_COLUMNS = 400


class PlanNodes:
    """Makes the nodes of plans.

    Args:
        turns: Makes the nodes of what an agent did.
        render: Makes sanitised HTML of Markdown.
        measured: Show times.
    """

    def __init__(self, turns: Turns, render: Callable[[str], str], *, measured: bool) -> None:
        self._turns = turns
        self._render = render
        self._measured = measured

    def node(self, use: ToolUse, plan: PlanWork, decided: str = "") -> Node:
        """The plan that a call made, open; `decided` says what a person decided on it."""
        took = duration(use.duration_ms) if use.duration_ms and self._measured else ""
        summary = (
            f'{mark(use.status)} <span class="af-name">Plan</span> <span class="af-arg">{speak(plan.title)}</span> '
            f'<span class="af-out">{plan.progress}</span> <span class="af-time">{took}</span>'
        )
        steps = tuple(self._step(use.id, number, step) for number, step in enumerate(plan.steps, 1))
        inside = [
            *([Node(f"{use.id}-decided", f"<p>{escape(decided)}</p>", css="af-quiet")] if decided else []),
            Node(f"{use.id}-steps", kind="list", css="af-steps", children=steps),
            *(_note(f"{use.id}-note{i}", f"The plan was changed: {note}") for i, note in enumerate(plan.notes)),
            *(self._agent(job) for job in plan.jobs),
        ]
        return Node(use.id, summary, "fold", "af-tool af-job af-plan", True, children=tuple(inside))

    def _step(self, prefix: str, number: int, step: StepWork) -> Node:
        key = f"{prefix}-step-{step.id}"
        inside = tuple(self._inside(key, step))
        kind, css = ("fold", "af-step") if inside else ("leaf", "af-step af-step-line")
        line = Node(f"{key}-line", self._line(number, step), kind, css, children=inside)
        return Node(key, kind="item", children=(line,))

    def _line(self, number: int, step: StepWork) -> str:
        """The step in a line."""
        doing = labels.activity(step.jobs[-1]) if step.status == RUNNING and step.jobs else ""
        return (
            f'<span class="af-mark af-{step.status}" aria-hidden="true">{labels.MARKS[step.status]}</span> '
            f'<span class="af-step-title">{number}. {speak(step.title)}</span> '
            f'<span class="af-arg">{escape(doing)}</span> '
            f'<span class="af-step-state">{labels.step_state(step)}</span> {self._time(step)}'
        )

    def _time(self, step: StepWork) -> str:
        """How long the step took; of one that goes on the page counts."""
        if not self._measured:
            return ""
        if step.since is None:
            return f'<span class="af-time">{duration(step.duration_ms) if step.duration_ms else ""}</span>'
        since = step.since.timestamp() * 1000 - step.duration_ms
        return f'<span class="af-time" data-since="{since:.0f}"></span>'

    def _inside(self, key: str, step: StepWork) -> Iterator[Node]:
        if step.description:
            yield Node(f"{key}-task", f"<p>{speak(step.description)}</p>", css="af-task")
        if step.result and not _says(step, step.result):
            css = "af-prose af-md af-error" if step.status == "failed" else "af-prose af-md"
            yield Node(f"{key}-result", self._render(step.result), css=css)
        for i, job in enumerate(step.jobs):
            if i and job.agent != step.jobs[0].agent:
                yield self._agent(job)
            else:
                yield from self._turns(job)

    def _agent(self, job: Job) -> Node:
        """An agent that looked at the plan, or summed it up."""
        said = labels.activity(job)
        summary = (
            f'<span class="af-name">{escape(job.agent)}</span> <span class="af-arg">{escape(said)}</span> '
            f'<span class="af-out">{count(len(job.tools), "tool call") if job.tools else ""}</span>'
        )
        return Node(f"{job.id}-agent", summary, "fold", "af-tool af-job", children=tuple(self._turns(job)))


def _says(step: StepWork, text: str) -> bool:
    """Whether the last agent of a step has said this, so that it stands there already."""
    return any(
        turn.reply.prose.text.strip().startswith(text.strip()) for job in step.jobs[-1:] for turn in job.turns[-1:]
    )


def _note(key: str, text: str) -> Node:
    return Node(key, f"<p>{escape(text)}</p>", css="af-notice")


def checklist(plan: PlanWork) -> list[str]:
    """The steps as lines of plain text, with what came of those that were not completed; unescaped."""
    lines = []
    for number, step in enumerate(plan.steps, 1):
        why = f": {clip(step.result, _LINE_COLUMNS)}" if step.result and step.status != "completed" else ""
        lines.append(f"{number}. [{labels.step_state(step)}] {clip(step.title, _LINE_COLUMNS)}{why}")
    return lines
