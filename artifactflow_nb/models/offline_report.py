"""What the offline model writes: the plan, the report and the answer, in the language of the question.

Everything of substance is quoted: a Markdown quote per sentence, white space collapsed, with the number of its source.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from artifactflow_nb.text.citations import Quotes
from artifactflow_nb.text.words import is_chinese

_ANSWER_SOURCES = 3  # sources quoted in the answer; the report quotes all
_ANSWER_SENTENCES = 5
_TITLE_CHARS = 100

_ENGLISH = {
    "planning": "I plan the work and have the sources searched.",
    "reading": "I have the sources read that look relevant.",
    "writing": "I write the report.",
    "plan": "Plan",
    "steps": "Search the sources|Read what looks relevant|Write the report",
    "findings": "Findings",
    "sources": "Sources",
    "searched": "Searched were: {titles}.",
    "searched_none": "No source had words of the question in common with it.",
    "absent": "On this question the sources do not say anything that could be quoted.",
    "unread": "The sources could not be read, so there is no answer.",
    "problem": "Not everything worked: {problem}",
    "unwritten": "The report was not written: {error}",
    "offline": "No language model was used (offline extractive mode): all that is said above on the subject is quoted "
    "verbatim from the sources. To use a language model, set OPENAI_BASE_URL, OPENAI_API_KEY and AF_MODEL.",
}
_CHINESE = {
    "planning": "先制定计划并检索资料。",
    "reading": "阅读相关的资料。",
    "writing": "撰写报告。",
    "plan": "计划",
    "steps": "检索资料|阅读相关内容|撰写报告",
    "findings": "结果",
    "sources": "来源",
    "searched": "已检索：{titles}。",
    "searched_none": "没有资料与问题有相同的词语。",
    "absent": "资料中没有说明（the sources do not say）。",
    "unread": "资料无法读取，因此没有答案。",
    "problem": "部分步骤失败：{problem}",
    "unwritten": "报告没有写成：{error}",
    "offline": "没有使用语言模型（离线摘录模式）：以上内容均逐字引自资料。要使用语言模型，请设置 OPENAI_BASE_URL、"
    "OPENAI_API_KEY 和 AF_MODEL。",
}


@dataclass(frozen=True, slots=True)
class Findings:
    """What a turn of work came to.

    Attributes:
        question: The person's question.
        quotes: What was found, the most relevant first; empty if the sources do not say.
        searched: Titles of the sources that a search gave.
        looked: Whether any search or reading succeeded.
        problems: What failed on the way.
        report_error: Why the report was not written; None if it was, or was not tried.
    """

    question: str
    quotes: tuple[Quotes, ...]
    searched: tuple[str, ...]
    looked: bool
    problems: tuple[str, ...] = ()
    report_error: str | None = None


def words(question: str) -> Mapping[str, str]:
    """The fixed words in the question's language."""
    return _CHINESE if is_chinese(question) else _ENGLISH


def plan_title(question: str) -> str:
    """The title of the plan."""
    return f"{words(question)['plan']}: {_shorten(question)}"


def report_title(question: str) -> str:
    """The title of the report: the question."""
    return _shorten(question)


def _shorten(question: str) -> str:
    line = " ".join(question.split())
    return line if len(line) <= _TITLE_CHARS else line[: _TITLE_CHARS - 1] + "…"


def plan(question: str, done: int) -> str:
    """The plan as a checklist with the first `done` steps ticked."""
    steps = words(question)["steps"].split("|")
    boxes = [f"- [{'x' if n < done else ' '}] {step}" for n, step in enumerate(steps)]
    return "\n".join([f"# {plan_title(question)}", "", *boxes, ""])


def report(findings: Findings) -> str:
    """The report in Markdown: quotes by source, then the numbered sources; without quotes, what was searched."""
    say = words(findings.question)
    parts = [f"# {report_title(findings.question)}"]
    if findings.quotes:
        parts += [f"## {say['findings']}", *_quotes(findings.quotes, findings.quotes)]
        parts += [f"## {say['sources']}", _sources(findings.quotes)]
    else:
        parts += _absence(findings)
    return "\n\n".join([*parts, *_problems(findings), "---", say["offline"]]) + "\n"


def answer(findings: Findings) -> str:
    """The answer in Markdown: the best sentences with their sources, and how it was made."""
    say = words(findings.question)
    if findings.quotes:
        cited = findings.quotes[:_ANSWER_SOURCES]
        shown = [*_quotes(cited[:1], cited, _ANSWER_SENTENCES), *_quotes(cited[1:], cited, 1)]
        parts = [*shown, f"**{say['sources']}**", _sources(cited)]
    else:
        parts = _absence(findings)
    if findings.report_error is not None:
        parts.append(say["unwritten"].format(error=findings.report_error))
    return "\n\n".join([*parts, *_problems(findings), say["offline"]])


def _quotes(shown: tuple[Quotes, ...], numbered: tuple[Quotes, ...], limit: int | None = None) -> list[str]:
    return [f"> {sentence} [{numbered.index(entry) + 1}]" for entry in shown for sentence in entry.sentences[:limit]]


def _sources(quotes: tuple[Quotes, ...]) -> str:
    return "\n".join(f"{n}. {entry.title} — {entry.address}" for n, entry in enumerate(quotes, 1))


def _absence(findings: Findings) -> list[str]:
    say = words(findings.question)
    if not findings.looked:
        return [say["unread"]]
    titles = "; ".join(dict.fromkeys(findings.searched))
    return [say["absent"], say["searched"].format(titles=titles) if titles else say["searched_none"]]


def _problems(findings: Findings) -> list[str]:
    return [words(findings.question)["problem"].format(problem=problem) for problem in findings.problems]
