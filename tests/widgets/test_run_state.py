"""A run says what it waits for, what was refused, and how often the model was asked."""

import re
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from support.gated_model import GatedModel
from support.pages import ShownView, place_nodes
from support.played_runs import PlayedRun, Script
from support.replies import call, report

import artifactflow_nb as af
from artifactflow_nb.core.text.format import usd
from artifactflow_nb.widgets.chat.view import ChatView
from artifactflow_nb.widgets.conversations.view import TreeView
from artifactflow_nb.widgets.home.view import HomeView
from artifactflow_nb.widgets.page.elements import params_html
from artifactflow_nb.widgets.run.labels import preparing_label, tokens_label
from artifactflow_nb.widgets.run.parts import TranscriptTokens, TranscriptTurn
from artifactflow_nb.widgets.run.render import RunRenderer
from artifactflow_nb.widgets.run.saved import saved_run
from artifactflow_nb.widgets.run.transcript import RunTranscript
from artifactflow_nb.widgets.run.view import RunView
from artifactflow_nb.widgets.timeline import TimelineView


def plan(title: str) -> str:
    return call("plan_create", title=title, steps=[{"title": "Read", "description": "Read it."}])


CHANGE = call("update_artifact", id="research_report", passage="The report.", by="Another one.")
MISMATCH = call("update_artifact", id="research_report", old="At ten.", new="At nine.")
UNCHANGED = "Failed: Change a passage of “Report”. Reason: the parameter &#x27;old&#x27; is missing; "
DIFFERENT = (
    "Failed: Change a passage of “Report”. Reason: research_report (version 1) was not changed: "
    "it does not hold the passage.</p>"
)
EXISTS = "Failed: Write “Report”. Reason: The artifact &#x27;research_report&#x27; exists (version 1).</p>"
MALFORMED = call("plan_create", title="P", steps=[{"title": "Read", "depends_on": [1]}])


def test_run_says_that_the_model_has_not_answered(tmp_path: Path) -> None:
    """The note has a clock and stays from the request to the first words; a plain answer has no line for the work."""
    model = GatedModel(["It rises."])
    with af.Workbench(model=model, data_dir=tmp_path, interactive=True) as wb:
        run = wb.ask("Why?")
        page = ShownView(wb._thread, RunView(run._client))
        page.until(lambda: "Waiting for the first words of the model" in page.html["work"])
        assert re.search(r'af-clock" data-since="\d+"', page.html["work"])
        model.gate.set()
        run.wait(10)
        page.until(lambda: "Completed" in page.html["state"])
        assert "work" not in page.html


def test_written_artifact_is_named_by_its_title() -> None:
    """While the model writes an artifact, its title is shown instead of the tool; any other call shows the tool."""
    turn = TranscriptTurn("call-1")
    turn.reply.append_call("create_artifact", '{"id": "r", ')
    assert preparing_label(turn) == "Writing a text, 12 characters"
    turn.reply.append_call("create_artifact", '"title": "Sea level", "content": "It')
    assert preparing_label(turn) == "Writing “Sea level”, 48 characters"
    turn.reply.append_call("web_search", "{")
    assert preparing_label(turn) == "Writing a search, 49 characters"


@pytest.mark.parametrize(
    ("agents", "label"),
    [
        ([], "Handing out 1 task"),
        (["search_agent"], "Handing out 1 search"),
        (["search_agent"] * 3, "Handing out 3 searches"),
        (["crawl_agent", "crawl_agent"], "Handing out 2 readings"),
        (["search_agent", "crawl_agent", "writer"], "Handing out 3 tasks"),
    ],
)
@pytest.mark.parametrize("protocol", ["native", "xml"])
def test_delegations_are_counted_while_they_are_written(agents: list[str], label: str, protocol: str) -> None:
    """The line has the number and the kind of the jobs that the lead delegates; the number grows with the calls."""
    turn = TranscriptTurn("call-1")
    turn.reply.append_call("call_subagent", "{" if protocol == "native" else "<params>")
    for agent in agents:
        native = f'{{"agent_name": "{agent}", "instruction": "Look."}}'
        xml = f"<agent_name><![CDATA[{agent}]]></agent_name><instruction><![CDATA[Look.]]></instruction>"
        for character in native if protocol == "native" else xml:
            turn.reply.append_call("call_subagent", character)
    assert preparing_label(turn) == label


@pytest.mark.parametrize(
    ("script", "flow", "deny", "sentence"),
    [
        ([plan("Read"), "I could not."], "plan", True, "The plan was rejected: Too short."),
        ([report(), "I could not."], "research", True, "Denied: Write “Report” (Too short.)"),
        ([report(), report(), "Done."], "research", True, None),
        ([report(), "Done."], "research", False, None),
    ],
)
def test_denied_call_is_said_outside_the_fold(
    tmp_path: Path, script: list[str], flow: str, deny: bool, sentence: str | None
) -> None:
    """An ended run says what was denied, unless a later call of the tool succeeded."""
    approvals = {"create_artifact": "ask", "plan_create": "ask"}
    with af.Workbench(model=af.ScriptedModel(script), data_dir=tmp_path, approvals=approvals, interactive=True) as wb:
        run = wb.ask("Write it.", flow=flow)
        page = ShownView(wb._thread, RunView(run._client))
        page.until(lambda: run.status == "waiting")
        first = run.pending[0].id
        run.deny("Too short.") if deny else run.approve()
        if script[0] == script[1]:
            page.until(lambda: [request.id for request in run.pending] not in ([], [first]))
            run.approve()
        page.until(lambda: "Completed" in page.html["state"])
        assert [page.html[key] for key in page.html if key.startswith("refused")] == (
            [f"<p>{sentence}</p>"] if sentence else []
        )


@pytest.mark.parametrize(
    ("script", "flow", "sentence"),
    [
        ([report(), CHANGE, "I changed it."], "research", UNCHANGED),
        ([report(), CHANGE, report(artifact_id="b"), "Done."], "research", UNCHANGED),
        ([report(), report(), "Here it is."], "research", EXISTS),
        ([report(), MISMATCH, "Here it is."], "research", DIFFERENT),
        ([report(), CHANGE, call("rewrite_artifact", id="research_report", content="New."), "Done."], "research", None),
        ([MALFORMED, "Here it is."], "plan", "The agent could not make a plan: its call failed."),
    ],
)
def test_failed_change_is_named_below_the_answer(
    tmp_path: Path, script: list[str], flow: str, sentence: str | None
) -> None:
    """The reason is named without advice for the model; a change is omitted if a later change of the text succeeded."""
    with af.Workbench(model=af.ScriptedModel(script), data_dir=tmp_path, interactive=False) as wb:
        run = wb.ask("Write it.", flow=flow).wait(20)
        page = ShownView(wb._thread, RunView(run._client))
        found = [html for key, html in page.html.items() if key.startswith("refused")]
        assert [html.removeprefix("<p>").startswith(sentence or "") for html in found] == [True] * bool(sentence)
        assert not any("depends_on" in html or "rejected" in html for html in found)


def test_call_that_the_person_stops_is_named_so(tmp_path: Path) -> None:
    """A run that is stopped in the middle of an answer has no failed attempt; model calls have a complete reply."""
    with af.Workbench(model=af.ScriptedModel(["word " * 500], delay_s=0.02), data_dir=tmp_path, interactive=True) as wb:
        run = wb.ask("Why?")
        page = ShownView(wb._thread, RunView(run._client))
        page.until(lambda: "word" in page.text)
        run.cancel()
        page.until(lambda: "Cancelled" in page.html["state"])
        assert "1 model call stopped" in page.html["state"]
        assert "without a reply" not in page.html["state"]
        assert wb.runs_df(columns="counts")["n_llm_calls"].tolist() == [0]


def test_waiting_time_is_the_same_in_all_views(tmp_path: Path) -> None:
    """The timeline counts the pause of a run, as its status line and its metrics do, and each millisecond once."""
    calls = [af.ToolCall("create_artifact", {"id": name, "title": name, "content": "Text"}) for name in ("a", "b")]
    model = af.ScriptedModel([calls, "Done."])
    with af.Workbench(model=model, data_dir=tmp_path, approvals={"create_artifact": "ask"}, interactive=True) as wb:
        run = wb.ask("Write both.")
        page = ShownView(wb._thread, TimelineView(run._client))
        page.until(lambda: run.status == "waiting" and len(run.pending) == 2)
        for request in run.pending:
            run.approve(request.id)
        run.wait(10)
        page.until(lambda: "Completed" in page.html["head"])
        view = page.view
        assert isinstance(view, TimelineView)
        (row,) = view._agents(view._transcript.spans, 0.0).rows
        waited = row[view._agents(view._transcript.spans, 0.0).columns.index("waiting for you")]
        assert sum(end - start for start, end in view._transcript.pauses) == pytest.approx(run.metrics.wait_ms, abs=2)
        assert str(waited) != "0 ms"


def test_parameters_have_plain_names() -> None:
    """Parameters of the built-in tools are words; the parameter names of other tools keep their letters."""
    html = params_html({"urls": "a", "agent_name": "b", "to": "c"})
    assert re.findall("<dt>(.*?)</dt>", html) == ["addresses", "agent", "to"]


@pytest.mark.parametrize("is_over", [False, True])
def test_time_of_an_agent_is_without_the_waiting_of_the_person(is_over: bool) -> None:
    """While the run waits, the clock of the agent stands still; afterwards the agent's time and the wait are named."""
    script = Script()
    script.add("metadata", None, question="How high?")
    task = {"agent_name": "crawl_agent", "instruction": "Read."}
    script.add("tool_start", tool="call_subagent", job_id="main", tool_call_id="tc-1", params=task)
    script.add("agent_start", "crawl_agent", job_id="tc-1", step=1, instruction="Read.", model="m")
    request = {"id": "req-1", "tool_call_id": "tc-2", "job_id": "tc-1", "kind": "tool", "params": {"urls": []}}
    script.add("permission_request", "crawl_agent", "web_fetch", **request, title="Read")
    script.add("complete", None, interrupted=True, pending=["req-1"], success=True, response="")
    n_before = len(script.events)
    if is_over:
        script.add("permission_result", "crawl_agent", "web_fetch", id="req-1", approved=True, decided_by="user")
        done = {"job_id": "main", "tool_call_id": "tc-1", "success": True, "duration_ms": 41_000.0}
        script.add("tool_complete", tool="call_subagent", **done)
        script.add("complete", None, success=True, response="High.", execution_metrics={}, interrupted=False)
    wait = timedelta(seconds=39.9)
    events = [replace(event, timestamp=event.timestamp + wait * (event.seq > n_before)) for event in script.events]
    transcript = RunTranscript("How high?")
    for event in events:
        transcript.apply(event)
    renderer = RunRenderer(PlayedRun(events))
    [agent] = [place.node for place in place_nodes(renderer.nodes(transcript)) if place.node.key == "tc-1"]
    if is_over:
        assert "1.0 s + 40.0 s waiting for you ·" in agent.html
        assert "600 ms + 40.0 s waiting for you" in renderer.progress(transcript)
    else:
        assert ">300 ms<" in agent.html
        assert "data-since" not in agent.html


def test_stopped_run_keeps_the_estimate_of_its_usage(tmp_path: Path) -> None:
    """Tokens that had arrived were paid for: views, frames, the sums of the day and a replay count these tokens."""
    cassette, prices = tmp_path / "c.jsonl", {"scripted": {"input": 1.0, "output": 2.0}}
    model = af.ScriptedModel(["word " * 4000], delay_s=0.005)
    with af.Workbench(model=model, data_dir=tmp_path / "a", interactive=True, record=cassette, prices=prices) as wb:
        run = wb.ask("Why?")
        page = ShownView(wb._thread, RunView(run._client))
        page.until(lambda: "about " in page.html["state"])
        run.cancel()
        run.wait(10)
        page.until(lambda: "Cancelled" in page.html["state"])
        usage = ["total_tokens", "tokens_estimated", "cost_usd"]
        [(n_tokens, is_estimated, cost)] = wb.runs_df(columns="all")[usage].itertuples(index=False)
        assert is_estimated
        assert cost > 0
        label = tokens_label(TranscriptTokens(n_tokens, is_estimated=True))
        assert label in page.html["state"]
        saved = saved_run(run._client)["text/html"]
        assert label in saved
        about_cost = f"about {usd(cost)}"
        assert about_cost in page.html["state"]
        metrics = run.metrics
        assert (metrics.total_tokens, metrics.tokens_estimated) == (n_tokens, True)
        assert f"about {n_tokens:,}" in metrics._card().plain()
        (by_agent,) = wb.metrics_df(run)[usage].itertuples(index=False)
        assert tuple(by_agent) == (n_tokens, True, cost)
        chat = ShownView(wb._thread, ChatView(wb._thread, run.conversation_id))
        assert about_cost in chat.html["metrics-table"]
        tree = ShownView(wb._thread, TreeView(wb._thread, run.conversation_id))
        assert label in tree.html["drawing"]
        home = ShownView(wb._thread, HomeView(wb._thread))
        assert f"≈ {usd(cost)}" in home.html["run-table"]
        assert f"≈ {n_tokens:,}" in home.html["run-table"]
        assert sum(f"{n_tokens:,}" in html for html in home.html.values()) == 2  # its line, and the sums of today
    with af.Workbench(replay=cassette, data_dir=tmp_path / "b", interactive=True) as wb:
        again = wb.ask("Why?").wait(10)
        assert saved_run(again._client)["text/html"] == saved
        assert wb.runs_df(columns="all")[usage].values.tolist() == [[n_tokens, True, cost]]


def test_answer_of_the_person_is_a_line_of_the_conversation(tmp_path: Path) -> None:
    """The finished run has the question and the answer outside of the folded work, on the page and saved."""
    script = [call("ask_person", question="The *city* or the state?"), "It is New York State."]
    with af.Workbench(model=af.ScriptedModel(script), data_dir=tmp_path, interactive=False) as wb:
        run = wb.ask("How large is New York?").wait(10)
        page = ShownView(wb._thread, RunView(run._client))
        assert not any(key.startswith("answered") for key in page.html)
        run.answer("The <state>.").wait(10)
        page.until(lambda: "Completed" in page.html["state"])
        (html,) = [html for key, html in page.html.items() if key.startswith("answered")]
        assert "Lead agent asked:</span> The *city* or the state?</p>" in html
        assert "<p>Answered by user: The &lt;state&gt;.</p>" in html
        assert "Answered by user: The <state>." in saved_run(run._client)["text/plain"]


def test_run_without_a_language_model_names_no_tokens(tmp_path: Path) -> None:
    """Views and lists of an offline run name no tokens; the frames have the estimates."""
    with af.Workbench(model="offline", data_dir=tmp_path, interactive=False) as wb:
        run = wb.ask("What does the with statement do?").wait(30)
        chat = ShownView(wb._thread, ChatView(wb._thread, run.conversation_id))
        home = ShownView(wb._thread, HomeView(wb._thread))
        tree = ShownView(wb._thread, TreeView(wb._thread, run.conversation_id))
        for text in (saved_run(run._client)["text/html"], chat.text, tree.text):
            assert not re.search(r"\d tokens", text)
        assert ">–<" in home.html["run-table"]
        assert wb.runs_df(run)["total_tokens"].item() > 0
