"""The state of a run as a tree of nodes: the same for the live view and for its frozen form.

::

    head     the question, how far it is, Stop
    work     a fold: the lead's turns, its tool calls; within a call the job that it delegated, the plan that it made,
             or the run that carries it out: the same once more, without the buttons of a run
    asks     open questions to the person
    answer   the text of the turn that answers, block by block
    written  the artifacts, the newest version of each

The text of the lead's latest turn stands in `answer` until the turn turns out to call a tool; then it moves up into
`work`, which ends where the answer begins, so that nothing jumps.
"""

from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache, partial
from typing import Any

from artifactflow_nb.errors import NotFound, StoreError
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
from artifactflow_nb.widgets.parts import Job, Question, Subrun, ToolUse, Turn, Written
from artifactflow_nb.widgets.pieces import mark, params_html
from artifactflow_nb.widgets.plan_nodes import PlanNodes
from artifactflow_nb.widgets.subrun_nodes import subrun_node
from artifactflow_nb.widgets.transcript import Transcript
from artifactflow_nb.widgets.tree import Node

RESULT_CHARS = 1500
WORTH_SAYING_MS = 10
PLAN_ID = "task_plan"
_WHO_COLUMNS = 60
_DECISIONS = {
    "approved": "Approved",
    "edited": "Approved with other parameters",
    "instructed": "Answered instead",
}


def answer_turn(transcript: Transcript) -> Turn | None:
    """The turn of the lead whose text is the answer, or may become it; None if there is none.

    What a turn says while another goes on may become the answer, too, but which of them does the end tells.
    """
    turns = transcript.lead.turns
    if transcript.response:
        said = transcript.response.strip()
        return next((turn for turn in reversed(turns) if not turn.calls and turn.said == said), None)
    if not turns or turns[-1].tools or turns[-1].reply.call_chars:
        return None
    *before, last = turns
    return None if not transcript.ended and any(map(last.overlaps, before)) else last


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
        self._below = lru_cache(32)(self._renderer_below)

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
        children = () if transcript.ended else (_run_controls(transcript.status, which),)
        return Node("state", self.progress(transcript), "box", "af-meta", children=children)

    def progress(self, transcript: Transcript) -> str:
        """How far a run is, what it waits for where that is not asked beside it, and what it took."""
        status = transcript.status
        below = labels.waits_below(transcript)
        waits = f" · {escape(below)}" if below else ""
        said = [mark(status), f'<span class="af-status">{labels.state(status)}{waits}</span>']
        if transcript.ended:
            said[1:] = [f"<span>{labels.STATUS_LABELS[status]} · {escape(self._summary(transcript))}</span>"]
        elif status != INTERRUPTED and transcript.started_at and self.measured:
            since = transcript.started_at.timestamp() * 1000
            said.append(f'<span class="af-time" data-since="{since:.0f}"></span>')
            counts = [count(transcript.totals.tokens, "token"), *labels.cost(transcript.totals.cost_usd)]
            said.append(f'<span class="af-counts">{" · ".join(counts)}</span>')
        return " ".join(said)

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
        who = clip(", ".join(lead.agents) or "Work", _WHO_COLUMNS)
        summary = (
            f'<span class="af-name">{escape(who)}</span> <span class="af-arg">{escape(labels.steps(transcript))}</span>'
        )
        children = tuple(self._turns(lead, answer_turn(transcript)))
        if transcript.ended and not children:
            return Node("work", summary, css="af-work af-line")
        return Node("work", summary, "fold", "af-work", not transcript.ended, children=children)

    def _turns(self, job: Job, answering: Turn | None = None) -> Iterator[Node]:
        """What was done, and where several did it, who did what."""
        named = job.agents[0] if len(job.agents) == 1 else ""
        for turn in job.turns:
            made = list(self._turn(turn, is_answering=turn is answering))
            if made and turn.agent and turn.agent != named:
                named = turn.agent
                yield Node(f"{turn.key}-who", f"<p>{escape(named)}</p>", css="af-who")
            yield from made

    def _turn(self, turn: Turn, *, is_answering: bool) -> Iterator[Node]:
        yield from self._reasoning(turn)
        for i, reason in enumerate(turn.retries):
            yield _notice(f"{turn.key}-retry{i}", f"The model call failed and is tried again: {reason}")
        for i, mishap in enumerate(turn.mishaps):
            yield _notice(f"{turn.key}-mishap{i}", mishap)
        if not is_answering:
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
        if use.subrun:
            return subrun_node(use, use.subrun, self._within(use.subrun), self._came_of(use), measured=self.measured)
        said = escape(labels.outcome(use))
        ms = use.duration_ms or 0.0
        took = duration(ms) if ms >= WORTH_SAYING_MS and self.measured else ""
        summary = (
            f'{mark(use.status)} <code class="af-name">{escape(use.tool)}</code> '
            f'<span class="af-arg">{speak(labels.about(use))}</span> '
            f'<span class="af-out">{said}</span> <span class="af-time">{took}</span>'
        )
        details = Node(f"{use.id}-details", self._params(use) + self._came_of(use), css="af-details")
        return Node(use.id, summary, "fold", "af-tool", children=(details,))

    def _params(self, use: ToolUse) -> str:
        if "artifact_id" not in use.metadata or use.status != "ok" or "content" not in use.params:
            return params_html(use.params)
        written = f'<p class="af-quiet">{count(len(str(use.params["content"])), "character")} written</p>'
        return params_html(use.params, without={"content"}) + written

    def _came_of(self, use: ToolUse, said: str = "") -> str:
        """Decision and result of a call; no result that was `said` already."""
        parts = []
        if use.question and use.question.approved is not None:
            parts.append(f'<p class="af-quiet">{escape(_decision(use.question))}</p>')
        if use.error:
            parts.append(f'<p class="af-error">{escape(use.error)}</p>')
        elif use.status == "ok" and use.subrun is None:  # what that run answered and wrote stands there
            parts.append(_unless_unreadable(partial(self._result_html, use.id, said)))
        return "".join(parts)

    def _delegation(self, use: ToolUse, job: Job) -> Node:
        said = labels.outcome(use) or (labels.activity(job) if use.status == "running" else "")
        took = [count(len(job.calls), "tool call")] if use.status != "running" else []
        if use.is_delegation:
            name, about = f'<span class="af-name">{escape(job.agent)}</span>', clip(job.instruction, 90)
            task = Node(f"{use.id}-task", f"<p>{speak(job.instruction)}</p>", css="af-task")
            children = (task, *self._turns(job))
        else:
            name, about = f'<code class="af-name">{escape(use.tool)}</code>', labels.about(use)
            took.insert(0, clip(", ".join(job.agents), _WHO_COLUMNS))
            task = Node(f"{use.id}-task", params_html(use.params), css="af-details")
            came_of_it = self._came_of(use, job.turns[-1].said if job.turns else "")
            result = [Node(f"{use.id}-details", came_of_it, css="af-details")] if came_of_it else []
            children = (task, *self._turns(job), *result)
        summary = (
            f'{mark(use.status)} {name} <span class="af-arg">{speak(about)}</span> '
            f'<span class="af-out">{escape(said)}</span> <span class="af-time">{escape(" · ".join(took))}</span>'
        )
        return Node(use.id, summary, "fold", "af-tool af-job", children=children)

    def _within(self, subrun: Subrun) -> tuple[Node, ...]:
        """How far a run is that carries out a call, and what it did; nothing of one that is not here."""
        if not subrun.is_known:
            return ()
        try:
            below = self._below(subrun.run_id)
        except NotFound:  # it was deleted while it is shown
            return ()
        except StoreError as error:
            return (_notice("unreadable", str(error)),)
        state = Node("state", below.progress(subrun.transcript), css="af-meta")
        return (state, *below.parts(subrun.transcript))

    def _renderer_below(self, run_id: str) -> "RunRenderer":
        return RunRenderer(self._run.subrun(run_id), measured=self.measured, opened=False)

    def _read_result(self, tool_call_id: str, said: str) -> str:
        text = self._run.tool_result(tool_call_id)
        if not text or text.strip() == said:
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
    answered = question.decision == "instructed" and not question.is_of_call
    verdict = "Answered" if answered else _DECISIONS.get(question.decision, "Denied")
    where = f" for the {question.scope}" if question.scope in {"run", "conversation"} else ""
    by = f" by {question.decided_by}" if question.decided_by else ""
    note = f": {question.instruction}" if question.instruction else ""
    return f"{verdict}{by}{where}{note}"
