"""The offline model as a coordinator: plan, search job, reading job, report, answer.

Each step is tried once; one that fails or is denied is told to the person and passed over, so a run always ends.
"""

from artifactflow_nb.models import offline_report as report
from artifactflow_nb.models.offline_audience import answering
from artifactflow_nb.models.offline_report import Findings
from artifactflow_nb.models.offline_transcript import Step, Transcript, failures
from artifactflow_nb.text.citations import SearchHit, read_counts, read_hits, read_quotes, write_counts
from artifactflow_nb.text.words import query_of
from artifactflow_nb.xml_calls import format_call

_SEARCHER, _READER = "search_agent", "crawl_agent"
_PLAN = "task_plan"

REPORT = "research_report"
"""The artifact that holds what was found."""

WRITING = frozenset({"create_artifact", "rewrite_artifact"})
"""The tools that write what was found."""

MOST_READ = 8
"""How many sources are read at most."""


def turn(transcript: Transcript) -> str:
    """The coordinator's next turn."""
    delegates = "call_subagent" in transcript.tools
    if delegates and not _jobs(transcript, _SEARCHER):
        return _plan_and_search(transcript)
    if delegates and _hits(transcript) and not _jobs(transcript, _READER):
        return _read(transcript)
    writing = _writing(transcript)
    if writing:
        return "\n\n".join([report.words(transcript.question)["writing"], *writing])
    return report.answer(_findings(transcript))


def _jobs(transcript: Transcript, agent: str) -> list[Step]:
    return transcript.of("call_subagent", agent_name=agent)


def _data(steps: list[Step]) -> str:
    return "\n\n".join(step.data for step in steps)


def _hits(transcript: Transcript) -> list[SearchHit]:
    return read_hits(_data(_jobs(transcript, _SEARCHER) or transcript.of("web_search")))


def _plan_and_search(transcript: Transcript) -> str:
    instruction = f"Find the sources that answer this question and report their addresses.\n{asked_as(transcript)}"
    calls = [format_call("call_subagent", {"agent_name": _SEARCHER, "instruction": instruction})]
    if "create_artifact" in transcript.tools:
        params = {"id": _PLAN, "title": report.plan_title(transcript.question), "content": _plan(transcript, done=0)}
        calls.insert(0, format_call("create_artifact", params))
    return "\n\n".join([report.words(transcript.question)["planning"], *calls])


def _plan(transcript: Transcript, done: int) -> str:
    return report.plan(transcript.question, done)


def asked_as(transcript: Transcript) -> str:
    """The question, on one line, as other agents read it."""
    lines = [f"Question: {' '.join(transcript.question.split())}"]
    if transcript.context:
        lines.append(f"Earlier question: {' '.join(transcript.context.split())}")
    return "\n".join(lines)


def _read(transcript: Transcript) -> str:
    counts = read_counts(_data(_jobs(transcript, _SEARCHER)))
    spelled = query_of(transcript.question, transcript.context).spelled
    lines = ["Read these sources and quote the sentences that answer the question.", asked_as(transcript)]
    lines += [write_counts(spelled, counts)] if counts else []
    lines += ["Sources:", *(f"- {hit.address}" for hit in _hits(transcript)[:MOST_READ])]
    call = format_call("call_subagent", {"agent_name": _READER, "instruction": "\n".join(lines)})
    return f"{report.words(transcript.question)['reading']}\n\n{call}"


def _writing(transcript: Transcript) -> list[str]:
    """The calls that write the report and tick the plan; none once they were tried."""
    title, content = report.report_title(transcript.question), report.report(_findings(transcript))
    calls = report_calls(transcript, title, content)
    ticked = transcript.of("rewrite_artifact", id=_PLAN)
    planned = any(step.done for step in transcript.of("create_artifact", id=_PLAN))
    if "rewrite_artifact" in transcript.tools and planned and not ticked:
        calls.append(format_call("rewrite_artifact", {"id": _PLAN, "content": _plan(transcript, done=3)}))
    return calls


def report_calls(transcript: Transcript, title: str, content: str) -> list[str]:
    """The call that writes the report, over an earlier one if the conversation has one; none once it was tried."""
    created = transcript.of("create_artifact", id=REPORT)
    # An inventory that is read after this turn made the report lists it too.
    there = any(_exists(step) for step in created) if created else REPORT in transcript.artifacts
    params = {"id": REPORT, "title": title, "content": content}
    if there and "rewrite_artifact" in transcript.tools:
        return [] if transcript.of("rewrite_artifact", id=REPORT) else [format_call("rewrite_artifact", params)]
    if "create_artifact" in transcript.tools and not created:
        return [format_call("create_artifact", params)]
    return []


def _exists(step: Step) -> bool:
    """Whether the report could not be created because it is there, though no inventory told so."""
    return "exist" in step.error.lower()


def _findings(transcript: Transcript) -> Findings:
    reading = _jobs(transcript, _READER) or transcript.of("web_fetch")
    tried = [*transcript.of("create_artifact", id=REPORT), *transcript.of("rewrite_artifact", id=REPORT)]
    written = any(step.done for step in tried)
    told = _data([*_jobs(transcript, _SEARCHER), *reading])
    # Without hits the search alone says that nothing is there; with hits only a reading does.
    looked = _data(reading) if _hits(transcript) else _data(_jobs(transcript, _SEARCHER))
    return Findings(
        question=transcript.question,
        quotes=tuple(answering(transcript.question, read_quotes(_data(reading)))),
        searched=tuple(hit.title for hit in _hits(transcript)),
        looked=bool(looked) and not failures(looked),
        problems=(*(f"{_who(step)}: {step.error}" for step in transcript.steps if _lost(step)), *failures(told)),
        report_error=None if written or not tried else tried[-1].error or None,
    )


def _lost(step: Step) -> bool:
    return bool(step.error) and step.name in {"call_subagent", "web_search", "web_fetch"}


def _who(step: Step) -> str:
    return str(step.params.get("agent_name", step.name))
