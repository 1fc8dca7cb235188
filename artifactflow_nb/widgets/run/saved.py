"""Saved output of a run: its nodes, and hints for a notebook without a kernel."""

from collections.abc import Iterable, Mapping
from contextlib import suppress
from itertools import chain

from artifactflow_nb.core.approvals import QUESTION_KIND, proposed_steps
from artifactflow_nb.core.language import EnglishText, in_language, translate
from artifactflow_nb.core.text.markdown import escape, escape_with_language
from artifactflow_nb.engine.run_client import RunReader
from artifactflow_nb.errors import NotFound
from artifactflow_nb.store.runs import ABANDONED, DELETED, RUNNING, WAITING
from artifactflow_nb.widgets.page.nodes import Node
from artifactflow_nb.widgets.page.saved import SavedOutput, saved_output
from artifactflow_nb.widgets.run import labels
from artifactflow_nb.widgets.run.approval_card import question_choices, question_text
from artifactflow_nb.widgets.run.parts import TranscriptRequest
from artifactflow_nb.widgets.run.plan_request import plan_limit
from artifactflow_nb.widgets.run.render import RunRenderer
from artifactflow_nb.widgets.run.transcript import RunTranscript


def saved_run(run: RunReader, *, with_metrics: bool = True) -> SavedOutput:
    """Build the saved output of a run in its stored state; the times and tokens are metrics."""
    transcript = RunTranscript(run.question)
    _load(run, transcript)
    with in_language(run.language):
        return saved_transcript(transcript, RunRenderer(run, with_metrics=with_metrics), run.run_id)


def _load(run: RunReader, transcript: RunTranscript) -> None:
    """Apply the stored events of a run and of the subruns that are in the store."""
    for event in run.stored_events():
        transcript.apply(event)
    if (status := run.status()) == DELETED:
        transcript.delete()
    transcript.set_gone(is_gone=status == ABANDONED)
    for run_id, subrun in transcript.subruns.items():
        with suppress(NotFound):
            _load(run.subrun(run_id), subrun)


def saved_transcript(
    transcript: RunTranscript, renderer: RunRenderer, run_id: str, notes: Iterable[Node] = ()
) -> SavedOutput:
    """Build the output of a loaded transcript with notes; a page with a kernel finds the output by a CSS class.

    The output has the class only with metrics, because the class contains the run's id, which is not reproducible.
    """
    is_findable = renderer.with_metrics and transcript.is_ended and transcript.status != DELETED
    css = f"af-ended af-of-{run_id}" if is_findable else ""
    heading, *body = renderer.nodes(transcript)
    hint = status_hint(transcript)
    hints = [Node("hint", f"<p>{hint}</p>", css="af-quiet", text=hint)] if hint else []
    requests = [request_hint(request, run_id) for request in transcript.pending_requests]
    # Without a kernel the cards have no buttons, so the hint is above the cards.
    groups = (hints, body, requests) if requests else (body, hints)
    nodes = (heading, *chain.from_iterable(groups), *notes)
    return saved_output(nodes, css=css)


def saved_running(question: str) -> SavedOutput:
    """Build the output of a running run that no page can show live; the output depends only on the question."""
    heading = f"<strong>{escape_with_language(question)}</strong>"
    nodes = (
        Node("question", heading, css="af-question", text=f"{translate('Run')}: {question}"),
        Node(
            "hint",
            f"<p>{translate('The cell that waits for the run shows its end: `await run` or `run.wait()`.')}</p>",
            css="af-quiet",
        ),
    )
    return saved_output(nodes)


def request_hint(request: TranscriptRequest, run_id: str) -> Node:
    """Build the hint for a pending request: its choices or proposed plan, and the code that decides the request."""
    run = f'wb.run("{run_id}")'
    if request.kind == QUESTION_KIND:
        choices, code = question_choices(request), f'{run}.answer("...", "{request.id}")'
        choice_list = (
            f"<ul>{''.join(f'<li>{escape_with_language(choice)}</li>' for choice in choices)}</ul>" if choices else ""
        )
        way = translate("{code} sends your answer.", code=f"<code>{escape(code)}</code>")
        html = f"<p>{translate('Waiting for your answer.')} {way}</p>{choice_list}"
        first = translate("Waiting for your answer: {question}", question=question_text(request))
        text = "\n".join([first, *(f"- {choice}" for choice in choices)])
        return Node(f"pending-{request.id}", html, css="af-quiet", text=text)
    code = f'{run}.approve("{request.id}")'
    way = translate("{code} approves the request.", code=f"<code>{escape(code)}</code>")
    first = translate("Waiting for your approval: {title}", title=labels.request_sentence(request))
    html = f"<p>{escape_with_language(first)}</p><p>{way}</p>"
    steps = [f"  {title}" for title, *_ in proposed_steps(request.kind, request.params)]
    limit = plan_limit(request)
    text = "\n".join([first, *steps, *([f"  {limit}"] if steps and limit else [])])
    return Node(f"pending-{request.id}", html, css="af-quiet", text=text)


def status_hint(transcript: RunTranscript) -> str:
    """Return the hint for a waiting or running run; empty for other runs."""
    requests = transcript.pending_requests
    if requests and all(request.kind == QUESTION_KIND for request in requests):
        return translate('Answer it with run.answer("..."), or leave it open with run.deny().')
    # Requests can be decided before the run has stopped.
    return hint_for_status(WAITING if requests else transcript.status)


_HINTS: Mapping[str, EnglishText] = {
    WAITING: (
        "A decision is needed: wb.pending() shows the buttons, also in a new kernel after the cell that makes wb has "
        "run."
    ),
    RUNNING: (
        "The run was still running when this was saved. `await run` shows its end; in a new kernel, "
        "wb.runs(unfinished=True) lists the run and wb.pending() shows its requests."
    ),
}


def hint_for_status(status: str) -> str:
    """Return the hint for a waiting or running run; empty for other runs."""
    return translate(_HINTS[status]) if status in _HINTS else ""
