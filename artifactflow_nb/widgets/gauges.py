"""What a conversation costs while it goes on: how full the context is, and who used how much."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from artifactflow_nb.text.figures import duration, usd
from artifactflow_nb.text.markdown import escape
from artifactflow_nb.widgets.parts import Turn
from artifactflow_nb.widgets.transcript import Transcript


@dataclass(frozen=True, slots=True)
class AgentUse:
    """What agents used. Milliseconds; the cost is None where no price is known."""

    n_llm_calls: int = 0
    n_tool_calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    llm_ms: float = 0.0
    cost_usd: float | None = None

    def __add__(self, other: "AgentUse") -> "AgentUse":
        known = [cost for cost in (self.cost_usd, other.cost_usd) if cost is not None]
        return AgentUse(
            self.n_llm_calls + other.n_llm_calls,
            self.n_tool_calls + other.n_tool_calls,
            self.input_tokens + other.input_tokens,
            self.output_tokens + other.output_tokens,
            self.llm_ms + other.llm_ms,
            sum(known) if known else None,
        )


def uses(transcripts: Iterable[Transcript]) -> dict[str, AgentUse]:
    """What each agent used in these runs, by its name."""
    found: dict[str, AgentUse] = {}
    for transcript in transcripts:
        for job in transcript.jobs:
            for name in filter(None, job.agents):  # a job that has not begun has none
                found.setdefault(name, AgentUse())
            for turn in job.turns:
                if name := turn.agent or job.agent:
                    found[name] = found.get(name, AgentUse()) + _use(turn) + AgentUse(n_tool_calls=len(turn.calls))
    return found


def _use(turn: Turn) -> AgentUse:
    """What a turn used; nothing before its usage is known."""
    if not turn.usage:
        return AgentUse()
    read, written = (int(turn.usage.get(name) or 0) for name in ("input_tokens", "output_tokens"))
    return AgentUse(1, 0, read, written, turn.duration_ms, turn.cost_usd)


def metrics_table(found: Mapping[str, AgentUse]) -> str:
    """A table of what the agents used, with a line for all of them."""
    total = sum(found.values(), AgentUse())
    head = "".join(
        f'<th scope="col">{name}</th>'
        for name in ("agent", "model calls", "tool calls", "input tokens", "output tokens", "model time", "cost")
    )
    rows = "".join(_row(name, use) for name, use in found.items())
    return (
        f'<table class="af-table"><thead><tr>{head}</tr></thead><tbody>{rows}</tbody>'
        f"<tfoot>{_row('all', total)}</tfoot></table>"
    )


def _row(name: str, use: AgentUse) -> str:
    figures = [use.n_llm_calls, use.n_tool_calls, use.input_tokens, use.output_tokens]
    cost = "–" if use.cost_usd is None else usd(use.cost_usd)
    cells = [*(f"{figure:,}" for figure in figures), duration(use.llm_ms), cost]
    return f'<tr><th scope="row">{escape(name)}</th>{"".join(f"<td>{cell}</td>" for cell in cells)}</tr>'


def context_gauge(context: Mapping[str, int]) -> str:
    """How full the lead's last prompt was; empty before there was one."""
    if not context:
        return ""
    chars, limit = context["chars"], max(context["limit_chars"], 1)
    share = min(chars / limit, 1.0)
    text = f"context {chars:,} of {limit:,} characters"
    return (
        f'<span class="af-gauge" role="meter" aria-label="Context used" aria-valuemin="0" aria-valuemax="{limit}" '
        f'aria-valuenow="{min(chars, limit)}" aria-valuetext="{text}" title="{text}">'
        f'<span class="af-gauge-full" style="width: {share:.0%}"></span></span> '
        f'<span class="af-gauge-text">context {share:.0%}</span>'
    )
