"""Usage of a conversation, live."""

import re

from support.played_runs import PlayedRun, Script

from artifactflow_nb.core.language import NAMES
from artifactflow_nb.engine.flow_registry import BUILT_IN_FLOWS
from artifactflow_nb.plugins.data.tools import tools_for
from artifactflow_nb.plugins.projects.spec import COMPOSE_FLOW
from artifactflow_nb.tools.artifacts import ARTIFACT_TOOLS
from artifactflow_nb.tools.lead import call_subagent
from artifactflow_nb.tools.web.tools import web_fetch, web_search
from artifactflow_nb.widgets.chat.metrics import context_gauge, metrics_table, usage_by_agent
from artifactflow_nb.widgets.run.labels import reasoning_label, summary_line, tokens_label
from artifactflow_nb.widgets.run.parts import TranscriptTokens
from artifactflow_nb.widgets.run.render import RunRenderer
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
        ["Lead agent", "4", "2", "4,000", "80", "2.0 s", "0.75 USD"],
        ["Search agent", "2", "0", "2,000", "40", "1.0 s", "1.00 USD"],
        ["All", "6", "2", "6,000", "120", "3.0 s", "1.75 USD"],
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


def fold(script: Script) -> RunTranscript:
    """The state of a run after the events of a script."""
    transcript = RunTranscript("Where?")
    for event in script.events:
        transcript.apply(event)
    return transcript


def test_tokens_of_a_running_call_are_estimated() -> None:
    """Until its usage is known, a call counts a quarter of its characters, marked as an estimate."""
    script = Script()
    for kind, delta in (("reasoning", "x" * 100), ("answer", "y" * 100)):
        script.add("llm_chunk", job_id="main", call_id="llm-1", kind=kind, delta=delta)
    assert tokens_label(fold(script).totals_with_subruns.tokens) == "about 50 tokens"
    assert tokens_label(TranscriptTokens(10_392, True)) == "about 10,400 tokens"
    usage = {"input_tokens": 100, "output_tokens": 20, "total_tokens": 120}
    script.add("llm_complete", job_id="main", call_id="llm-1", text="y" * 100, reasoning="", token_usage=usage)
    assert tokens_label(fold(script).totals.tokens) == "120 tokens"
    script.add("llm_complete", job_id="main", call_id="llm-2", text="", token_usage=usage | {"estimated": True})
    assert tokens_label(fold(script).totals.tokens) == "about 240 tokens"


def test_reasoning_has_its_time() -> None:
    """The label is `Thinking` until the first piece of the reply; the stored time replaces the time of the pieces."""
    script = Script()
    script.add("llm_chunk", job_id="main", call_id="llm-1", kind="reasoning", delta="Because")
    assert reasoning_label(fold(script).lead_job.turns[0], is_over=False) == "Thinking"
    script.add("llm_chunk", job_id="main", call_id="llm-1", kind="answer", delta="So.")
    assert reasoning_label(fold(script).lead_job.turns[0], is_over=False) == "Thought for 100 ms"
    more = {"text": "So.", "reasoning": "Because", "reasoning_ms": 3210.0, "token_usage": {"total_tokens": 1}}
    script.add("llm_complete", job_id="main", call_id="llm-1", **more)
    assert reasoning_label(fold(script).lead_job.turns[0], is_over=True) == "Thought for 3 s"


def test_job_line_says_its_activity_in_words() -> None:
    """A running sub-agent shows activity, clock and tokens, and its instruction as plain text."""
    script = Script()
    script.add("agent_start", job_id="main", step=1, instruction="", model="m")
    call = {"job_id": "main", "tool_call_id": "tc-1"}
    params = {"agent_name": "search_agent", "instruction": "Read **all** of `it`."}
    script.add("tool_start", tool="call_subagent", **call, params=params)
    script.add("agent_start", "search_agent", job_id="tc-1", step=1, instruction=params["instruction"], model="m")
    script.say("# Heading", "# Heading", call="llm-1", job="tc-1", agent="search_agent")
    query = {"query": "tides"}
    script.add("tool_start", "search_agent", "web_search", job_id="tc-1", tool_call_id="tc-2", params=query)

    def line() -> str:
        work = RunRenderer(PlayedRun(script.events)).body(fold(script))[0]
        return next(node.html for node in work.children if node.key == "tc-1")

    assert '<span class="af-arg">Searching: tides · Read' in line()
    assert re.search(r'data-since="\d+"></span> · 120 tokens', line())
    script.add("tool_complete", "search_agent", "web_search", job_id="tc-1", tool_call_id="tc-2", success=True)
    script.add("llm_chunk", "search_agent", job_id="tc-1", call_id="llm-2", kind="answer", delta="**Found** it")
    assert '<span class="af-arg">Writing, 12 characters · Read' in line()
    assert "about 123 tokens" in line()
    request = {"id": "perm-1", "tool_call_id": "tc-4"}
    script.add("permission_request", "search_agent", "web_fetch", job_id="tc-1", **request)
    assert 'class="af-mark af-waiting"' in line()
    script.add("permission_result", "search_agent", "web_fetch", job_id="tc-1", **request, approved=False)
    assert 'class="af-mark af-running"' in line()
    script.add("tool_complete", tool="call_subagent", **call, success=True, duration_ms=900.0)
    assert '<span class="af-arg">Read all of it.</span>' in re.sub(r"\s+(?=[ .])", "", line())
    assert "900 ms · " in line()


def test_each_activity_and_sentence_belongs_to_a_tool_that_exists() -> None:
    """Every text about a tool is about a built-in tool."""
    tools = [*ARTIFACT_TOOLS, web_fetch, web_search, call_subagent, *tools_for([])]
    tools += [tool for flow in (*BUILT_IN_FLOWS.values(), COMPOSE_FLOW) for tool in flow.all_tools]
    assert NAMES["activity"].keys() | NAMES["sentence"].keys() <= {tool.name for tool in tools}


def test_run_with_earlier_runs_shows_the_time_that_is_left() -> None:
    """The page counts down from the usual time; pauses for a person are not counted."""
    script = Script()
    script.add("agent_start", job_id="main", step=1, instruction="", model="m")
    script.add("complete", None, interrupted=True, pending=[], success=True, response="")
    script.add("agent_start", job_id="main", step=2, instruction="", model="m")
    transcript = fold(script)
    renderer = RunRenderer(PlayedRun(script.events))
    assert "data-usual" not in renderer.progress(transcript)
    transcript.usual_ms = 40_000.0
    began = transcript.started_at
    assert began is not None
    assert f'data-since="{began.timestamp() * 1000 + 100:.0f}" data-usual="40000"' in renderer.progress(transcript)
