"""Saved output of a run: its nodes, and the hints that a notebook without a kernel needs."""

from collections.abc import Iterator
from contextlib import suppress

from artifactflow_nb.core.approvals import QUESTION_KIND, plan_note, proposed_steps
from artifactflow_nb.core.text.markdown import escape, escape_with_language, safe_markdown_line
from artifactflow_nb.errors import NotFound
from artifactflow_nb.store.runs import DELETED, INTERRUPTED, RUNNING, WAITING
from artifactflow_nb.widgets.page.nodes import Node
from artifactflow_nb.widgets.page.saved import SavedOutput, saved_output
from artifactflow_nb.widgets.run import labels
from artifactflow_nb.widgets.run.approval_card import question_choices, question_text
from artifactflow_nb.widgets.run.protocol import ViewedRun
from artifactflow_nb.widgets.run.render import RunRenderer
from artifactflow_nb.widgets.run.transcript import RunTranscript

ANSWER_HINT = 'Answer it with run.answer("..."), or leave it open with run.deny().'
DECISION_HINT = "A decision is needed: wb.pending() lists it, run.approve() or run.deny() takes it."
STILL_RUNNING = (
    "It was still running when this was saved. `await run` shows its end; without buttons here, wb.pending() lists its "
    "requests, run.approve() or run.deny() decides one."
)


def saved_run(run: ViewedRun, *, with_metrics: bool = True) -> SavedOutput:
    """Output of a run as stored now.

    Args:
        run: The run.
        with_metrics: Show times and tokens.
    """
    transcript = RunTranscript(run.question)
    _load(run, transcript)
    return saved_transcript(transcript, RunRenderer(run, with_metrics=with_metrics))


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


def saved_transcript(transcript: RunTranscript, renderer: RunRenderer) -> SavedOutput:
    """Output of a loaded transcript."""
    return saved_output((*renderer.nodes(transcript), *hint_nodes(transcript)))


def saved_running(question: str) -> SavedOutput:
    """Output of a running run where no page can show it live; depends only on the question."""
    hint = "Its end is shown by the cell that waits for it: `await run` or `run.wait()`."
    return {"text/plain": f"Run: {question}", "text/markdown": f"**{safe_markdown_line(question)}**\n\n{hint}"}


def hint_nodes(transcript: RunTranscript) -> Iterator[Node]:
    """Yield hints for a run that has not ended: its pending requests with proposed plans, and its status."""
    for request in transcript.pending_requests:
        if request.kind == QUESTION_KIND:
            choices = question_choices(request)
            items = "".join(f"<li>{escape_with_language(choice)}</li>" for choice in choices)
            listed = f"<ul>{items}</ul>" if items else ""
            text = "\n".join([f"Waiting for your answer: {question_text(request)}", *(f"- {c}" for c in choices)])
            yield Node(f"pending-{request.id}", f"<p>Waiting for your answer.</p>{listed}", css="af-quiet", text=text)
            continue
        source = labels.request_source(request)
        html = f"<p>Waiting for approval of <code>{escape(source)}</code>.</p>"
        steps = [f"  {title}" for title, *_ in proposed_steps(request.kind, request.params)]
        note = [f"  {plan_note(request.preview)}"] if steps and plan_note(request.preview) else []
        text = "\n".join([f"Waiting for approval of {source}: {request.title}", *steps, *note])
        yield Node(f"pending-{request.id}", html, css="af-quiet", text=text)
    if hint := status_hint(transcript):
        yield Node("hint", f"<p>{hint}</p>", css="af-quiet", text=hint)


def status_hint(transcript: RunTranscript) -> str:
    """Hint for a waiting or running run; empty for others."""
    requests = transcript.pending_requests
    if requests and all(request.kind == QUESTION_KIND for request in requests):
        return ANSWER_HINT
    if requests:  # they can be decided before the run has stopped
        return DECISION_HINT
    return {WAITING: DECISION_HINT, RUNNING: STILL_RUNNING}.get(transcript.status, "")
