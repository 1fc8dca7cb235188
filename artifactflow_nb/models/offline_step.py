"""The offline model as an executor: it searches, reads or writes as the step's tools and words say.

::

    an artifact tool, and the step says to write    the report, of what the steps before have quoted
    web_search, web_fetch, or both                  addresses or quotes
    neither                                         a failure

What it does not find it reports as a failure; the replanner tells the kinds apart.
"""

import re
from collections.abc import Mapping
from dataclasses import replace

from artifactflow_nb.models import offline_read, offline_report
from artifactflow_nb.models.offline_lead import MOST_READ, REPORT, report_calls
from artifactflow_nb.models.offline_plan import sections_of
from artifactflow_nb.models.offline_plan_read import StepTask
from artifactflow_nb.models.offline_sections import Section, heading_of, report
from artifactflow_nb.models.offline_transcript import Transcript, failures, leans
from artifactflow_nb.text.citations import (
    Quotes,
    addresses_in,
    read_counts,
    read_documents,
    read_hits,
    read_quotes,
    write_counts,
    write_quotes,
)
from artifactflow_nb.text.words import query_of
from artifactflow_nb.xml_calls import format_call, parse_reply

_RESULT_CHARS = 3_500  # of a result, so that the steps after it are shown all of it
_LOOKING = ("web_search", "web_fetch")
_WRITING = ("create_artifact", "rewrite_artifact")
_SAYS_WRITE = re.compile(
    r"(?:please |then )*(?:write|writing|report|summari[sz]e|sum up|draft|compose)\b"
    r"|[请請再]*(?:撰写|撰寫|写|寫|起草|报告|報告|总结|總結)",
    re.IGNORECASE,
)
_QUESTION_LINE = re.compile(r"^Question: ", re.MULTILINE)
_WORK = re.compile(
    r"\b(?:please|search(?:es|ing)?|find(?:ing)?(?: out)?|look(?:ing)?(?: up| for)?|read(?:ing)?|quot(?:e|es|ing)"
    r"|collect|gather|list|check|sources?|what looks relevant|relevant|the answers?|addresses|texts?|pages?|documents?"
    r"|in the|about|on)\b|检索|檢索|查找|查明|阅读|閱讀|摘录|摘錄|收集|资料|資料|相关内容|相關內容|相关的|来源|來源",
    re.IGNORECASE,
)


def turn(transcript: Transcript) -> str:
    """The executor's next turn."""
    if reported := transcript.of("report_failure"):
        return str(reported[-1].params.get("reason", ""))
    task = StepTask.read(transcript.instruction)
    looks = any(map(transcript.plays, _LOOKING))
    if any(map(transcript.plays, _WRITING)) and (not looks or says_write(task.title)):
        return _write(transcript, task)
    return _look(transcript, task) if looks else _failed(transcript, _words(task)["no_tool"])


def says_write(title: str) -> bool:
    """Whether a step of this title writes down what others have found."""
    return _SAYS_WRITE.match(title) is not None


def _words(task: StepTask) -> Mapping[str, str]:
    return offline_report.words(task.task)


def _failed(transcript: Transcript, reason: str) -> str:
    """Own up to a failure; in words alone if no tool may be called any more."""
    can_report = "report_failure" in transcript.tools
    return format_call("report_failure", {"reason": reason}) if can_report else reason


def _write(transcript: Transcript, task: StepTask) -> str:
    say = _words(task)
    if not (sections := sections_of(task.results, task.task)):
        return _failed(transcript, say["nothing"])
    if not transcript.plays("create_artifact"):  # whoever planned this knew that there is one
        transcript = replace(transcript, artifacts=frozenset({REPORT}))
    title, content = offline_report.report_title(task.task), report(task.task, [*sections, *_silent(task)])
    if calls := report_calls(transcript, title, content):
        return "\n\n".join([say["writing"], *calls])
    tried = [step for tool in _WRITING for step in transcript.of(tool, id=REPORT)]
    if any(step.done for step in tried):
        return say["written"].format(report=REPORT)
    return _failed(transcript, say["unwritten"].format(error=tried[-1].error if tried else say["no_tool"]))


def _silent(task: StepTask) -> list[Section]:
    """The steps before that have found nothing, each with why."""
    lost = (one for one in task.results if one.ended == "failed" and not says_write(one.title))
    return [Section(heading_of(one.title, task.task), (), one.text.partition("\n")[0]) for one in lost]


def _look(transcript: Transcript, task: StepTask) -> str:
    inner = _brief(transcript, task)
    if not inner.plays("web_search") and not addresses_in(inner.instruction):
        return _failed(transcript, _words(task)["no_address"])
    said = offline_read.look(inner)
    if parse_reply(said).calls:
        return said
    if quotes := read_quotes(said):
        return _fitting(quotes)
    if read_hits(said) and not inner.made("web_fetch"):
        return said.partition("\n\n")[2]
    return _failed(transcript, _silence(inner, task, said))


def _brief(transcript: Transcript, task: StepTask) -> Transcript:
    """The step as a searcher or a reader is asked it; one that cannot search reads what the steps before have found."""
    asked = _asked(task)
    told = "\n".join(one.text for one in task.results)
    named = addresses_in(f"{task.title}\n{task.description}")
    if not named and not transcript.plays("web_search"):
        named = [hit.address for hit in read_hits(told)] or addresses_in(told)
    lines = [asked, *([] if (counts := read_counts(told)) is None else [write_counts(_spelled(asked), counts)])]
    lines += ["Sources:", *(f"- {address}" for address in dict.fromkeys(named[:MOST_READ]))] if named else []
    tools = frozenset(_LOOKING) & transcript.tools - (frozenset({"web_search"}) if named else frozenset())
    return replace(transcript, instruction="\n".join(lines), earlier="", tools=tools)


def _asked(task: StepTask) -> str:
    """The question of the step, as lines of an instruction: its own if it has one, else the person's."""
    if stated := _QUESTION_LINE.search(task.description):
        return task.description[stated.start() :]
    whole = " ".join(task.task.split())
    own = " ".join(_WORK.sub(" ", re.sub(r"\b(?:local:|https?://)\S+", " ", task.title)).split())
    if not query_of(own).terms:
        return f"Question: {whole}"
    return f"Question: {own}" + (f"\nEarlier question: {whole}" if leans(own) else "")


def _spelled(asked: str) -> Mapping[str, str]:
    return query_of(asked.replace("Earlier question:", " ").replace("Question:", " ")).spelled


def _fitting(quotes: list[Quotes]) -> str:
    """The quotes, the last ones left out that the steps after this one would not be shown whole."""
    while len(text := write_quotes(quotes)) > _RESULT_CHARS and (len(quotes) > 1 or len(quotes[0].sentences) > 1):
        last = quotes[-1]
        quotes = [*quotes[:-1], *([replace(last, sentences=last.sentences[:-1])] if len(last.sentences) > 1 else [])]
    return text


def _silence(inner: Transcript, task: StepTask, said: str) -> str:
    """Why nothing was found: what failed, or that the sources do not say."""
    if problems := failures(said):
        return " ".join(problems)
    say = _words(task)
    read = [document.title for step in inner.of("web_fetch") for document in read_documents(step.data)]
    titles = say["between_titles"].join(dict.fromkeys(filter(None, read)))
    if not inner.made("web_fetch"):
        return say["searched_none"]
    return " ".join([say["absent"], *([say["searched"].format(titles=titles)] if titles else [])])
