"""What the offline model writes: the plan, the report and the answer, in the language of the question.

Everything of substance is quoted: a Markdown quote per sentence, white space collapsed, with the number of its source.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from artifactflow_nb.models.offline_parts import parts_of
from artifactflow_nb.text.chinese import is_chinese
from artifactflow_nb.text.citations import Quotes
from artifactflow_nb.text.width import clip

_ANSWER_SOURCES = 3  # sources quoted in the answer; the report quotes all
_ANSWER_SENTENCES = 5  # of the first source; of each other one, where one thing was asked and where several were
_FURTHER, _FURTHER_OF_PARTS = 1, 3
_TITLE_COLUMNS = 100

# The fixed words by language. Between `|` stand the steps of the plan.
_ENGLISH = {
    "planning": "I plan the work and have the sources searched.",
    "reading": "I have the sources read that look relevant.",
    "writing": "I write the report.",
    "plan": "Plan: {question}",
    "steps": "Search the sources|Read what looks relevant|Write the report",
    "findings": "Findings",
    "sources": "Sources",
    "searched": "Searched were: {titles}.",
    "between_titles": "; ",
    "searched_none": "No source had words of the question in common with it.",
    "absent": "On this question the sources do not say anything that could be quoted.",
    "unread": "The sources could not be read, so there is no answer.",
    "problem": "Not everything worked: {problem}",
    "unwritten": "The report was not written: {error}",
    "find_out": "Find out: {question}",
    "to_search": "List the addresses where the answer stands.",
    "to_read": "Quote the sentences that answer the question, with their addresses.",
    "to_find_out": "Search the sources and quote the sentences that answer the question, with their addresses.",
    "to_write": "Write what was quoted into the artifact {report}, each sentence with its source.",
    "written": "The report is written: {report}.",
    "in_report": "All of it is in the artifact `{report}`.",
    "nothing": "There is nothing to write down: no step has found anything.",
    "no_tool": "The step needs web_search, web_fetch or an artifact tool, and has none of them.",
    "no_address": "No step before has found an address to read.",
    "undone": "Not done: {step}",
    "refused": "The plan was not carried out: {error}",
    "again": "What failed may work when it is tried again.",
    "go_on": "The steps that are left do not need this one.",
    "in_vain": "The steps that are left have nothing to work on.",
    "over": "No step is left.",
    "courtesy": "Ask a question that the sources may answer: they are searched and read, and what they say is quoted.",
    "cannot": "This cannot be done without a language model. To use one, set OPENAI_BASE_URL, OPENAI_API_KEY and "
    "AF_MODEL.",
    "offline": "No language model was used (offline extractive mode): all that is said above on the subject is quoted "
    "verbatim from the sources. To use a language model, set OPENAI_BASE_URL, OPENAI_API_KEY and AF_MODEL.",
}
_CHINESE = {
    "planning": "我先制定计划，并请人检索资料。",
    "reading": "我请人阅读看来相关的资料。",
    "writing": "我来撰写报告。",
    "plan": "计划：{question}",
    "steps": "检索资料|阅读相关内容|撰写报告",
    "findings": "结果",
    "sources": "来源",
    "searched": "检索到的资料有：{titles}。",
    "between_titles": "；",
    "searched_none": "没有一份资料含有问题中的词语。",
    "absent": "对于这个问题，资料中没有可以引用的说明。",
    "unread": "资料无法读取，因此没有答案。",
    "problem": "有的步骤没有成功：{problem}",
    "unwritten": "报告没有写成：{error}",
    "find_out": "查明：{question}",
    "to_search": "列出答案所在的地址。",
    "to_read": "摘录回答问题的句子，并注明地址。",
    "to_find_out": "检索资料，摘录回答问题的句子，并注明地址。",
    "to_write": "把摘录的句子连同来源写入 {report}。",
    "written": "报告已写成：{report}。",
    "in_report": "全部内容见 `{report}`。",
    "nothing": "没有可写的内容：前面的步骤什么也没有找到。",
    "no_tool": "这一步需要 web_search、web_fetch 或写报告的工具，但一个也没有。",
    "no_address": "前面的步骤没有找到可读的地址。",
    "undone": "没有完成：{step}",
    "refused": "计划没有执行：{error}",
    "again": "失败的步骤再试一次也许能成功。",
    "go_on": "剩下的步骤不依赖这一步。",
    "in_vain": "剩下的步骤没有可用的内容。",
    "over": "没有剩下的步骤。",
    "courtesy": "请提一个资料可能回答的问题：我会检索、阅读资料，并逐字引用其中的说明。",
    "cannot": "没有语言模型，这件事做不到。要使用语言模型，请设置 OPENAI_BASE_URL、OPENAI_API_KEY 和 AF_MODEL。",
    "offline": "没有使用语言模型（离线摘录模式）：以上与主题有关的内容均逐字引自资料。要使用语言模型，"
    "请设置 OPENAI_BASE_URL、OPENAI_API_KEY 和 AF_MODEL。",
}
PHRASES: Mapping[str, Mapping[str, str]] = {"en": _ENGLISH, "zh": _CHINESE}
"""Every fixed word of the offline model's reports, by language and name."""


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
    return PHRASES["zh" if is_chinese(question) else "en"]


def plan_title(question: str) -> str:
    """The title of the plan."""
    return words(question)["plan"].format(question=report_title(question))


def report_title(question: str) -> str:
    """The title of the report: the question."""
    return clip(question, _TITLE_COLUMNS)


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
        further = _FURTHER_OF_PARTS if len(parts_of(findings.question)) > 1 else _FURTHER
        shown = [*_quotes(cited[:1], cited, _ANSWER_SENTENCES), *_quotes(cited[1:], cited, further)]
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
    titles = say["between_titles"].join(dict.fromkeys(findings.searched))
    return [say["absent"], say["searched"].format(titles=titles) if titles else say["searched_none"]]


def _problems(findings: Findings) -> list[str]:
    return [words(findings.question)["problem"].format(problem=problem) for problem in findings.problems]
