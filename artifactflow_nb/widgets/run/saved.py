"""Saved output of a run: its nodes, and hints for a notebook without a kernel."""

import json
from collections.abc import Iterable
from contextlib import suppress
from itertools import chain

from artifactflow_nb.core.approvals import QUESTION_KIND, proposed_steps
from artifactflow_nb.core.language import Texts
from artifactflow_nb.core.text.markdown import escape, escape_with_language, safe_markdown_line
from artifactflow_nb.errors import NotFound
from artifactflow_nb.store.runs import DELETED, INTERRUPTED, RUNNING, WAITING
from artifactflow_nb.widgets.page.nodes import Node
from artifactflow_nb.widgets.page.saved import SavedOutput, saved_output
from artifactflow_nb.widgets.run import labels
from artifactflow_nb.widgets.run.approval_card import question_choices, question_text
from artifactflow_nb.widgets.run.parts import TranscriptRequest
from artifactflow_nb.widgets.run.plan_request import plan_limit
from artifactflow_nb.widgets.run.protocol import ViewedRun
from artifactflow_nb.widgets.run.render import RunRenderer
from artifactflow_nb.widgets.run.transcript import RunTranscript


def saved_run(run: ViewedRun, *, with_metrics: bool = True) -> SavedOutput:
    """Build the saved output of a run in its stored state; with metrics, its times and tokens."""
    transcript = RunTranscript(run.question)
    _load(run, transcript)
    return saved_transcript(transcript, RunRenderer(run, with_metrics=with_metrics), run.run_id)


def _load(run: ViewedRun, transcript: RunTranscript) -> None:
    """Apply the stored events of a run and of those subruns that are in the store."""
    for event in run.stored_events():
        transcript.apply(event)
    if (status := run.status()) == DELETED:
        transcript.delete()
    transcript.set_gone(is_gone=status == INTERRUPTED)
    for run_id, subrun in transcript.subruns.items():
        with suppress(NotFound):
            _load(run.subrun(run_id), subrun)


def saved_transcript(
    transcript: RunTranscript, renderer: RunRenderer, run_id: str, notes: Iterable[Node] = ()
) -> SavedOutput:
    """Build the output of a loaded transcript with notes; a page with a kernel finds it by its CSS class.

    The output has this class only with metrics, because the class contains the run's id, which is not reproducible.
    """
    is_findable = renderer.with_metrics and transcript.is_ended and transcript.status != DELETED
    css = f"af-ended af-of-{run_id}" if is_findable else ""
    head, *body = renderer.nodes(transcript)
    hint = status_hint(transcript, renderer.texts)
    hints = [Node("hint", f"<p>{hint}</p>", css="af-quiet", text=hint)] if hint else []
    requests = [request_hint(request, renderer.texts) for request in transcript.pending_requests]
    # Without a kernel the cards have no buttons, so the hint is above them.
    parts = (hints, body, requests) if requests else (body, hints)
    nodes = (head, *chain.from_iterable(parts), *notes)
    return saved_output(nodes, renderer.texts, css=css)


def saved_running(question: str, texts: Texts) -> SavedOutput:
    """Build the output of a running run if no page can show it live; depends only on the question."""
    hint = texts("end_shown_elsewhere")
    return {
        "text/plain": f"{texts('run')}: {question}",
        "text/markdown": f"**{safe_markdown_line(question)}**\n\n{hint}",
    }


def request_hint(request: TranscriptRequest, texts: Texts) -> Node:
    """Hint for a pending request with its choices or proposed plan, and the code that decides it in any kernel."""
    if request.kind == QUESTION_KIND:
        choices, code = question_choices(request), f'wb.answer({json.dumps(request.id)}, "...")'
        listed = (
            f"<ul>{''.join(f'<li>{escape_with_language(choice)}</li>' for choice in choices)}</ul>" if choices else ""
        )
        way = texts("gives_it", code=f"<code>{escape(code)}</code>")
        html = f"<p>{texts('waiting_for_answer')} {way}</p>{listed}"
        first = texts("waiting_for_answer_to", question=question_text(request))
        text = "\n".join([first, *(f"- {choice}" for choice in choices)])
        return Node(f"pending-{request.id}", html, css="af-quiet", text=text)
    way = texts("approves_it", code=f"<code>{escape(f'wb.approve({json.dumps(request.id)})')}</code>")
    first = texts("waiting_for_approval", title=labels.request_sentence(request, texts))
    html = f"<p>{escape_with_language(first)}</p><p>{way}</p>"
    steps = [f"  {title}" for title, *_ in proposed_steps(request.kind, request.params)]
    limit = plan_limit(request, texts)
    text = "\n".join([first, *steps, *([f"  {limit}"] if steps and limit else [])])
    return Node(f"pending-{request.id}", html, css="af-quiet", text=text)


def status_hint(transcript: RunTranscript, texts: Texts) -> str:
    """Return the hint for a waiting or running run; empty for other runs."""
    requests = transcript.pending_requests
    if requests and all(request.kind == QUESTION_KIND for request in requests):
        return texts("answer_hint")
    if requests:  # they can be decided before the run has stopped
        return texts("decision_hint")
    key = {WAITING: "decision_hint", RUNNING: "still_running"}.get(transcript.status)
    return texts(key) if key else ""
