"""The state of a run as a tree of nodes: the same for the live view and for its frozen form.

::

    work     a fold: the lead's turns, its tool calls, delegated jobs within the call that delegated them
    asks     open questions to the person
    answer   the text of the turn that answers, block by block
    written  the artifacts, the newest version of each

The text of the lead's latest turn stands in `answer` until the turn turns out to call a tool; then it moves up into
`work`, which ends where the answer begins, so that nothing jumps.
"""

from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Any

from artifactflow_nb.errors import StoreError
from artifactflow_nb.text.markdown import MarkdownRenderer, escape, speak
from artifactflow_nb.text.markdown_blocks import TextBlocks
from artifactflow_nb.text.width import clip
from artifactflow_nb.widgets import labels
from artifactflow_nb.widgets.base import ViewedRun
from artifactflow_nb.widgets.parts import Job, Question, ToolUse, Turn, Written
from artifactflow_nb.widgets.transcript import Transcript
from artifactflow_nb.widgets.tree import Node

RESULT_CHARS = 1500
PARAM_CHARS = 600
WORTH_SAYING_MS = 10
PLAN_ID = "task_plan"
_DECISIONS = {
    "approved": "Approved",
    "edited": "Approved with other parameters",
    "instructed": "Answered instead",
}


def mark(status: str) -> str:
    """A status as a sign with a name, readable without colour."""
    name, sign = labels.MARK_NAMES[status], labels.MARKS[status]
    return f'<span class="af-mark af-{status}" role="img" aria-label="{name}">{sign}</span>'


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
    """

    def __init__(self, run: ViewedRun, *, measured: bool = True) -> None:
        self.measured = measured
        self._markdown = MarkdownRenderer()
        self._run = run
        self._artifact_html = lru_cache(64)(self._read_artifact)
        self._result_html = lru_cache(512)(self._read_result)

    def nodes(self, transcript: Transcript) -> tuple[Node, ...]:
        """The content of the view below its header."""
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
        summary = f'{label} <span class="af-arg">{labels.count(len(text), "character")}</span>'
        blocks = tuple(self._text(f"{turn.key}-why", turn.reasoning, "af-md"))
        yield Node(f"{turn.key}-why", summary, "fold", "af-think", children=blocks)

    def _text(self, key: str, text: TextBlocks, css: str) -> Iterator[Node]:
        for i, block in enumerate(text.blocks):
            if html := self._markdown.block(block.markdown):
                yield Node(f"{key}-{i}", html, css=css)

    def _tool(self, use: ToolUse) -> Node:
        if use.job:
            return self._delegation(use, use.job)
        said = escape(labels.outcome(use))
        ms = use.duration_ms or 0.0
        took = labels.duration(ms) if ms >= WORTH_SAYING_MS and self.measured else ""
        summary = (
            f'{mark(use.status)} <code class="af-name">{escape(use.tool)}</code> '
            f'<span class="af-arg">{speak(labels.argument(use.params))}</span> '
            f'<span class="af-out">{said}</span> <span class="af-time">{took}</span>'
        )
        details = Node(f"{use.id}-details", self._details(use), css="af-details")
        return Node(use.id, summary, "fold", "af-tool", children=(details,))

    def _details(self, use: ToolUse) -> str:
        shown = "artifact_id" in use.metadata and use.status == "ok"
        parts = [_params_html(use.params, without={"content"} if shown else set())]
        if shown and "content" in use.params:
            parts.append(
                f'<p class="af-quiet">{labels.count(len(str(use.params["content"])), "character")} written</p>'
            )
        if use.question and use.question.approved is not None:
            parts.append(f'<p class="af-quiet">{escape(_decision(use.question))}</p>')
        if use.error:
            parts.append(f'<p class="af-error">{escape(use.error)}</p>')
        elif use.status == "ok":
            parts.append(self._result_html(use.id))
        return "".join(parts)

    def _delegation(self, use: ToolUse, job: Job) -> Node:
        said = labels.outcome(use) or (labels.activity(job) if use.status == "running" else "")
        calls = labels.count(len(job.tools), "tool call") if use.status != "running" else ""
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
        more = f'<p class="af-quiet">… {labels.count(left, "character")} more</p>' if left > 0 else ""
        return f'<pre class="af-result" tabindex="0">{speak(text[:RESULT_CHARS])}</pre>{more}'

    def _ask(self, question: Question) -> Node:
        agent = f" · {escape(question.agent)}" if question.agent else ""
        title = speak(question.title or f"{question.tool} asks for your approval")
        parts = [f'<p class="af-ask-title">{mark("waiting")} <strong>{title}</strong></p>']
        if not (question.tool in question.title and question.agent in question.title):
            parts.append(f'<p class="af-quiet"><code>{escape(question.tool)}</code>{agent}</p>')
        if question.message:
            parts.append(f"<p>{escape(question.message)}</p>")
        previewed = {name for name, value in question.params.items() if str(value).strip() == question.preview.strip()}
        parts.append(_params_html(question.params, without=previewed))
        if question.preview:
            parts.append(f'<div class="af-preview af-md" tabindex="0">{self._markdown.html(question.preview)}</div>')
        data = {"request": question.id, "tool": question.tool}
        return Node(f"ask-{question.id}", "".join(parts), "ask", "af-ask", data=data)

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
            text = Node(f"art-{written.artifact_id}-text", self._artifact_html(written), css="af-md af-page")
            is_open = transcript.ended and written.artifact_id == best
            yield Node(f"art-{written.artifact_id}", summary, "fold", "af-artifact", is_open, children=(text,))

    def _read_artifact(self, written: Written) -> str:
        try:
            text = self._run.artifact_text(written.artifact_id, written.version)
        except StoreError as error:
            return f'<p class="af-error">{escape(error)}</p>'
        if written.content_type == "text/markdown":
            return self._markdown.html(text)
        return f"<pre>{escape(text)}</pre>"


def _notice(key: str, text: str, css: str = "af-notice") -> Node:
    return Node(key, f"<p>{escape(text)}</p>", css=css)


def _decision(question: Question) -> str:
    verdict = _DECISIONS.get(question.decision, "Denied")
    where = f" for the {question.scope}" if question.scope in {"run", "conversation"} else ""
    by = f" by {question.decided_by}" if question.decided_by else ""
    note = f": {question.instruction}" if question.instruction else ""
    return f"{verdict}{by}{where}{note}"


def _params_html(params: Mapping[str, Any], *, without: Iterable[str]) -> str:
    hidden = set(without)
    rows = [
        f"<dt>{escape(name)}</dt><dd>{speak(_shortened(labels.value_text(value)))}</dd>"
        for name, value in params.items()
        if name not in hidden
    ]
    return f'<dl class="af-params">{"".join(rows)}</dl>' if rows else ""


def _shortened(text: str) -> str:
    return text if len(text) <= PARAM_CHARS else f"{text[:PARAM_CHARS]} … ({len(text):,} characters)"
