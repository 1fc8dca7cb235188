"""`RunRenderer`: a transcript as a tree of nodes, both for the live view and for the saved output.

::

    head      the question, the status, Stop
    work      fold: the lead's turns and tool calls; a call contains its job, its plan, or its subrun without buttons
    asks      open permission requests
    answer    the text of the answering turn, block by block
    written   the text that a tool call of the lead is writing, and the newest version of each artifact

The text of the lead's latest turn is in `answer` until the turn requests a tool call; then the text moves to the end
of `work`, directly above, so that the page does not jump.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from datetime import datetime
from functools import lru_cache, partial
from html import unescape
from typing import Any

from artifactflow_nb.core.language import EnglishText, agent_label, status_label, tool_label, translate, translate_list
from artifactflow_nb.core.plan import plan_checklist
from artifactflow_nb.core.text.format import capitalized, clip, translate_count, translate_duration, without_context
from artifactflow_nb.core.text.markdown import MarkdownRenderer, escape, escape_with_language
from artifactflow_nb.core.text.shortened import (
    ANSWER_LOCATION,
    EXPORT_LOCATION,
    GrowingText,
    beginning,
    html_blocks,
    shown_html,
    shown_plain,
)
from artifactflow_nb.engine.flow_registry import BUILT_IN_FLOWS, DEFAULT_FLOW
from artifactflow_nb.engine.run_client import RunReader
from artifactflow_nb.errors import NotFound, StoreError
from artifactflow_nb.sources.citation_marks import Citations, addresses_of, listed_sources, unread_sentence
from artifactflow_nb.store.runs import ABANDONED, RUNNING, WAITING
from artifactflow_nb.widgets.page.elements import button, name_html, params_html, status_mark
from artifactflow_nb.widgets.page.nodes import Node, prefixed
from artifactflow_nb.widgets.run import labels
from artifactflow_nb.widgets.run.approval_card import answered_question, approval_box, approval_card
from artifactflow_nb.widgets.run.cited_page import run_citations
from artifactflow_nb.widgets.run.parts import (
    TranscriptArtifact,
    TranscriptCall,
    TranscriptJob,
    TranscriptRequest,
    TranscriptTokens,
    TranscriptTurn,
)
from artifactflow_nb.widgets.run.plan import PlanRenderer
from artifactflow_nb.widgets.run.transcript import RunTranscript

RESULT_CHARS = 400
MIN_DISPLAYED_MS = 10
_STALL_STEP_S = 5  # times are rounded, so that few pieces change the node
MIN_REPEATED_CHARS = 400
REPEATED_SHARE = 0.9
"""Share of an answer's characters that must occur in the report for the answer to be folded."""
PLAN_ID = "task_plan"
_TAG = re.compile(r"<[^>]*>")
_WORD = re.compile(r"\w+")
_AGENTS_COLUMNS = 60
_SUBJECT_COLUMNS = 90
_DECISIONS: Mapping[str, EnglishText] = {
    "approved": "Approved",
    "edited": "Approved with other parameters",
    "instructed": "Answered instead",
}
_SCOPES: Mapping[str, EnglishText] = {"run": "{verdict} for the run", "conversation": "{verdict} for the conversation"}


def answer_turn(transcript: RunTranscript) -> TranscriptTurn | None:
    """Return the turn of the lead whose text is, or may become, the answer, or None."""
    turns = transcript.lead_job.turns
    if transcript.response:
        response = transcript.response.strip()
        return next((turn for turn in reversed(turns) if not turn.calls and turn.text == response), None)
    if not turns or turns[-1].tools or turns[-1].reply.call_chars:
        return None
    *earlier, last = turns
    # Any of several parallel turns may become the answer; only the end of the run tells which turn.
    return None if not transcript.is_ended and any(map(last.overlaps, earlier)) else last


def main_artifact(transcript: RunTranscript) -> str:
    """Return the id of the main result: the newest artifact except the plan, or an empty string."""
    ids = [artifact_id for artifact_id in transcript.artifacts if artifact_id != PLAN_ID]
    return ids[-1] if ids else ""


def without_title(text: str, title: str) -> str:
    """Remove a first heading that repeats the title, because a view shows the title above the text."""
    first, _, rest = text.lstrip().partition("\n")
    is_repeated = first.startswith("# ") and _words(first) == _words(title)
    return rest.lstrip("\n") if is_repeated and rest.strip() else text


def repeats(answer: str, report: str) -> bool:
    """Return whether the displayed part of a report contains nearly every displayed line of an answer."""
    answer_lines, report_lines = (
        [words for line in beginning(text)[0].splitlines() if (words := _words(line))] for text in (answer, report)
    )
    repeated_lines = filter(frozenset(report_lines).__contains__, answer_lines)
    return sum(map(len, repeated_lines)) >= REPEATED_SHARE * sum(map(len, answer_lines))


def _words(text: str) -> str:
    return " ".join(_WORD.findall(text)).casefold()


class RunRenderer:
    """Creates the nodes of a transcript.

    Args:
        run: Source of artifact contents and tool results.
        with_metrics: Show times and tokens; without them the nodes of a run are reproducible.
        open_keys: Expand the main artifact when the run has ended.
    """

    def __init__(self, run: RunReader, *, with_metrics: bool = True, open_keys: bool = True) -> None:
        self.with_metrics = with_metrics
        self._open_main_artifact = open_keys
        self._markdown = MarkdownRenderer()
        self._run = run
        # Each patch renders all nodes; without these caches every patch would read the store.
        self._artifact_text = lru_cache(64)(lambda entry: run.artifact_text(entry.artifact_id, entry.version))
        self._cited_html = lru_cache(64)(lambda text, cite: shown_html(text, self._markdown, cite=cite))
        self._plain_text = lru_cache(64)(lambda text: unescape(_TAG.sub(" ", self._html(text))))
        self._repeats = lru_cache(8)(repeats)
        self._result_html = lru_cache(512)(self._read_result)
        self._listed = lru_cache(32)(lambda text: tuple(listed_sources(text).items()))
        self._citations = lru_cache(32)(lambda listed, _n_calls: run_citations(run, dict(listed)))
        self._evidence = lru_cache(4)(run.evidence)
        self._block_node = lru_cache(2048)(lambda key, html, css: Node(key, html, css=css))
        self._subrun_renderer = lru_cache(32)(
            lambda run_id: RunRenderer(run.subrun(run_id), with_metrics=with_metrics, open_keys=False)
        )

    def nodes(self, transcript: RunTranscript, **action_args: Any) -> tuple[Node, ...]:
        """Return the content of the view; `action_args` as for `status_line`."""
        return (self.header(transcript, **action_args), *self.body(transcript))

    def header(self, transcript: RunTranscript, **action_args: Any) -> Node:
        """Build the question and the status of the run."""
        html = f"<strong>{escape_with_language(transcript.question)}</strong>"
        question = Node("question", html, css="af-question", text=question_text(transcript))
        return Node("head", kind="box", css="af-head", children=(question, self.status_line(transcript, **action_args)))

    def status_line(self, transcript: RunTranscript, *, with_stop: bool = True, **action_args: Any) -> Node:
        """Build the status of a run, with Stop (if `with_stop`) until the end, and Resume after an interruption."""
        html = self.progress(transcript)
        if transcript.is_ended or not (with_stop or transcript.status == ABANDONED):
            return Node("state", html, "box", "af-meta")
        buttons = button(translate("Stop"), "stop", css="af-stop", name=translate("Stop this run"), **action_args)
        text = None
        if transcript.status == ABANDONED:
            name = translate("Resume: continue the abandoned run")
            buttons = f"{button(translate('Resume'), 'resume', css='af-primary', name=name, **action_args)} {buttons}"
            text = translate("Abandoned: its process has ended. run.resume() continues it.")
        controls = Node("stop", buttons, "controls", "af-controls")
        return Node("state", html, "box", "af-meta", children=(controls,), text=text)

    def progress(self, transcript: RunTranscript) -> str:
        """Render a run's status, the pending requests of its subruns, and its usage."""
        status = transcript.status
        label = escape(labels.run_status_label(transcript))
        spans = [status_mark(status), f'<span class="af-status">{label}</span>']
        if transcript.is_ended:
            summary = labels.summary_line(transcript, with_metrics=self.with_metrics)
            outcome = labels.outcome_label(transcript.outcome)
            label = " · ".join(filter(None, [capitalized(status_label(status)), outcome, summary]))
            spans[1:] = [f"<span>{escape(label)}</span>"]
        elif status != ABANDONED and transcript.started_at and self.with_metrics:
            since = transcript.started_at.timestamp() * 1000
            spans.append(f'<span class="af-time" data-since="{since:.0f}"></span>')
            totals = transcript.totals_with_subruns
            counts = [labels.tokens_label(totals.tokens), *labels.cost_label(totals)]
            counts += labels.failed_label(totals.n_failed_calls)
            counts += filter(None, [labels.step_number(transcript)])
            spans.append(f'<span class="af-counts">{" · ".join(filter(None, counts))}</span>')
            if transcript.usual_ms is not None and status == RUNNING:
                active_since = since + transcript.waited_ms
                left = f'data-since="{active_since:.0f}" data-usual="{transcript.usual_ms:.0f}"'
                spans.append(f'<span class="af-left" {left}></span>')
        return " ".join(spans)

    def body(self, transcript: RunTranscript) -> tuple[Node, ...]:
        """Return the work, open requests, the answer and the artifacts."""
        lead = transcript.lead_job
        agents = clip(self._agents(lead) or translate("Work"), _AGENTS_COLUMNS)
        steps = escape(labels.steps(transcript))
        is_retried = bool(lead.turns) and not lead.turns[-1].is_done and bool(lead.turns[-1].retries)  # and says so
        if (since := lead.awaiting_since) is not None and transcript.status == RUNNING and not is_retried:
            clock = f'<span class="af-clock" data-since="{since.timestamp() * 1000:.0f}"></span>' * self.with_metrics
            waiting = escape(translate("Waiting for the first words of the model")) + clock
            steps = " · ".join(filter(None, [steps, waiting]))
        stall = self.stall(lead) if transcript.status == RUNNING else ""
        summary = f'{name_html(", ".join(lead.agents), agents)} <span class="af-arg">{steps}</span>{stall}'
        turns = tuple(self._turns(transcript, lead, answer_turn(transcript)))
        if transcript.is_ended and not turns:
            # An answer of the usual agent alone needs no line with the agent's name.
            is_plain = not steps and lead.agents == [BUILT_IN_FLOWS[DEFAULT_FLOW].agents[0].config.name]
            work = Node("work", "" if is_plain else summary, "box" if is_plain else "leaf", "af-work af-line")
        else:
            work = Node("work", summary, "fold", "af-work", not transcript.is_ended, children=turns)

        cards = tuple(
            approval_card(request, self._run.tool(request.tool), partial(self.cited_html, transcript))
            for request in transcript.open_requests
        )
        questions = [request for request in transcript.requests.values() if request.is_answered_question]
        refusals = labels.refusals(transcript) if transcript.is_ended else ()
        nodes = (
            work,
            *(answered_question(request, _decision(request)) for request in questions if transcript.is_ended),
            *(_notice(f"refused{i}", text, "af-notice af-refused") for i, text in enumerate(refusals)),
            approval_box(cards),
            self._answer(transcript),
            Node("written", kind="box", css="af-written", children=tuple(self._written(transcript))),
        )
        return tuple(node for node in nodes if node.children or node.kind not in {"box", "approvals"})

    def stall(self, job: TranscriptJob) -> str:
        """Build the clock that appears when a streamed reply stalls; empty without a streamed reply."""
        turn = job.turns[-1] if job.turns else None
        if turn is None or turn.is_done or turn.latest_piece_at is None or job.awaiting_since or not self.with_metrics:
            return ""
        since = turn.latest_piece_at.timestamp() // _STALL_STEP_S * _STALL_STEP_S * 1000
        return f' <span class="af-stall" data-since="{since:.0f}" data-stall></span>'

    def _turns(
        self, transcript: RunTranscript, job: TranscriptJob, answer: TranscriptTurn | None = None
    ) -> Iterator[Node]:
        """Yield the turns of a job, with the agent's name where the agent changes; the text of `answer` is omitted."""
        agent = job.agents[0] if len(job.agents) == 1 else ""
        for turn in job.turns:
            retry_at = job.awaiting_since if turn is job.turns[-1] else None
            nodes = list(self._turn(transcript, turn, retry_at, is_answer=turn is answer))
            if nodes and turn.agent and turn.agent != agent:
                agent = turn.agent
                yield Node(f"{turn.key}-who", f"<p>{name_html(agent, agent_label(agent))}</p>", css="af-who")
            yield from nodes

    def _turn(
        self, transcript: RunTranscript, turn: TranscriptTurn, retry_at: datetime | None, *, is_answer: bool
    ) -> Iterator[Node]:
        is_over = turn.is_done or transcript.is_ended
        yield from self._reasoning(turn, is_over=is_over)
        for i, (reason, delay_ms) in enumerate(turn.retries):
            time, error = translate_duration(delay_ms), escape(reason)
            html = translate(
                "The model call failed and was tried again after {time}: {reason}", time=time, reason=error
            )
            if retry_at and delay_ms and not is_over and i == len(turn.retries) - 1:
                due = f' data-since="{retry_at.timestamp() * 1000:.0f}" data-due' * self.with_metrics  # counts down
                time = f"<span{due}>{translate('in {time}', time=time)}</span>"
                html = translate("The model call failed and is tried again {time}: {reason}", time=time, reason=error)
            yield Node(f"{turn.key}-retry{i}", f"<p>{html}</p>", css="af-notice")
        for i, error in enumerate(turn.middleware_errors):
            yield _notice(f"{turn.key}-mishap{i}", error)
        if not is_answer:
            yield from self._text(turn.key, turn.reply.prose, "af-prose af-md", is_arriving=not is_over)
        for call in turn.tools:
            yield self._tool(transcript, call)
        if preparing := labels.preparing_label(turn):
            yield Node(f"{turn.key}-prep", f"{status_mark('running')} {escape(preparing)}", css="af-prep")

    def _reasoning(self, turn: TranscriptTurn, *, is_over: bool) -> Iterator[Node]:
        if turn.reasoning.is_blank:
            return
        label = labels.reasoning_label(turn, is_over=is_over) if self.with_metrics else translate("Thought")
        summary = f'{label} <span class="af-arg">{translate_count(turn.reasoning.n_chars, "character")}</span>'
        is_arriving = not is_over and turn.reasoning_ms is None
        blocks = tuple(self._text(f"{turn.key}-why", turn.reasoning, "af-md", is_arriving=is_arriving))
        yield Node(f"{turn.key}-why", summary, "fold", "af-think", children=blocks)

    def _text(
        self,
        key: str,
        text: GrowingText,
        css: str,
        place: str = EXPORT_LOCATION,
        cite: Callable[[str], str] = str,
        *,
        is_arriving: bool = False,
    ) -> Iterator[Node]:
        for i, html in enumerate(html_blocks(text, self._markdown, place, cite, is_arriving=is_arriving)):
            if html:
                yield self._block_node(f"{key}-{i}", html, css)

    def cited_html(self, transcript: RunTranscript, text: str) -> str:
        """Convert Markdown to HTML with citations."""
        return self._cited_html(text, self._cited(transcript, text).apply)

    def _cited(self, transcript: RunTranscript, text: str) -> Citations:
        """Return the citations of a text, by default with the report's sources."""
        n_calls = sum(call.status == "ok" for run in transcript.with_subruns() for call in run.tool_uses)
        report = transcript.artifacts.get(main_artifact(transcript))
        try:
            sources = self._listed(text) or (self._listed(self._artifact_text(report)) if report else ())
            return self._citations(sources, n_calls)
        except StoreError:  # the marks stay text until the store can be read again
            return Citations({})

    def _tool(self, transcript: RunTranscript, call: TranscriptCall) -> Node:
        if call.job:
            return self._delegation(transcript, call, call.job)
        if call.plan:
            turns = partial(self._turns, transcript)
            plans = PlanRenderer(turns, self._html, with_metrics=self.with_metrics)
            is_decided = call.request is not None and call.request.approved is not None
            decision = _decision(call.request) if call.request and is_decided else ""
            return plans.node(call, call.plan, decision)
        if subrun := transcript.subruns.get(call.subrun_id):
            return self._subrun(call, subrun)
        ms = call.duration_ms or 0.0
        time = labels.time_label(ms, call.wait_ms) if ms >= MIN_DISPLAYED_MS and self.with_metrics else ""
        is_plan = call.request is not None and call.request.kind == "plan"
        mark = "denied" if call.is_denied else "warning" if all(call.n_read) else call.status
        summary = (
            f"{status_mark(mark)} {self._tool_name(call)} "
            f'<span class="af-arg">{escape_with_language(labels.call_subject(call))}</span> '
            f'<span class="af-out">{escape(labels.call_outcome(call))}</span> '
            f'<span class="af-time">{time}</span>'
        )
        params = "" if is_plan else self._params(call)  # the card has the steps
        details = Node(f"{call.id}-details", params + self._result(call), css="af-details")
        return Node(call.id, summary, "fold", "af-tool", children=(details,))

    def _tool_name(self, call: TranscriptCall) -> str:
        return name_html(call.tool, tool_label(call.tool))

    def _agents(self, job: TranscriptJob) -> str:
        return translate_list(map(agent_label, job.agents))

    def _params(self, call: TranscriptCall) -> str:
        if "artifact_id" not in call.metadata or call.status != "ok" or "content" not in call.params:
            return params_html(call.params)
        # The artifact itself is displayed below the answer.
        characters = translate_count(len(str(call.params["content"])), "character")
        size = f'<p class="af-quiet">{translate("{characters} written", characters=characters)}</p>'
        return params_html(call.params, without={"content"}) + size

    def _result(self, call: TranscriptCall, displayed: str = "") -> str:
        """Render a call's decision, error and result; a result equal to `displayed` is omitted."""
        parts = []
        if call.request and call.request.approved is not None:
            parts.append(f'<p class="af-quiet">{escape(_decision(call.request))}</p>')
        if call.error:
            parts.append(f'<p class="af-error">{escape(call.error)}</p>')
        elif call.status == "ok" and not call.subrun_id:  # the fold of a subrun contains its answer and artifacts
            parts.append(_html_or_error(partial(self._result_html, call.id, displayed)))
        return "".join(parts)

    def _delegation(self, transcript: RunTranscript, call: TranscriptCall, job: TranscriptJob) -> Node:
        turns = self._turns(transcript, job)
        is_running = call.status == "running"
        usage = [] if is_running else [translate_count(len(job.calls), "tool call")]
        if call.is_delegation:
            name = name_html(job.agent, agent_label(job.agent))
            subject = clip(self._plain_text(job.instruction), _SUBJECT_COLUMNS)
            instruction = Node(f"{call.id}-task-text", self._html(job.instruction), css="af-md")
            task = Node(f"{call.id}-task", translate("Instruction"), "fold", "af-think", children=(instruction,))
            children = (task, *turns)
        else:
            name, subject = self._tool_name(call), labels.call_subject(call)
            usage.insert(0, clip(self._agents(job), _AGENTS_COLUMNS))
            task = Node(f"{call.id}-task", params_html(call.params), css="af-details")
            result = self._result(call, job.turns[-1].text if job.turns else "")
            details = [Node(f"{call.id}-details", result, css="af-details")] if result else []
            children = (task, *turns, *details)
        # The subject tells agents of the same name apart.
        line = " · ".join(filter(None, [labels.activity(job), subject])) if is_running else subject
        mark = "waiting" if is_running and any(each.status == "waiting" for each in job.all_calls()) else call.status
        # The agent answers without the failed calls, so the agent's own call has succeeded.
        failed = labels.failed_work(job) if call.status == "ok" else ""
        outcome = failed or labels.call_outcome(call)
        summary = (
            f"{status_mark('warning' if failed else mark)} {name} "
            f'<span class="af-arg">{escape_with_language(line)}</span>{self.stall(job) if is_running else ""} '
            f'<span class="af-out">{escape(outcome)}</span> '
            f"{self._job_usage(transcript, call, job.tokens, usage)}"
        )
        return Node(call.id, summary, "fold", "af-tool af-job", children=children)

    def _job_usage(
        self, transcript: RunTranscript, call: TranscriptCall, tokens: TranscriptTokens, counts: list[str]
    ) -> str:
        """Render the time and tokens of a call's job, and further counts; the clock stops while the run waits."""
        parts = [escape(text) for text in counts]
        if self.with_metrics:
            parts.insert(0, labels.tokens_label(tokens))
            if call.status == "running" and call.started_at is not None:
                since = call.started_at.timestamp() * 1000 + transcript.waited_ms - call.waited_before_ms
                clock, paused_at = f'<span data-since="{since:.0f}"></span>', transcript.paused_at
                parts.insert(0, translate_duration(paused_at.timestamp() * 1000 - since) if paused_at else clock)
            elif call.duration_ms is not None:
                parts.insert(0, labels.time_label(call.duration_ms, call.wait_ms))
        return f'<span class="af-time">{" · ".join(filter(None, parts))}</span>'

    def _subrun(self, call: TranscriptCall, subrun: RunTranscript) -> Node:
        """Build a call that a subrun carries out; the fold is open until the subrun ends, to show approval cards."""
        activity = translate("Waits for your decision") if subrun.pending_requests else labels.activity(subrun.lead_job)
        outcome = labels.call_outcome(call) or ("" if subrun.is_ended else activity)
        usage = " · ".join(
            filter(None, [labels.run_time(subrun), labels.tokens_label(subrun.totals_with_subruns.tokens)])
        )
        time = usage if self.with_metrics and subrun.is_ended and subrun.is_known else ""
        question = without_context(subrun.question)
        mark = WAITING if subrun.pending_requests else subrun.status if call.status == RUNNING else call.status
        summary = (
            f"{status_mark(mark)} "
            f"{self._tool_name(call)} "
            f'<span class="af-arg">{escape_with_language(clip(question, _SUBJECT_COLUMNS))}</span> '
            f'<span class="af-out">{escape(outcome)}</span> <span class="af-time">{time}</span>'
        )
        children = [Node(f"{call.id}-task", f"<p>{escape_with_language(question)}</p>", css="af-task")]
        if params := params_html(
            call.params, without={name for name, value in call.params.items() if value == question}
        ):
            children.append(Node(f"{call.id}-params", params, css="af-details"))
        content: tuple[Node, ...] = ()
        if subrun.is_known:
            try:
                renderer = self._subrun_renderer(call.subrun_id)
                content = (Node("state", renderer.progress(subrun), css="af-meta"), *renderer.body(subrun))
            except NotFound:  # deleted while displayed
                pass
            except StoreError as error:
                content = (_notice("unreadable", str(error)),)
        # Keys of two runs may be equal, so the subrun's keys get its run id as prefix.
        children += prefixed(content, f"{call.subrun_id}/")
        if not content and call.status != "running":
            missing = f"<p>{translate('The work of this run is not in this store.')}</p>"
            children.append(Node(f"{call.subrun_id}-missing", missing, css="af-quiet"))
        if result := self._result(call):
            children.append(Node(f"{call.id}-details", result, css="af-details"))
        status = status_label(subrun.status)
        tool = tool_label(subrun.parent_tool)
        text = translate("{tool}, {status}: {question}", tool=tool, status=status, question=question)
        css, is_open = "af-tool af-job af-subrun", not subrun.is_ended
        return Node(call.id, summary, "fold", css, is_open, children=tuple(children), text=text)

    def _read_result(self, tool_call_id: str, displayed: str) -> str:
        text = self._run.tool_result(tool_call_id)
        if not text or text.strip() == displayed:
            return ""
        n_omitted = len(text) - RESULT_CHARS
        rest = translate("… {characters} more", characters=translate_count(n_omitted, "character"))
        more = f'<p class="af-quiet">{rest}</p>' if n_omitted > 0 else ""
        return f'<pre class="af-result" tabindex="0">{escape_with_language(text[:RESULT_CHARS])}</pre>{more}'

    def _answer(self, transcript: RunTranscript) -> Node:
        answer = shown_plain(transcript.response.strip(), ANSWER_LOCATION)
        error, notices = transcript.error, [*map(translate, transcript.notices)]
        if transcript.is_ended:
            written = (artifact for name, artifact in transcript.artifacts.items() if name != PLAN_ID)
            with suppress(StoreError):
                texts = (transcript.response, *map(self._artifact_text, written))
                cited = frozenset(address for text in texts for address in addresses_of(text))
                notices.append(unread_sentence(cited, self._evidence(cited)) if cited else "")
        text = "\n\n".join(filter(None, [answer, error, *notices]))
        # The answer is folded only if the repeated report is open.
        is_repeated = self._open_main_artifact and transcript.is_ended and self._repeats_report(transcript)
        turn = answer_turn(transcript)
        text_with_sources = transcript.response or (_lines(turn.reply.prose) if turn else "")
        cite = str if is_repeated else self._cited(transcript, text_with_sources).apply
        blocks: list[Node] = []
        if turn:
            is_arriving = not (turn.is_done or transcript.is_ended)
            prose = turn.reply.prose
            blocks += self._text(turn.key, prose, "af-block", ANSWER_LOCATION, cite, is_arriving=is_arriving)
        elif transcript.response:
            blocks += self._text("response", GrowingText(transcript.response), "af-block", ANSWER_LOCATION, cite)
        if is_repeated:
            label = translate("The answer repeats the report below.")
            blocks = [Node("repeats", label, "fold", "af-repeats", children=tuple(blocks))]
        if error:
            blocks.append(_notice("problem", error, "af-notice af-error"))
        blocks += (_notice(f"notice{n}", notice) for n, notice in enumerate(filter(None, notices)))
        return Node("answer", "", "box", "af-answer af-md", children=tuple(blocks), text=text)

    def _repeats_report(self, transcript: RunTranscript) -> bool:
        """Return whether the main artifact contains nearly every line of a long answer."""
        report = transcript.artifacts.get(main_artifact(transcript))
        if report is None or len(transcript.response) < MIN_REPEATED_CHARS:
            return False
        try:
            return self._repeats(transcript.response, self._artifact_text(report))
        except StoreError:
            return False

    def _written(self, transcript: RunTranscript) -> Iterator[Node]:
        latest = transcript.lead_job.turns[-1:]
        for turn in () if transcript.is_ended else latest:
            # The text is shown until the call is complete: then a card or the artifact replaces the text.
            if not (turn.reply.written.is_blank or (turn.is_done and turn.tools)):
                written, cite = turn.reply.written, self._cited(transcript, _lines(turn.reply.written)).apply
                growing = self._text(
                    f"{turn.key}-writing", written, "af-block", cite=cite, is_arriving=not turn.is_done
                )
                yield Node("writing", "", "box", "af-writing af-md af-page", children=tuple(growing))
        main_id = main_artifact(transcript)
        turns = [[call.metadata.get("artifact_id") for call in turn.tools] for turn in transcript.lead_job.turns]
        # The artifacts of the turn that wrote the main result come first, in the order of its (parallel) calls.
        first = next((ids for ids in reversed(turns) if main_id in ids), [main_id])
        ranks = {artifact_id: rank for rank, artifact_id in enumerate(first)}
        requests = {
            (call.metadata.get("artifact_id"), call.metadata.get("version")): call.request
            for call in transcript.tool_uses
        }
        for artifact in sorted(transcript.artifacts.values(), key=lambda each: ranks.get(each.artifact_id, len(first))):
            request, edit = requests.get((artifact.artifact_id, artifact.version)), ""
            if request and request.decision == "edited":
                edit = translate("changed by {editor} before it was written", editor=agent_label(request.decided_by))
            label = " · ".join(filter(None, [f"v{artifact.version}", escape(edit)]))
            summary = (
                f'<span class="af-title">{escape_with_language(artifact.title)}</span> '
                f'<span class="af-out"><code>{escape(artifact.artifact_id)}</code> {label}</span>'
            )
            text = Node(
                f"arttext-{artifact.artifact_id}",
                _html_or_error(partial(self._artifact_html, artifact, transcript)),
                css="af-md af-page",
            )
            is_open = self._open_main_artifact and artifact.artifact_id == main_id
            yield Node(f"art-{artifact.artifact_id}", summary, "fold", "af-artifact", is_open, children=(text,))

    def _artifact_html(self, artifact: TranscriptArtifact, transcript: RunTranscript) -> str:
        text = without_title(self._artifact_text(artifact), artifact.title)
        markdown = text if artifact.content_type == "text/markdown" else plan_checklist(text, artifact.content_type)
        if markdown is not None:
            marks = self._cited(transcript, markdown).evidence.marks
            return marks.head(artifact.artifact_id, artifact.version) + self.cited_html(transcript, markdown)
        return f'<pre tabindex="0">{escape(shown_plain(text))}</pre>'

    def _html(self, text: str) -> str:
        return shown_html(text, self._markdown)


def _html_or_error(read: Callable[[], str]) -> str:
    """Return HTML read from the store, or the read error; the next patch reads the store again."""
    try:
        return read()
    except StoreError as error:
        return f'<p class="af-error">{escape(error)}</p>'


def _lines(text: GrowingText) -> str:
    """Return the complete lines of a streamed text that list its sources.

    The result is empty before the first address, and for a text whose end, with the list, is not displayed.
    """
    whole = "" if text.n_left else text.text
    return whole.rpartition("\n")[0] if "://" in whole or "local:" in whole else ""


def _notice(key: str, text: str, css: str = "af-notice") -> Node:
    return Node(key, f"<p>{escape(text)}</p>", css=css)


def question_text(transcript: RunTranscript) -> str:
    """Return the status and the question as plain text: `Run completed: How high is the tide?`."""
    return translate("Run {status}: {question}", status=status_label(transcript.status), question=transcript.question)


def _decision(request: TranscriptRequest) -> str:
    is_reply = request.decision == "instructed" and not request.is_for_call
    verdict = translate("Answered" if is_reply else _DECISIONS.get(request.decision, "Denied"))
    if request.decided_by:
        verdict = translate("{verdict} by {name}", verdict=verdict, name=agent_label(request.decided_by))
    if request.scope in _SCOPES:
        verdict = translate(_SCOPES[request.scope], verdict=verdict)
    if request.scope == "always":
        verdict = translate("{verdict} always for {hosts}", verdict=verdict, hosts=translate_list(request.hosts))
    return translate("{verdict}: {note}", verdict=verdict, note=request.instruction) if request.instruction else verdict
