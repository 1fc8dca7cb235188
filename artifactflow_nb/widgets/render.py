"""The state of a run as a tree of nodes: the same for the live view and for its frozen form.

::

    head     the question, how far it is, Stop
    work     a fold: the lead's turns, its tool calls; within a call the job that it delegated, or the plan that it made
    asks     open questions to the person
    answer   the text of the turn that answers, block by block
    written  the artifacts, the newest version of each

The text of the lead's latest turn stands in `answer` until the turn turns out to call a tool; then it moves up into
`work`, which ends where the answer begins, so that nothing jumps.
"""

from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache, partial
from typing import Any

from artifactflow_nb.errors import StoreError
from artifactflow_nb.plans import checklist_of
from artifactflow_nb.store.runs import INTERRUPTED
from artifactflow_nb.text.figures import count, duration
from artifactflow_nb.text.markdown import MarkdownRenderer, escape, speak
from artifactflow_nb.text.markdown_blocks import TextBlocks
from artifactflow_nb.text.width import clip
from artifactflow_nb.widgets import labels
from artifactflow_nb.widgets.ask_card import ask_node
from artifactflow_nb.widgets.base import ViewedRun
from artifactflow_nb.widgets.controls import button
from artifactflow_nb.widgets.parts import Job, Question, ToolUse, Turn, Written
from artifactflow_nb.widgets.pieces import mark, params_html
from artifactflow_nb.widgets.plan_nodes import PlanNodes
from artifactflow_nb.widgets.transcript import Transcript
from artifactflow_nb.widgets.tree import Node

RESULT_CHARS = 1500
WORTH_SAYING_MS = 10
PLAN_ID = "task_plan"
_DECISIONS = {
    "approved": "Approved",
    "edited": "Approved with other parameters",
    "instructed": "Answered instead",
}


def answer_turn(transcript: Transcript) -> Turn | None:
    """The turn of the lead whose text is the answer, or may become it; None if there is none."""
    turn = transcript.lead.turns[-1] if transcript.lead.turns else None
    if turn is None or turn.tools or turn.reply.call_chars:
        return None
    said = turn.reply.prose.text.strip()
    return None if transcript.response and said != transcript.response.strip() else turn


def main_artifact(transcript: Transcript) -> str:
    """The id of the artifact that a reader came for: the newest that is not the plan; empty if there is none."""
    ids = [artifact_id for artifact_id in transcript.artifacts if artifact_id != PLAN_ID]
    return ids[-1] if ids else ""


class RunRenderer:
    """Makes nodes of a transcript.

    Args:
        run: Where the contents of artifacts and the results of tools are read.
        measured: Show times and tokens; without them the same run gives the same nodes each time.
        opened: Open the artifact that a reader came for when the run has ended.
    """

    def __init__(self, run: ViewedRun, *, measured: bool = True, opened: bool = True) -> None:
        self.measured = measured
        self._opened = opened
        self._markdown = MarkdownRenderer()
        self._plans = PlanNodes(self._turns, self._markdown.html, measured=measured)
        self._run = run
        self._artifact_html = lru_cache(64)(self._read_artifact)
        self._result_html = lru_cache(512)(self._read_result)

    def nodes(self, transcript: Transcript, **which: Any) -> tuple[Node, ...]:
        """The content of the view; `which` as for `state`."""
        return (self.head(transcript, **which), *self.parts(transcript))

    def head(self, transcript: Transcript, **which: Any) -> Node:
        """The question, and below it the run's state."""
        question = Node("question", f"<strong>{speak(transcript.question)}</strong>", css="af-question")
        return Node("head", kind="box", css="af-head", children=(question, self.state(transcript, **which)))

    def state(self, transcript: Transcript, **which: Any) -> Node:
        """A line that says how far the run is, with Stop until it has ended, and Resume where its process is gone.

        `which` are the arguments of these acts.
        """
        status = transcript.status
        said = [mark(status), f'<span class="af-status">{labels.state(status)}</span>']
        if transcript.ended:
            said[1:] = [f"<span>{labels.STATUS_LABELS[status]} · {escape(self._summary(transcript))}</span>"]
        elif status != INTERRUPTED and transcript.started_at and self.measured:
            since = transcript.started_at.timestamp() * 1000
            said.append(f'<span class="af-time" data-since="{since:.0f}"></span>')
            counts = [count(transcript.totals.tokens, "token"), *labels.cost(transcript.totals.cost_usd)]
            said.append(f'<span class="af-counts">{" · ".join(counts)}</span>')
        children = () if transcript.ended else (_run_controls(status, which),)
        return Node("state", " ".join(said), "box", "af-meta", children=children)

    def _summary(self, transcript: Transcript) -> str:
        return labels.summary_line(transcript, measured=self.measured)

    def parts(self, transcript: Transcript) -> tuple[Node, ...]:
        """What came of the question: the work, what is asked of the person, the answer, what was written."""
        asks = tuple(self._ask(question) for question in transcript.open_questions)
        parts = (
            self._work(transcript),
            Node("asks", kind="box", css="af-asks", children=asks),
            Node("answer", kind="box", css="af-answer af-md", children=tuple(self._answer(transcript))),
            Node("written", kind="box", css="af-written", children=tuple(self._written(transcript))),
        )
        return tuple(part for part in parts if part.children or part.kind != "box")

    def _work(self, transcript: Transcript) -> Node:
        lead = transcript.lead
        name = f'<span class="af-name">{escape(lead.agent or "Work")}</span>'
        summary = f'{name} <span class="af-arg">{escape(labels.steps(transcript))}</span>'
        children = tuple(self._turns(lead, answer_turn(transcript)))
        return Node("work", summary, "fold", "af-work", not transcript.ended, children=children)

    def _turns(self, job: Job, answering: Turn | None = None) -> Iterator[Node]:
        for turn in job.turns:
            yield from self._reasoning(turn)
            for i, reason in enumerate(turn.retries):
                yield _notice(f"{turn.key}-retry{i}", f"The model call failed and is tried again: {reason}")
            for i, mishap in enumerate(turn.mishaps):
                yield _notice(f"{turn.key}-mishap{i}", mishap)
            if turn is not answering:
                yield from self._text(turn.key, turn.reply.prose, "af-prose af-md")
            for use in turn.tools:
                yield self._tool(use)
            if preparing := labels.preparing(turn):
                yield Node(f"{turn.key}-prep", f"{mark('running')} {escape(preparing)}", css="af-prep")

    def _reasoning(self, turn: Turn) -> Iterator[Node]:
        text = turn.reasoning.text
        if not text.strip():
            return
        label = "Reasoning" if turn.done or turn.reply.prose.text else "Thinking"
        summary = f'{label} <span class="af-arg">{count(len(text), "character")}</span>'
        blocks = tuple(self._text(f"{turn.key}-why", turn.reasoning, "af-md"))
        yield Node(f"{turn.key}-why", summary, "fold", "af-think", children=blocks)

    def _text(self, key: str, text: TextBlocks, css: str) -> Iterator[Node]:
        for i, block in enumerate(text.blocks):
            if html := self._markdown.block(block.markdown):
                yield Node(f"{key}-{i}", html, css=css)

    def _tool(self, use: ToolUse) -> Node:
        if use.job:
            return self._delegation(use, use.job)
        if use.plan:
            decided = use.question is not None and use.question.approved is not None
            return self._plans.node(use, use.plan, _decision(use.question) if use.question and decided else "")
        said = escape(labels.outcome(use))
        ms = use.duration_ms or 0.0
        took = duration(ms) if ms >= WORTH_SAYING_MS and self.measured else ""
        summary = (
            f'{mark(use.status)} <code class="af-name">{escape(use.tool)}</code> '
            f'<span class="af-arg">{speak(labels.argument(use.params))}</span> '
            f'<span class="af-out">{said}</span> <span class="af-time">{took}</span>'
        )
        details = Node(f"{use.id}-details", self._details(use), css="af-details")
        return Node(use.id, summary, "fold", "af-tool", children=(details,))

    def _details(self, use: ToolUse) -> str:
        shown = "artifact_id" in use.metadata and use.status == "ok"
        parts = [params_html(use.params, without={"content"} if shown else set())]
        if shown and "content" in use.params:
            parts.append(f'<p class="af-quiet">{count(len(str(use.params["content"])), "character")} written</p>')
        if use.question and use.question.approved is not None:
            parts.append(f'<p class="af-quiet">{escape(_decision(use.question))}</p>')
        if use.error:
            parts.append(f'<p class="af-error">{escape(use.error)}</p>')
        elif use.status == "ok":
            parts.append(_unless_unreadable(partial(self._result_html, use.id)))
        return "".join(parts)

    def _delegation(self, use: ToolUse, job: Job) -> Node:
        said = labels.outcome(use) or (labels.activity(job) if use.status == "running" else "")
        calls = count(len(job.tools), "tool call") if use.status != "running" else ""
        summary = (
            f'{mark(use.status)} <span class="af-name">{escape(job.agent)}</span> '
            f'<span class="af-arg">{speak(clip(job.instruction, 90))}</span> '
            f'<span class="af-out">{escape(said)}</span> <span class="af-time">{calls}</span>'
        )
        instruction = Node(f"{use.id}-task", f"<p>{speak(job.instruction)}</p>", css="af-task")
        return Node(use.id, summary, "fold", "af-tool af-job", children=(instruction, *self._turns(job)))

    def _read_result(self, tool_call_id: str) -> str:
        text = self._run.tool_result(tool_call_id)
        if not text:
            return ""
        left = len(text) - RESULT_CHARS
        more = f'<p class="af-quiet">… {count(left, "character")} more</p>' if left > 0 else ""
        return f'<pre class="af-result" tabindex="0">{speak(text[:RESULT_CHARS])}</pre>{more}'

    def _ask(self, question: Question) -> Node:
        return ask_node(question, self._run.tool(question.tool), self._markdown.html)

    def _answer(self, transcript: Transcript) -> Iterator[Node]:
        if turn := answer_turn(transcript):
            yield from self._text(turn.key, turn.reply.prose, "af-block")
        elif transcript.response:
            yield from self._text("response", TextBlocks(transcript.response), "af-block")
        if transcript.problem:
            yield _notice("problem", transcript.problem, "af-notice af-error")

    def _written(self, transcript: Transcript) -> Iterator[Node]:
        best = main_artifact(transcript)
        newest_first = sorted(transcript.artifacts.values(), key=lambda item: item.artifact_id != best)
        for written in newest_first:
            summary = (
                f'<span class="af-title">{speak(written.title)}</span> '
                f'<span class="af-out"><code>{escape(written.artifact_id)}</code> v{written.version}</span>'
            )
            text = Node(
                f"arttext-{written.artifact_id}",
                _unless_unreadable(partial(self._artifact_html, written)),
                css="af-md af-page",
            )
            is_open = self._opened and transcript.ended and written.artifact_id == best
            yield Node(f"art-{written.artifact_id}", summary, "fold", "af-artifact", is_open, children=(text,))

    def _read_artifact(self, written: Written) -> str:
        text = self._run.artifact_text(written.artifact_id, written.version)
        markdown = text if written.content_type == "text/markdown" else checklist_of(text, written.content_type)
        if markdown is not None:
            return self._markdown.html(markdown)
        return f'<pre tabindex="0">{escape(text)}</pre>'


def _unless_unreadable(read: Callable[[], str]) -> str:
    """What is read from the store; if it cannot be read just now, why, and the next time it is tried again."""
    try:
        return read()
    except StoreError as error:
        return f'<p class="af-error">{escape(error)}</p>'


def _run_controls(status: str, which: Mapping[str, Any]) -> Node:
    made = [button("Stop", "stop", css="af-stop", name="Stop this run", **which)]
    if status == INTERRUPTED:
        made.insert(
            0, button("Resume", "resume", css="af-primary", name="Resume: go on with the interrupted run", **which)
        )
    return Node("stop", " ".join(made), "controls", "af-controls")


def _notice(key: str, text: str, css: str = "af-notice") -> Node:
    return Node(key, f"<p>{escape(text)}</p>", css=css)


def _decision(question: Question) -> str:
    verdict = _DECISIONS.get(question.decision, "Denied")
    where = f" for the {question.scope}" if question.scope in {"run", "conversation"} else ""
    by = f" by {question.decided_by}" if question.decided_by else ""
    note = f": {question.instruction}" if question.instruction else ""
    return f"{verdict}{by}{where}{note}"
