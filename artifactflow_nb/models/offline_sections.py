"""What the offline model writes of a plan: quotes by what they answer, each source with one number."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from artifactflow_nb.models.offline_report import PHRASES, report_title, words
from artifactflow_nb.text.citations import Quotes

_SHOWN_FIRST, _SHOWN_FURTHER = 5, 1  # sentences of a section's first source and of its further ones in an answer
_SHOWN_SOURCES = 3


@dataclass(frozen=True, slots=True)
class Section:
    """What was found on one thing.

    Attributes:
        heading: What was asked.
        quotes: What was found, the most relevant first.
        problem: Why nothing was; empty if something was.
    """

    heading: str
    quotes: tuple[Quotes, ...]
    problem: str = ""


def heading_of(title: str, question: str) -> str:
    """What a step asks: the question if its title only says what is done, else the title without such words."""
    for phrases in PHRASES.values():
        if title in phrases["steps"].split("|"):
            return question
        title = title.removeprefix(phrases["find_out"].format(question=""))
    return title


def report(question: str, sections: Sequence[Section]) -> str:
    """The report in Markdown: the quotes of each section, then the numbered sources."""
    say, cited = words(question), _addresses(sections)
    parts = [f"# {report_title(question)}", f"## {say['findings']}", *_sections(sections, cited, "###")]
    parts += [f"## {say['sources']}", _sources(sections, cited), "---", say["offline"]]
    return "\n\n".join(parts) + "\n"


def answer(question: str, sections: Sequence[Section], undone: Sequence[str], report_id: str | None) -> str:
    """The answer in Markdown: the best sentences with their sources, what was not done, and where the report is."""
    say, parts = words(question), []
    if shown := [_best(section) for section in sections]:
        cited = _addresses(shown)
        parts += [*_sections(shown, cited, "###"), f"**{say['sources']}**", _sources(shown, cited)]
    parts += [say["undone"].format(step=step) for step in undone]
    parts += [say["in_report"].format(report=report_id)] if report_id else []
    return "\n\n".join([*parts, say["offline"]])


def _best(section: Section) -> Section:
    first, further = section.quotes[:1], section.quotes[1:_SHOWN_SOURCES]
    shown = [Quotes(one.title, one.address, one.sentences[:_SHOWN_FIRST]) for one in first]
    shown += [Quotes(one.title, one.address, one.sentences[:_SHOWN_FURTHER]) for one in further]
    return Section(section.heading, tuple(shown), section.problem)


def _addresses(sections: Sequence[Section]) -> list[str]:
    return list(dict.fromkeys(one.address for section in sections for one in section.quotes))


def _sections(sections: Sequence[Section], cited: Sequence[str], level: str) -> Iterator[str]:
    """The quotes, under headings if there are several sections."""
    for section in sections:
        if len(sections) > 1:
            yield f"{level} {section.heading}"
        for one in section.quotes:
            yield from (f"> {sentence} [{cited.index(one.address) + 1}]" for sentence in one.sentences)
        if section.problem:
            yield section.problem


def _sources(sections: Sequence[Section], cited: Sequence[str]) -> str:
    titles = {one.address: one.title for section in sections for one in section.quotes}
    return "\n".join(f"{n}. {titles[address]} — {address}" for n, address in enumerate(cited, 1))
