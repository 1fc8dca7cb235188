"""Usage of a conversation, live."""

import re

from support.played_runs import PlayedRun, Script

from artifactflow_nb.widgets.chat.metrics import context_gauge, metrics_table, usage_by_agent
from artifactflow_nb.widgets.run.labels import summary_line
from artifactflow_nb.widgets.run.transcript import RunTranscript


def played(*costs: float | None) -> RunTranscript:
    """A run with a sub-agent; the arguments are the costs of its three model calls."""
    script = Script()
    usage = {"input_tokens": 1000, "output_tokens": 20, "total_tokens": 1020}
    script.add("agent_start", job_id="main", step=1, instruction="", model="m")
    agents = (("lead_agent", "main"), ("search_agent", "tc-1"), ("lead_agent", "main"))
    for n, ((agent, job), cost) in enumerate(zip(agents, costs, strict=True)):
        if n == 1:
            script.add("tool_start", tool="call_subagent", job_id="main", tool_call_id="tc-1", params={})
            script.add("agent_start", agent, job_id=job, step=1, instruction="Find it.", model="m")
        payload = {"text": "", "reasoning": "", "token_usage": usage, "duration_ms": 500.0, "cost_usd": cost}
        script.add("llm_complete", agent, job_id=job, call_id=f"llm-{n}", **payload)
    transcript = RunTranscript("Where?")
    for event in PlayedRun(script.events).events:
        transcript.apply(event)
    return transcript


def rows(transcripts: list[RunTranscript]) -> list[list[str]]:
    """The rows of the table below its head, as text."""
    found = re.findall("<tr>(.*?)</tr>", metrics_table(usage_by_agent(transcripts)))[1:]
    return [re.findall("<t[hd][^>]*>(.*?)</t[hd]>", row) for row in found]


def test_usage_is_summed_over_runs() -> None:
    """The table has calls, tokens, time and cost per agent over all runs, and a total."""
    assert rows([played(0.25, 0.5, 0.125), played(0.25, 0.5, 0.125)]) == [
        ["lead_agent", "4", "2", "4,000", "80", "2.0 s", "0.75 USD"],
        ["search_agent", "2", "0", "2,000", "40", "1.0 s", "1.00 USD"],
        ["all", "6", "2", "6,000", "120", "3.0 s", "1.75 USD"],
    ]


def test_unknown_cost_is_not_zero() -> None:
    """An unknown cost is a dash; the total is the sum of the known costs."""
    costs = [row[-1] for row in rows([played(None, 0.5, None)])]
    assert costs == ["–", "0.5 USD", "0.5 USD"]
    assert [row[-1] for row in rows([played(0.0, None, 0.0)])] == ["0 USD", "–", "0 USD"]


def test_summary_contains_cost() -> None:
    """The summary has time, tokens and cost; without metrics only reproducible counts."""
    run = played(0.25, 0.5, 0.125)
    assert " · 3,060 tokens · 0.875 USD · 3 model calls · 1 tool call" in summary_line(run)
    assert summary_line(run, with_metrics=False) == "3 model calls · 1 tool call"


def test_gauge_shows_share_of_limit() -> None:
    """Length and text show the share of the limit, at most 100 percent; there is no gauge before the first prompt."""
    gauge = context_gauge({"chars": 20_000, "limit_chars": 80_000})
    assert "width: 25%" in gauge
    assert "context 20,000 of 80,000 characters" in gauge
    assert "width: 100%" in context_gauge({"chars": 90_000, "limit_chars": 80_000})
    assert context_gauge({}) == ""
