"""The offline model as the agent that plans: a plan for what needs research, then the answer from the plan's report.

A question becomes a search, a reading and a report. Several questions, or a comparison, become a step for each of them,
and a report. Each step names the tools that it needs.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from artifactflow_nb.models import offline_report
from artifactflow_nb.models.offline_lead import REPORT, asked_as
from artifactflow_nb.models.offline_parts import parts_of
from artifactflow_nb.models.offline_plan_read import StepResult, is_report, results_in, undone
from artifactflow_nb.models.offline_sections import Section, answer, heading_of
from artifactflow_nb.models.offline_transcript import Transcript, leans
from artifactflow_nb.text.words import query_of
from artifactflow_nb.xml_calls import format_call

_MOST_PARTS = 3
_COMPARISONS = (
    re.compile(r"\bdifferences? between (?:an? |the )?(.+?) and (?:an? |the )?(.+?)[?.\s]*$", re.IGNORECASE),
    re.compile(r"^(?:please )?compare (?:an? |the )?(.+?) (?:and|with|to) (?:an? |the )?(.+?)[?.\s]*$", re.IGNORECASE),
    re.compile("^(?:请问|請問|请|請)?(?:比较|比較)?(.+?)(?:和|与|與|跟)(.+?)(?:之间|之間)?的?(?:有什么|有什麼|有何|有哪些)?(?:区别|區別|不同|差别|差別|差异|差異)"),
    re.compile("^(?:请|請)?(?:比较|比較)(.+?)(?:和|与|與|跟)(.+?)[。？?]*$"),
)  # fmt: skip
_COURTESY = re.compile(
    r"(?:(?:(?:hello|hi|hey)(?: there| all)?|good (?:morning|afternoon|evening)|bye|goodbye|ok(?:ay)?"
    r"|thank(?:s| you)(?: (?:very much|so much|a lot))?|(?:who|what|how) are you|what can you do"
    r"|[你您]好[吗嗎啊呀]?|早上好|晚上好|[谢謝]{2}[你您]?|再[见見]|[你您]是[谁誰]|[你您]能做(?:什么|什麼)) ?)+",
    re.IGNORECASE,
)


def turn(transcript: Transcript) -> str:
    """The agent's next turn: a plan, or the answer."""
    say = offline_report.words(transcript.question)
    if _is_courtesy(transcript.question):
        return f"{say['courtesy']}\n\n{say['offline']}"
    made = transcript.of("plan_create")
    if not made:
        return _plan(transcript)
    told = made[-1].data or made[-1].error
    if not is_report(told):
        return "\n\n".join([say["refused"].format(error=told), say["offline"]])
    return _answer(transcript, told)


def _is_courtesy(question: str) -> bool:
    """Whether the person asks for nothing that a source could hold."""
    return all(_COURTESY.fullmatch(said) for said in _phrases(question)) and bool(question.strip())


def _phrases(question: str) -> list[str]:
    """What stands between punctuation marks, with single blanks."""
    parts = re.split(r"[,.!?;:，。！？；：、~]+", question)
    return [" ".join(part.split()) for part in parts if part.strip()]


def _plan(transcript: Transcript) -> str:
    question = transcript.question
    say, parts = offline_report.words(question), looked_up(question)
    steps = [_part(say, part) for part in parts] if len(parts) > 1 else _chain(transcript)
    title = offline_report.plan_title(question)
    steps.append(_writing(say, is_there=REPORT in transcript.artifacts))
    call = format_call("plan_create", {"title": title, "steps": steps})
    return f"{say['planning']}\n\n{call}"


def looked_up(question: str) -> list[str]:
    """What has a step of its own: the sides of a comparison, or questions that each stand alone."""
    for comparison in _COMPARISONS:
        if (found := comparison.search(question)) and all(query_of(side).terms for side in found.groups()):
            return [side.strip() for side in found.groups()]
    asked = parts_of(question)
    return asked if len(asked) <= _MOST_PARTS and not any(map(leans, asked)) else [question]


def _chain(transcript: Transcript) -> list[dict[str, Any]]:
    """Search, then read."""
    say = offline_report.words(transcript.question)
    search, read, _ = say["steps"].split("|")
    asked = asked_as(transcript)
    return [
        {"title": search, "description": f"{say['to_search']}\n{asked}", "tools": ["web_search"]},
        {"title": read, "description": f"{say['to_read']}\n{asked}", "tools": ["web_fetch"]},
    ]


def _part(say: Mapping[str, str], part: str) -> dict[str, Any]:
    """Search and read for one of several questions."""
    return {
        "title": say["find_out"].format(question=part),
        "description": f"{say['to_find_out']}\nQuestion: {part}",
        "tools": ["web_search", "web_fetch"],
    }


def _writing(say: Mapping[str, str], *, is_there: bool) -> dict[str, Any]:
    """Write the report; one that the conversation has is written anew."""
    tools = ["rewrite_artifact"] if is_there else ["create_artifact", "rewrite_artifact"]
    return {"title": say["steps"].split("|")[-1], "description": say["to_write"].format(report=REPORT), "tools": tools}


def _answer(transcript: Transcript, told: str) -> str:
    results = results_in(told)
    written = any(one.ended == "completed" and REPORT in one.text for one in results)
    sections = sections_of(results, transcript.question)
    return answer(transcript.question, sections, undone(told), REPORT if written else None)


def sections_of(results: Sequence[StepResult], question: str) -> list[Section]:
    """What the steps have quoted for a question, a section for each."""
    return [Section(heading_of(one.title, question), one.quotes) for one in results if one.quotes]
