"""What stays in the saved notebook: one output with a plain, a Markdown and an HTML face, none of which needs a kernel.

The plain face is the same for the same answer: no ids, times or tokens, so that a notebook test can compare it; the
other two are so as well when they are made without what was measured.
"""

import re
from collections.abc import Iterable, Iterator
from contextlib import suppress

from artifactflow_nb.approvals import note_on_steps, proposed_steps
from artifactflow_nb.errors import NotFound
from artifactflow_nb.plans import checklist_of
from artifactflow_nb.plots.still import BOTH_STYLE
from artifactflow_nb.store.runs import INTERRUPTED, RUNNING, WAITING
from artifactflow_nb.text.cards import quiet_style, visible
from artifactflow_nb.text.framing import without_context
from artifactflow_nb.text.markdown import escape, portable, portable_line
from artifactflow_nb.text.width import clip
from artifactflow_nb.widgets import labels
from artifactflow_nb.widgets.assets import stylesheet
from artifactflow_nb.widgets.base import ViewedRun
from artifactflow_nb.widgets.parts import Job, Question, Subrun, ToolUse, Written
from artifactflow_nb.widgets.plan_nodes import checklist
from artifactflow_nb.widgets.plan_work import PlanWork
from artifactflow_nb.widgets.render import RunRenderer, main_artifact
from artifactflow_nb.widgets.transcript import Transcript
from artifactflow_nb.widgets.tree import static_html

HOW_TO_DECIDE = "A decision is needed: wb.pending() lists it, run.approve() or run.deny() takes it."
STILL_RUNNING = "It was still running when this was saved."
_BLANK_LINE = re.compile(r"\n(?=[ \t\r\f\v]*\n)")


def frozen_bundle(run: ViewedRun, *, measured: bool = True) -> dict[str, str]:
    """The output for a run as it is stored now: `text/plain`, `text/markdown` and `text/html`.

    Args:
        run: The run.
        measured: Show times and tokens.
    """
    transcript = Transcript(run.question)
    _load(run, transcript)
    return bundle(transcript, run, RunRenderer(run, measured=measured))


def _load(run: ViewedRun, transcript: Transcript) -> None:
    """Take in what is stored of a run, and of those that it began as far as they are there."""
    for event in run.stored_events():
        transcript.apply(event)
    transcript.observe(is_gone=run.status() == INTERRUPTED)
    for subrun in transcript.subruns.values():
        with suppress(NotFound):
            _load(run.subrun(subrun.run_id), subrun.transcript)


def bundle(transcript: Transcript, run: ViewedRun, renderer: RunRenderer) -> dict[str, str]:
    """The same for a transcript that is at hand."""
    return {
        "text/plain": plain(transcript),
        "text/markdown": markdown(transcript, run, measured=renderer.measured),
        "text/html": page(transcript, renderer),
    }


def running_bundle(question: str) -> dict[str, str]:
    """The output of a run that is still going where no page can show it; always the same for the same question."""
    hint = "It is still running. `await run` or `run.wait()` waits for it."
    return {"text/plain": f"Run: {question}", "text/markdown": f"**{portable_line(question)}**\n\n{hint}"}


def plain(transcript: Transcript) -> str:
    """What was asked and what came of it."""
    parts = [f"Run {transcript.status}: {transcript.question}"]
    if transcript.problem:
        parts.append(transcript.problem)
    parts += map(_begun, transcript.subruns.values())
    parts += ["\n".join([f"Plan: {plan.title} ({plan.progress})", *checklist(plan)]) for plan in transcript.plans]
    if transcript.response:
        parts.append(transcript.response.strip())
    if transcript.status == INTERRUPTED:
        parts.append(labels.INTERRUPTED)
    if transcript.status == RUNNING:
        parts.append(STILL_RUNNING)
    if waiting := transcript.waits_for:
        parts += map(_waiting, waiting)
        parts.append(HOW_TO_DECIDE)
    return visible("\n\n".join(parts))


def _waiting(question: Question) -> str:
    """What waits, with the steps of a plan."""
    steps = [f"  {title}" for title, *_ in proposed_steps(question.kind, question.params)]
    note = [f"  {note_on_steps(question.preview)}"] if steps and note_on_steps(question.preview) else []
    return "\n".join([f"Waiting for approval of {labels.asker(question)}: {question.title}", *steps, *note])


def _begun(subrun: Subrun) -> str:
    """A run that carries out a call, in a line."""
    transcript = subrun.transcript
    return f"{transcript.within}, {transcript.status}: {without_context(transcript.question)}"


def page(transcript: Transcript, renderer: RunRenderer) -> str:
    """A self-contained HTML face; readable where the style is stripped too."""
    hint = {WAITING: HOW_TO_DECIDE, RUNNING: STILL_RUNNING}.get(reachable_status(transcript), "")
    body = static_html(renderer.nodes(transcript)) + (f'<p class="af-quiet">{hint}</p>' if hint else "")
    return framed(body, *(["form.css"] if transcript.waits_for else []), *plan_styles([transcript]))


def plan_styles(transcripts: Iterable[Transcript]) -> tuple[str, ...]:
    """The style file of plans, if there is one among these."""
    return ("plan.css",) if any(run.plans for one in transcripts for run in one.with_subruns()) else ()


def reachable_status(transcript: Transcript) -> str:
    """The status for a reader who wants to act: a question can be answered before the run that asked has stopped."""
    return WAITING if transcript.status == RUNNING and transcript.waits_for else transcript.status


def framed(body: str, *styles: str, css: str = "") -> str:
    """A face's HTML within the frame that all faces have.

    Args:
        body: What is shown; sanitised.
        styles: The style files that it needs beside the shared one.
        css: Class names of the root.
    """
    classes = f"af-run af-frozen mathjax_ignore tex2jax_ignore {css}".rstrip()
    # In Markdown, which a notebook may be converted to, HTML begins on a line of its own and goes on to a blank line.
    unbroken = _BLANK_LINE.sub("&#10;", body)
    root = f'<div class="{classes}"><div class="af-tree">{unbroken}</div></div>'
    return f"{quiet_style(f'{stylesheet(*styles)} {BOTH_STYLE}')}\n{root}"


def markdown(transcript: Transcript, run: ViewedRun, *, measured: bool = True) -> str:
    """A Markdown face: the answer, the artifacts, the steps."""
    state = f"*{_state(transcript, measured=measured)}*"
    parts = [f"**{portable_line(clip(transcript.question, 500))}**", state]
    if transcript.status == RUNNING:
        parts.append(STILL_RUNNING)
    for question in transcript.waits_for:
        asked = "" if question.is_of_call else f" {portable_line(question.title)}"
        parts.append(f"Waiting for approval of `{_code(labels.asker(question))}`.{asked} {HOW_TO_DECIDE}")
        parts += [portable(question.preview)] if question.kind == "plan" and question.preview else []
    return "\n\n".join([*parts, *_came_of(transcript, run, measured=measured)])


def _state(transcript: Transcript, *, measured: bool) -> str:
    """How a run stands, and what it took."""
    return f"{labels.state(transcript.status)} · {labels.summary_line(transcript, measured=measured)}"


def _came_of(transcript: Transcript, run: ViewedRun, *, measured: bool, is_within: bool = False) -> Iterator[str]:
    """The answer, the artifacts, the steps, and folded away the same of the runs that carry out calls."""
    if transcript.problem:
        yield portable(transcript.problem)
    if transcript.response:
        yield portable(transcript.response)
    best = main_artifact(transcript)
    written = sorted(transcript.artifacts.values(), key=lambda item: item.artifact_id != best)
    for item in written:
        yield _artifact(item, run, is_open=item.artifact_id == best and not is_within)
    if steps := "\n".join(_steps(transcript.lead, "")):
        yield f"<details><summary>{labels.steps(transcript)}</summary>\n\n{steps}\n\n</details>"
    for subrun in transcript.subruns.values():
        with suppress(NotFound):
            yield _subrun(subrun, run.subrun(subrun.run_id), measured=measured)


def _subrun(subrun: Subrun, run: ViewedRun, *, measured: bool) -> str:
    transcript = subrun.transcript
    question = clip(without_context(transcript.question), 200)
    head = f"{escape(transcript.within)}: {escape(question)} · {escape(_state(transcript, measured=measured))}"
    inside = "\n\n".join(_came_of(transcript, run, measured=measured, is_within=True))
    return f"<details><summary>{head}</summary>\n\n{inside}\n\n</details>"


def _artifact(written: Written, run: ViewedRun, *, is_open: bool) -> str:
    text = run.artifact_text(written.artifact_id, written.version)
    markdown = text if written.content_type == "text/markdown" else checklist_of(text, written.content_type)
    body = portable(f"~~~~~~\n{text}\n~~~~~~" if markdown is None else markdown)
    state = " open" if is_open else ""
    name = (
        f"{escape(clip(written.title, 200))} (<code>{escape(clip(written.artifact_id, 80))}</code> v{written.version})"
    )
    return f"<details{state}><summary>{name}</summary>\n\n{body}\n\n</details>"


def _steps(job: Job, indent: str) -> Iterator[str]:
    for use in job.tools:
        yield f"{indent}- {_step(use)}"
        if use.job:
            yield from _steps(use.job, indent + "  ")
        if use.plan:
            yield from _plan(use.plan, indent + "  ")


def _plan(plan: PlanWork, indent: str) -> Iterator[str]:
    """The checklist; below each step what its agents did."""
    for step, told in zip(plan.steps, checklist(plan), strict=True):
        yield f"{indent}- {labels.MARKS[step.status]} {_inline(told)}"
        for job in step.jobs:
            yield from _steps(job, indent + "  ")
    for job in plan.jobs:
        yield from _steps(job, indent)


def _step(use: ToolUse) -> str:
    name, about = (
        (use.job.agent, use.job.instruction) if use.is_delegation and use.job else (use.tool, labels.about(use))
    )
    outcome = use.plan.progress if use.plan else labels.outcome(use)
    said = f" → {_inline(outcome)}" if outcome else ""
    return f"{labels.MARKS[use.status]} `{_code(name)}` {_inline(clip(about, 90))}{said}"


def _code(text: str) -> str:
    return re.sub("[`<>]", "'", clip(text, 80))


def _inline(text: str) -> str:
    return portable_line(clip(text, 200))
