"""Scores of answers: the facts that they state, their citations, and their refusals.

A score needs no model and no judgement: facts are strings, citations are addresses, and a refusal is one of a few
phrases.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd
from eval.corpus import EvalQuestion

from artifactflow_nb.sources.citations import find_addresses

_REFUSALS = re.compile(
    r"do(?:es)? not (?:say|state|mention|contain|answer|give|include|provide|cover)"
    r"|don't (?:say|state|mention|contain)"
    r"|(?:could|can) ?not (?:find|be (?:found|answered|determined))"
    r"|not (?:in|found in|covered by|mentioned in|stated in) the sources"
    r"|no (?:information|source|mention|answer|record)\b"
    r"|nothing (?:was|is) (?:found|known|said)"
    r"|not (?:available|specified|known|stated|mentioned)",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class AnswerScore:
    """The score of an answer.

    Attributes:
        facts: Number of stated facts.
        is_cited: Whether each stated fact is cited with the section that states it, and every cited address is in
            the index; None for a question without facts, or if no fact is stated.
        is_refusal: Whether the answer says that the sources do not answer the question.
    """

    facts: int
    is_cited: bool | None
    is_refusal: bool


def score_answer(question: EvalQuestion, answer: str, known_addresses: frozenset[str]) -> AnswerScore:
    """Score an answer, together with the report that belongs to it.

    Args:
        question: The question.
        answer: The text of the answer and of the report.
        known_addresses: The addresses of the index.
    """
    cited = set(find_addresses(answer))
    prose = answer
    for address in cited:
        prose = prose.replace(address, "")  # the name of a file may contain the figure of a fact
    stated = [fact for fact in question.facts if any(_occurs(spelling, prose) for spelling in fact.spellings)]
    is_cited = {fact.address for fact in stated} <= cited <= known_addresses if stated else None
    return AnswerScore(len(stated), is_cited, not stated and bool(_REFUSALS.search(prose)))


def _occurs(spelling: str, text: str) -> bool:
    words = r"\s+".join(map(re.escape, spelling.split()))
    return re.search(rf"(?<![\w.,]){words}(?!\w|[.,]\d)", text, re.IGNORECASE) is not None


def summarize(results: pd.DataFrame) -> pd.DataFrame:
    """One row per model: shares of facts, right citations and right refusals, and the cost of a question."""
    rows = [_summary(str(model), group) for model, group in results.groupby("model", sort=False)]
    return pd.DataFrame(rows)


def _summary(model: str, results: pd.DataFrame) -> dict[str, Any]:
    absent = results["kind"] == "absent"
    answerable = results[~absent]
    answered = answerable[answerable["facts"] > 0]
    return {
        "model": model,
        "questions": len(results),
        "facts": answerable["facts"].sum() / max(answerable["expected_facts"].sum(), 1),
        "citations_right": answered["is_cited"].sum() / max(len(answered), 1),
        "refusals_right": results[absent]["is_refusal"].sum() / max(int(absent.sum()), 1),
        "wrong_refusals": int(answerable["is_refusal"].sum()),
        "failed": int((results["status"] != "completed").sum()),
        "calls_per_question": results["calls"].mean(),
        "tokens_per_question": results["tokens"].mean(),
        "seconds_per_question": results["seconds"].mean(),
    }


_SHARES = ("facts", "citations_right", "refusals_right")


def to_markdown(summary: pd.DataFrame) -> str:
    """The summary as a Markdown table."""
    columns = list(summary.columns)
    lines = [_line(columns), _line(["---"] * len(columns))]
    lines += [_line([_cell(name, row[name]) for name in columns]) for _, row in summary.iterrows()]
    return "\n".join(lines)


def _line(cells: Sequence[str] | Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _cell(column: str, value: Any) -> str:
    if column in _SHARES:
        return f"{value:.0%}"
    return f"{value:,.1f}" if isinstance(value, float) else str(value)
