"""Usage of a conversation: context gauge, and tokens, time and cost per agent."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from artifactflow_nb.core.language import EnglishText, agent_label, translate
from artifactflow_nb.core.text.cards import Named, cell_html
from artifactflow_nb.core.text.format import capitalized, translate_duration, usd
from artifactflow_nb.widgets.run.transcript import RunTranscript


@dataclass(frozen=True, slots=True)
class AgentUsage:
    """Usage of one or more agents; the cost is None if no price is known."""

    n_llm_calls: int = 0
    n_tool_calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    llm_ms: float = 0.0
    cost_usd: float | None = None

    def __add__(self, other: "AgentUsage") -> "AgentUsage":
        known = [cost for cost in (self.cost_usd, other.cost_usd) if cost is not None]
        return AgentUsage(
            self.n_llm_calls + other.n_llm_calls,
            self.n_tool_calls + other.n_tool_calls,
            self.input_tokens + other.input_tokens,
            self.output_tokens + other.output_tokens,
            self.llm_ms + other.llm_ms,
            sum(known) if known else None,
        )


def usage_by_agent(
    transcripts: Iterable[RunTranscript], lanes: Mapping[str, str] = MappingProxyType({})
) -> dict[str, AgentUsage]:
    """Return the usage of each agent over these runs, by name; a job with a lane is counted under that name."""
    usage: dict[str, AgentUsage] = {}
    for transcript in transcripts:
        for job in transcript.jobs:
            for name in filter(None, job.agents):  # a job without turns has no agent yet
                usage.setdefault(name, AgentUsage())
            for turn in job.turns:
                if name := lanes.get(job.id) or turn.agent or job.agent:
                    n_input, n_output = (int(turn.usage.get(kind) or 0) for kind in ("input_tokens", "output_tokens"))
                    n_llm_calls = int(bool(turn.usage))  # no usage until the model call has completed
                    used = AgentUsage(n_llm_calls, len(turn.calls), n_input, n_output, turn.duration_ms, turn.cost_usd)
                    usage[name] = usage.get(name, AgentUsage()) + used
    return usage


_COLUMNS: Sequence[EnglishText] = (
    *("agent", "model calls", "tool calls", "input tokens", "output tokens", "model time", "cost"),
)


def metrics_table(usage_by_agent: Mapping[str, AgentUsage]) -> str:
    """HTML table of the usage per agent, with a total."""
    total = sum(usage_by_agent.values(), AgentUsage())
    head = "".join(f'<th scope="col">{translate(name, context="column")}</th>' for name in _COLUMNS)
    rows = "".join(_row(name, usage) for name, usage in usage_by_agent.items())
    return (
        f'<table class="af-table"><thead><tr>{head}</tr></thead><tbody>{rows}</tbody>'
        f"<tfoot>{_row(translate('all'), total)}</tfoot></table>"
    )


def _row(name: str, usage: AgentUsage) -> str:
    counts = [usage.n_llm_calls, usage.n_tool_calls, usage.input_tokens, usage.output_tokens]
    cost = "–" if usage.cost_usd is None else usd(usage.cost_usd)
    label = cell_html(Named(capitalized(agent_label(name)), name))
    cells = [*(f"{n:,}" for n in counts), translate_duration(usage.llm_ms), cost]
    return f'<tr><th scope="row">{label}</th>{"".join(f"<td>{cell}</td>" for cell in cells)}</tr>'


def context_gauge(context: Mapping[str, int]) -> str:
    """HTML meter of the size of the lead's last prompt; empty before the first one."""
    if not context:
        return ""
    chars, limit = context["chars"], max(context["limit_chars"], 1)
    share = min(chars / limit, 1.0)
    text = translate("context {chars} of {limit} characters", chars=f"{chars:,}", limit=f"{limit:,}")
    name = translate("Context used")
    return (
        f'<span class="af-gauge" role="meter" aria-label="{name}" aria-valuemin="0" aria-valuemax="{limit}" '
        f'aria-valuenow="{min(chars, limit)}" aria-valuetext="{text}" title="{text}">'
        f'<span class="af-gauge-full" style="width: {share:.0%}"></span></span> '
        f'<span class="af-gauge-text">{translate("context {share}", share=f"{share:.0%}")}</span>'
    )
