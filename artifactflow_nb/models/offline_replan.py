"""The offline model as replanner and summarizer: it decides by the kind of failure, and sums up by quoting."""

from artifactflow_nb.models import offline_report
from artifactflow_nb.models.offline_plan_read import Look, StepResult, results_in
from artifactflow_nb.models.offline_report import PHRASES
from artifactflow_nb.models.offline_step import says_write
from artifactflow_nb.models.offline_transcript import Transcript
from artifactflow_nb.text.citations import read_hits, write_quotes
from artifactflow_nb.xml_calls import format_call

_SILENT = ("absent", "searched_none", "nothing", "no_tool", "no_address")
_DECIDED = ("Permission denied", "Not run.")


def turn(transcript: Transcript) -> str:
    """The replanner's next turn: a decision, then a sentence; a decision that was refused becomes the plan's end."""
    decided = transcript.of("plan_decide")
    if decided and (decided[-1].done or decided[-1].params.get("decision") == "finish" or not transcript.tools):
        return str(decided[-1].params.get("reason", ""))
    look = Look.read(transcript.instruction)
    decision, why = ("finish", "in_vain") if decided else _decide(look)
    return format_call("plan_decide", {"decision": decision, "reason": offline_report.words(look.task)[why]})


def _decide(look: Look) -> tuple[str, str]:
    """How the plan goes on, and the name of the words that say why.

    What the sources do not say, or a person has refused, is the same the next time; anything else is worth another try.
    """
    if look.failed and "retry" in look.choices and not _is_final(look.reason):
        return "retry", "again"
    if "continue" not in look.choices:
        return "finish", "over"
    has_work = any(one.quotes for one in look.results) or not all(map(_rests, look.pending))
    return ("continue", "go_on") if has_work or not look.failed else ("finish", "in_vain")


def _is_final(reason: str) -> bool:
    """Whether a step that failed for this reason would fail so again."""
    silent = (phrases[name] for phrases in PHRASES.values() for name in _SILENT)
    return any(words in reason for words in (*silent, *_DECIDED))


def _rests(title: str) -> bool:
    """Whether a step only works on what steps before it have found."""
    return says_write(title) or any(title in phrases["steps"].split("|")[1:] for phrases in PHRASES.values())


def summary(instruction: str) -> str:
    """What a plan has done: what was quoted word for word, of the rest a line."""
    told = (f"{one.head}\n{_gist(one)}" for one in results_in(instruction))
    return "\n\n".join(told) or "No step has a result."


def _gist(result: StepResult) -> str:
    if result.quotes:
        return write_quotes(result.quotes)
    if hits := read_hits(result.text):
        return "\n".join(f"- {hit.title} ({hit.address})" for hit in hits)
    return result.text.partition("\n")[0]
