"""The second stage of a search as model calls of a run: recorded, priced and cancelled like the calls of agents.

One request writes the question in other words, since texts and people use different words. Each other request scores a
few passages in a parallel job of one turn. The id of the job starts with the id of the search, so that views display
the job below the search. `read_scores` parses the scores.
"""

import asyncio
import html
import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

import orjson

from artifactflow_nb.agents.base import AgentConfig, BaseAgent
from artifactflow_nb.core.events import PARALLEL_SEPARATOR
from artifactflow_nb.core.messages import COMPUTED_PROVIDER
from artifactflow_nb.core.runs import DEPTH_SETTING
from artifactflow_nb.core.text.format import without_context
from artifactflow_nb.errors import BudgetExceeded, ModelError
from artifactflow_nb.flows.limits import load_run_budget
from artifactflow_nb.flows.services import RunContext, is_main
from artifactflow_nb.flows.turn import take_single_turn
from artifactflow_nb.sources.retrieval.sentences import collapse_whitespace
from artifactflow_nb.sources.values import SectionHit
from artifactflow_nb.tools.web.scoring import PASSAGES_PER_REQUEST, PassageScore

SCORER = AgentConfig(
    name="passage_scorer",
    description="Scores the passages that a search found.",
    temperature=0.0,
    temperature_is_optional=True,
)
REWRITER = AgentConfig(name="query_rewriter", description="Writes a search in other words.")
_MOST_QUERIES, _MAX_QUERY_CHARS = 3, 200
_LIST_MARK = re.compile(r"^\s*(?:[-*•]|\d+[.)])\s*|[\"“”`]")
_MOST_SENTENCES = 2
_HIGHEST = 10


def scores_passages(ctx: RunContext, agent: BaseAgent) -> bool:
    """Return whether the agent's model scores found passages: in deep runs, unless the agent works without a model."""
    return ctx.run.settings.get(DEPTH_SETTING) == "deep" and agent.model.provider != COMPUTED_PROVIDER


@dataclass(frozen=True, slots=True)
class ModelPassageScorer:
    """Scores the passages of one search.

    Attributes:
        agent: The agent that searches; its model scores.
    """

    ctx: RunContext
    agent: BaseAgent
    job_id: str
    tool_call_id: str

    async def queries(self, query: str) -> Sequence[str]:
        """Return the query, the question of the run, the searching agent's instruction, and queries in other words."""
        texts = [query, without_context(self.ctx.run.question)]
        if not is_main(self.job_id):
            texts.append(await self.ctx.services.calls.instruction(self.job_id))
        return list(dict.fromkeys([*texts, *await self._rewritten(query)]))

    async def _rewritten(self, query: str) -> list[str]:
        """Ask for three queries in other words; return no queries if the call fails or the budget is spent."""
        if await self._is_budget_spent():
            return []
        instruction = f"Question: {without_context(self.ctx.run.question)}\nThe search was for: {query}"
        job_id = f"{self.tool_call_id}{PARALLEL_SEPARATOR}0"
        try:
            answer = await take_single_turn(self.ctx, self.agent.assistant(REWRITER), job_id, instruction)
        except ModelError:
            return []
        lines = [_LIST_MARK.sub("", line).strip() for line in answer.splitlines()]
        return [line for line in lines if line and len(line) <= _MAX_QUERY_CHARS][:_MOST_QUERIES]

    async def score(self, query: str, passages: Sequence[SectionHit]) -> Sequence[PassageScore] | None:
        """Score passages with parallel requests; None if an answer is missing or malformed, or the budget is spent."""
        if await self._is_budget_spent():
            return None
        scorer = self.agent.assistant(SCORER)
        question = f"Question: {without_context(self.ctx.run.question)}\nThe search was for: {query}"
        batches = [passages[at : at + PASSAGES_PER_REQUEST] for at in range(0, len(passages), PASSAGES_PER_REQUEST)]
        scored = await asyncio.gather(
            *(
                self._score_batch(scorer, f"{self.tool_call_id}{PARALLEL_SEPARATOR}{number}", question, batch)
                for number, batch in enumerate(batches, 1)
            )
        )
        scores = [score for batch in scored for score in batch or ()]
        return scores if len(scores) == len(passages) else None

    async def _is_budget_spent(self) -> bool:
        spent = await self.ctx.services.runs.budget_usage(self.ctx.run.run_id, with_subruns=is_main(self.job_id))
        try:
            limits = await load_run_budget(self.ctx, spent)
        except BudgetExceeded:  # the next turn of the agent reports the error
            return True
        return limits is not None and (limits.open_subject is not None or bool(limits.allowed.exceeded(spent)))

    async def _score_batch(
        self, scorer: BaseAgent, job_id: str, question: str, passages: Sequence[SectionHit]
    ) -> list[PassageScore] | None:
        shown = [
            f'<passage number="{number}" title="{html.escape(hit.title)}">\n{hit.snippet}\n</passage>'
            for number, hit in enumerate(passages, 1)
        ]
        try:
            answer = await take_single_turn(self.ctx, scorer, job_id, "\n\n".join([question, *shown]))
        except ModelError:
            return None
        return read_scores(answer, [hit.snippet for hit in passages])


def read_scores(answer: str, passages: Sequence[str]) -> list[PassageScore] | None:
    """Parse the scores in an answer, one for each passage; None if the answer is malformed or a score is missing.

    Sentences that do not occur word for word in their passage are dropped.
    """
    entries = None
    with suppress(ValueError):
        entries = orjson.loads(answer[answer.find("[") : answer.rfind("]") + 1])
    scores: dict[int, PassageScore] = {}
    for entry in entries if isinstance(entries, list) else ():
        if not isinstance(entry, dict):
            return None
        number, score, sentences = entry.get("passage"), entry.get("score"), entry.get("sentences") or []
        if not isinstance(number, int) or not 1 <= number <= len(passages) or not isinstance(score, int | float):
            return None
        if not 0 <= score <= _HIGHEST:
            return None
        text = collapse_whitespace(passages[number - 1])
        quotes = [collapse_whitespace(quote) for quote in sentences if isinstance(quote, str)]
        verbatim = [quote for quote in quotes if quote and quote in text]
        scores[number] = PassageScore(float(score), tuple(verbatim[:_MOST_SENTENCES]))
    return [scores[number] for number in sorted(scores)] if len(scores) == len(passages) else None
