"""Reports and answers: a Markdown quote for each sentence, with the number of its source, and a list of sources.

Everything that the offline model writes is quoted, but for fixed phrases in English and Chinese.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.resources import files

from artifactflow_nb.core.text.chinese import is_chinese
from artifactflow_nb.core.text.format import clip
from artifactflow_nb.sources.citations import SourceQuotes

_ANSWER_SOURCES = 3  # sources per question in an answer; a report quotes all sources
_TITLE_COLUMNS = 100

PHRASES: Mapping[str, Mapping[str, str]] = json.loads((files(__package__) / "phrases.json").read_text(encoding="utf-8"))
"""The phrases by language and name; the titles of the usual steps are separated by `|`."""


def phrases_for(text: str) -> Mapping[str, str]:
    """Return the phrases in the language of a text."""
    return PHRASES["zh" if is_chinese(text) else "en"]


def plan_steps(phrases: Mapping[str, str]) -> list[str]:
    """Return the titles of the usual steps: search, read, write."""
    return phrases["steps"].split("|")


@dataclass(frozen=True, slots=True)
class Findings:
    """The result of research.

    Attributes:
        question: The person's question.
        quotes: The quotes, the most relevant source first; empty if the sources do not answer the question.
        searched: Titles of the sources that a search found.
        was_read: Whether a search or a reading succeeded.
        problems: Failed searches and readings.
        missing: Words of the question that no quote has.
        report_error: The error that prevented the report; None if the report was written or not attempted.
    """

    question: str
    quotes: tuple[SourceQuotes, ...]
    searched: tuple[str, ...]
    was_read: bool
    problems: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    report_error: str | None = None


@dataclass(frozen=True, slots=True)
class Section:
    """A part of a report: a question with its quotes, or with the reason why there are no quotes."""

    heading: str
    quotes: tuple[SourceQuotes, ...]
    problem: str = ""


def report_title(question: str) -> str:
    """Return the title of the report: the question."""
    return clip(question, _TITLE_COLUMNS)


def plan_title(question: str) -> str:
    """Return the title of the plan."""
    return phrases_for(question)["plan"].format(question=report_title(question))


def checklist(question: str, n_done: int) -> str:
    """Write the plan of a question with the first steps ticked."""
    steps = enumerate(plan_steps(phrases_for(question)))
    boxes = [f"- [{'x' if n < n_done else ' '}] {step}" for n, step in steps]
    return "\n".join([f"# {plan_title(question)}", "", *boxes, ""])


def section_heading(title: str) -> str:
    """Return the heading for a step of a plan: the question in the title of the step."""
    for phrases in PHRASES.values():
        title = title.removeprefix(phrases["find_out"].format(question=""))
    return title


def research_report(findings: Findings) -> str:
    """Write the report of research; without quotes, list the sources that were searched."""
    if findings.quotes:
        return plan_report(findings.question, [Section("", findings.quotes)], _problems(findings))
    return _page(findings.question, [*_absence(findings), *_problems(findings)])


def plan_report(question: str, sections: Sequence[Section], problems: Sequence[str] = ()) -> str:
    """Write a report with a section for each question, and the failures."""
    phrases = phrases_for(question)
    quoted = quotes_with_sources(sections, f"## {phrases['sources']}")
    return _page(question, [f"## {phrases['findings']}", *quoted, *problems])


def research_answer(findings: Findings) -> str:
    """Write the answer of research: the best sentences with their sources, and what failed."""
    phrases = phrases_for(findings.question)
    paragraphs = _absence(findings)
    if findings.quotes:
        paragraphs = quotes_with_sources([_shorten(Section("", findings.quotes))], f"**{phrases['sources']}**")
    if findings.report_error is not None:
        paragraphs.append(phrases["report_failed"].format(error=findings.report_error))
    return "\n\n".join([*paragraphs, *_problems(findings), phrases["offline"]])


def plan_answer(question: str, sections: Sequence[Section], undone: Sequence[str], report_id: str | None) -> str:
    """Write the answer of a plan: the best sentences with their sources, the steps not done, and the report's id."""
    phrases = phrases_for(question)
    paragraphs = [phrases["undone"].format(step=step) for step in undone]
    if sections:
        shown = list(map(_shorten, sections))
        paragraphs = [*quotes_with_sources(shown, f"**{phrases['sources']}**"), *paragraphs]
    if report_id:
        paragraphs.append(phrases["in_report"].format(report=report_id))
    return "\n\n".join([*paragraphs, phrases["offline"]])


def _page(question: str, paragraphs: Sequence[str]) -> str:
    title = f"# {report_title(question)}"
    return "\n\n".join([title, *paragraphs, "---", phrases_for(question)["offline"]]) + "\n"


def quotes_with_sources(sections: Sequence[Section], heading_of_sources: str) -> list[str]:
    """Format the quotes, under headings if there are several sections, and the numbered list of sources."""
    entries = [entry for section in sections for entry in section.quotes]
    addresses = list(dict.fromkeys(entry.address for entry in entries))
    titles = {entry.address: entry.title for entry in entries}

    paragraphs: list[str] = []
    for section in sections:
        paragraphs += [f"### {section.heading}"] if len(sections) > 1 else []
        for entry in section.quotes:
            number = addresses.index(entry.address) + 1
            paragraphs += [f"> {sentence} [{number}]" for sentence in entry.sentences]
        paragraphs += [section.problem] if section.problem else []
    sources = "\n".join(f"{n}. {titles[address]} — {address}" for n, address in enumerate(addresses, 1))
    return [*paragraphs, heading_of_sources, sources]


def _shorten(section: Section) -> Section:
    """Keep only the first sources of a section."""
    return replace(section, quotes=section.quotes[:_ANSWER_SOURCES])


def _absence(findings: Findings) -> list[str]:
    phrases = phrases_for(findings.question)
    if not findings.was_read:
        return [phrases["not_read"]]
    titles = phrases["between_titles"].join(dict.fromkeys(findings.searched))
    return [phrases["absent"], phrases["searched"].format(titles=titles) if titles else phrases["searched_none"]]


def _problems(findings: Findings) -> list[str]:
    phrases = phrases_for(findings.question)
    words = ", ".join(f"‘{word}’" for word in findings.missing)
    missing = [phrases["missing"].format(words=words)] if words else []
    return missing + [phrases["problem"].format(problem=problem) for problem in findings.problems]
