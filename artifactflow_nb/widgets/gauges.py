"""What a conversation costs while it goes on: how full the context is, and who used how much."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from artifactflow_nb.text.figures import duration
from artifactflow_nb.text.markdown import escape
from artifactflow_nb.widgets import labels
from artifactflow_nb.widgets.transcript import Transcript


@dataclass(slots=True)
class AgentUse:
    """What one agent used. Milliseconds; the cost is None where no price is known."""

    n_llm_calls: int = 0
    n_tool_calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    llm_ms: float = 0.0
    cost_usd: float | None = None


def uses(transcripts: Iterable[Transcript]) -> dict[str, AgentUse]:
    """What each agent used in these runs, by its name."""
    found: dict[str, AgentUse] = {}
    for transcript in transcripts:
        for job in transcript.jobs:
            use = found.setdefault(job.agent, AgentUse()) if job.agent else AgentUse()
            use.n_tool_calls += len(job.tools)
            for turn in job.turns:
                if not turn.usage:
                    continue
                use.n_llm_calls += 1
                use.input_tokens += int(turn.usage.get("input_tokens") or 0)
                use.output_tokens += int(turn.usage.get("output_tokens") or 0)
                use.llm_ms += turn.duration_ms
                if turn.cost_usd is not None:
                    use.cost_usd = (use.cost_usd or 0.0) + turn.cost_usd
    return found


def metrics_table(found: Mapping[str, AgentUse]) -> str:
    """A table of what the agents used, with a line for all of them."""
    total = AgentUse()
    for use in found.values():
        for name in ("n_llm_calls", "n_tool_calls", "input_tokens", "output_tokens", "llm_ms"):
            setattr(total, name, getattr(total, name) + getattr(use, name))
        if use.cost_usd is not None:
            total.cost_usd = (total.cost_usd or 0.0) + use.cost_usd
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
    cells = [*(f"{figure:,}" for figure in figures), duration(use.llm_ms)]
    cells += labels.cost(use.cost_usd) or ["–" if use.cost_usd is None else "0 USD"]
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
