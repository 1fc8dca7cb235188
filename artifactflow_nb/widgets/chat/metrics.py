"""Usage of a conversation: context gauge, and tokens, time and cost per agent."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from artifactflow_nb.core.language import EnglishText, agent_label, translate
from artifactflow_nb.core.text.cards import CardCell, Named
from artifactflow_nb.core.text.format import about, capitalized, rounded, translate_duration, usd
from artifactflow_nb.core.text.panels import panel_table
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
    is_estimated: bool = False

    def __add__(self, other: "AgentUsage") -> "AgentUsage":
        costs = [cost for cost in (self.cost_usd, other.cost_usd) if cost is not None]
        return AgentUsage(
            self.n_llm_calls + other.n_llm_calls,
            self.n_tool_calls + other.n_tool_calls,
            self.input_tokens + other.input_tokens,
            self.output_tokens + other.output_tokens,
            self.llm_ms + other.llm_ms,
            sum(costs) if costs else None,
            self.is_estimated or other.is_estimated,
        )

    @property
    def token_texts(self) -> tuple[str, str]:
        """The input and output tokens, marked if they contain an estimate."""
        is_estimated = self.is_estimated
        n_input, n_output = (rounded(n, is_estimated=is_estimated) for n in (self.input_tokens, self.output_tokens))
        return about(f"{n_input:,}", is_estimated=is_estimated), about(f"{n_output:,}", is_estimated=is_estimated)

    @property
    def cost_text(self) -> str:
        """The cost, marked if it contains an estimate; a dash if no price is known."""
        return "–" if self.cost_usd is None else about(usd(self.cost_usd), is_estimated=self.is_estimated)


def usage_by_agent(
    transcripts: Iterable[RunTranscript], lanes: Mapping[str, str] = MappingProxyType({})
) -> dict[str, AgentUsage]:
    """Return the usage of each agent over these runs, by name; `lanes` gives jobs other names, by job id."""
    usage: dict[str, AgentUsage] = {}
    for transcript in transcripts:
        for job in transcript.jobs:
            for name in filter(None, job.agents):  # a job without turns has no agent yet
                usage.setdefault(name, AgentUsage())
            for turn in job.turns:
                if name := lanes.get(job.id) or turn.agent or job.agent:
                    tokens = {} if turn.is_computed else turn.usage
                    n_input, n_output = (int(tokens.get(kind) or 0) for kind in ("input_tokens", "output_tokens"))
                    counts = int(bool(turn.usage)), len(turn.calls)  # no usage until the model call has completed
                    is_estimated = bool(tokens.get("estimated"))
                    used = AgentUsage(*counts, n_input, n_output, turn.duration_ms, turn.cost_usd, is_estimated)
                    usage[name] = usage.get(name, AgentUsage()) + used
        for call in transcript.stopped_usage:
            name = lanes.get(call["job_id"]) or call["agent_name"]
            figures = {figure: call[figure] for figure in ("input_tokens", "output_tokens", "cost_usd")}
            usage[name] = usage.get(name, AgentUsage()) + AgentUsage(**figures, is_estimated=True)
    return usage


_COLUMNS: Sequence[EnglishText] = (
    *("agent", "model calls", "tool calls", "input tokens", "output tokens", "model time", "cost"),
)


def metrics_table(usage_by_agent: Mapping[str, AgentUsage]) -> str:
    """Build an HTML table of the usage per agent, with a total."""
    columns = [translate(name, context="column") for name in _COLUMNS]
    rows = [_row(Named(capitalized(agent_label(name)), name), usage) for name, usage in usage_by_agent.items()]
    total = _row(capitalized(translate("all")), sum(usage_by_agent.values(), AgentUsage()))
    return panel_table(columns, rows, translate("Tokens, time and cost"), numeric=columns[1:], total=total)


def _row(name: CardCell, usage: AgentUsage) -> list[CardCell]:
    n_calls = f"{usage.n_llm_calls:,}", f"{usage.n_tool_calls:,}"
    return [name, *n_calls, *usage.token_texts, translate_duration(usage.llm_ms), usage.cost_text]


def context_gauge(context: Mapping[str, int]) -> str:
    """Build an HTML meter of the size of the lead's last prompt; empty before the first prompt."""
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
