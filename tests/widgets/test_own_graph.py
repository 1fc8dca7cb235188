"""Runs of a user's own graph: nodes share a job, ask the person, and start helper agents in tools."""

import re
from typing import Any

import pytest
from support.pages import visible_text
from support.played_runs import PlayedRun, Script

from artifactflow_nb.core.approvals import Decision
from artifactflow_nb.core.events import StreamEvent
from artifactflow_nb.errors import FormError
from artifactflow_nb.widgets.chat.metrics import usage_by_agent
from artifactflow_nb.widgets.page.saved import saved_html
from artifactflow_nb.widgets.run.approval_card import approval_card, read_decision
from artifactflow_nb.widgets.run.labels import steps
from artifactflow_nb.widgets.run.parts import TranscriptRequest
from artifactflow_nb.widgets.run.render import RunRenderer, answer_turn
from artifactflow_nb.widgets.run.saved import saved_transcript
from artifactflow_nb.widgets.run.transcript import RunTranscript
from artifactflow_nb.widgets.run.view import announcement

USAGE = {"input_tokens": 100, "output_tokens": 20, "total_tokens": 120}
PARAMS = {"to": "Ada", "copies": 2, "cc": ["Bob"], "meta": {"a": 1}, "urgent": False, "note": None}


def fold(events: list[StreamEvent]) -> RunTranscript:
    transcript = RunTranscript("Will it go well?")
    for event in events:
        transcript.apply(event)
    return transcript


def html(transcript: RunTranscript, run: PlayedRun | None = None) -> str:
    return saved_html(RunRenderer(run or PlayedRun([])).nodes(transcript))


def begin(script: Script, agent: str, job: str = "main") -> None:
    script.add("agent_start", agent, job_id=job, step=1, instruction="", model="m")


def piece(script: Script, agent: str, text: str, job: str = "main") -> None:
    script.add("llm_chunk", agent, job_id=job, call_id=agent, kind="answer", delta=text)


def end(script: Script, agent: str, text: str, job: str = "main", call: str = "") -> None:
    payload = {"text": text, "reasoning": "", "token_usage": USAGE, "duration_ms": 500.0}
    script.add("llm_complete", agent, job_id=job, call_id=call or agent, **payload)


def complete(script: Script, response: str) -> None:
    script.add("complete", None, success=True, response=response, execution_metrics={}, interrupted=False)


def ask(script: Script, **changes: Any) -> None:
    parts = {"job_id": "main", "id": "req-1", "tool_call_id": "", "title": "Publish it?", "params": {}, **changes}
    script.add("permission_request", "publish", "publish", **parts)


def debate(script: Script) -> Script:
    """Add two parallel nodes (`left` begins first and ends last), and then a third node."""
    begin(script, "left")
    begin(script, "right", "main~right")
    piece(script, "right", "It will.", "main~right")
    piece(script, "left", "It won't.")
    end(script, "right", "It will.", "main~right")
    script.add("tool_start", "right", "count", job_id="main~right", tool_call_id="tc-1", params={"n": 3})
    end(script, "left", "It won't.")
    begin(script, "judge")
    end(script, "judge", "Perhaps.")
    complete(script, "Perhaps.")
    return script


def question(**changes: Any) -> TranscriptRequest:
    parts: dict[str, Any] = {
        "id": "req-1", "kind": "tool", "agent": "publish", "tool": "publish", "tool_call_id": "req-1",
        "title": "Publish it?", "preview": "", "message": "", "params": PARAMS,
    }  # fmt: skip
    return TranscriptRequest(**parts | changes)


def test_replies_of_nodes_have_node_names(script: Script) -> None:
    """Texts and calls appear under the name of their node, in starting order; the answer has no name."""
    shown = html(fold(debate(script).events))
    texts = re.sub("<[^>]*>|\\s+", " ", shown)
    assert re.search("Left, right, judge .*Left .*It won't.*Right .*It will.*Count.*Perhaps", texts)
    assert shown.count('class="af-who"') == 2
    assert steps(fold(script.events)) == "3 agents · 1 tool call"


def test_stored_and_live_nodes_are_equal(script: Script) -> None:
    """Stored events lack the chunks of a text, and the nodes still have the same order as live."""
    run = PlayedRun(debate(script).events)
    watched, again = fold(run.events), fold(list(run.stored_events()))
    assert saved_transcript(again, RunRenderer(run), run.run_id) == saved_transcript(
        watched, RunRenderer(run), run.run_id
    )


def test_parallel_replies_are_not_the_answer_until_end(script: Script) -> None:
    """Parallel texts are shown as work until the end of the run names the answer."""
    debate(script)
    speaking = fold(script.events[:4])
    assert [turn.text for turn in speaking.lead_job.turns] == ["It won't.", "It will."]
    assert answer_turn(speaking) is None
    del script.events[7:]
    complete(script, "It won't.")
    answer = answer_turn(fold(script.events))
    assert answer is not None
    assert answer.agent == "left"


def test_usage_is_counted_by_node(script: Script) -> None:
    """Each node of a shared job has its own figures, and a question to the person is not a tool call."""
    ask(debate(script))
    used = usage_by_agent([fold(script.events)])
    assert {name: (use.n_llm_calls, use.n_tool_calls, use.input_tokens) for name, use in used.items()} == {
        "left": (1, 0, 100),
        "right": (1, 1, 100),
        "judge": (1, 0, 100),
        "publish": (0, 0, 0),
    }


def test_node_that_only_asks_counts_no_model_calls(script: Script) -> None:
    """A node that asks before the first model call is not credited with the calls of later nodes."""
    event_data = {"job_id": "main", "id": "req-1", "tool_call_id": "", "title": "Send it?", "params": {}}
    script.add("permission_request", "gate", "send", **event_data)
    begin(script, "writer")
    end(script, "writer", "Text.")
    used = usage_by_agent([fold(script.events)])
    assert {name: use.n_llm_calls for name, use in used.items()} == {"writer": 1, "gate": 0}


def test_text_approved_later_is_displayed_once(script: Script) -> None:
    """The text of another node is shown above the question about the text, and later once as the answer."""
    begin(script, "writer")
    end(script, "writer", "The draft.")
    ask(script)
    assert fold(script.events).lead_job.agents == ["writer", "publish"]
    waiting = html(fold(script.events))
    assert waiting.index("The draft.") < waiting.index("af-approval")
    script.add("permission_result", "publish", "publish", id="req-1", approved=True, decided_by="user")
    complete(script, "The draft.")
    assert html(fold(script.events)).count("The draft.") == 1


def test_answer_to_node_is_not_a_failure(script: Script) -> None:
    """The row shows the question and its answer; only a denial is marked as failed."""
    ask(script)
    assert announcement(fold(script.events)) == "publish asks: Publish it?"
    payload = {"id": "req-1", "approved": False, "decided_by": "user"}
    script.add("permission_result", "publish", "publish", **payload, decision="instructed", instruction="On Friday.")
    transcript = fold(script.events)
    assert transcript.tool_uses[0].status == "ok"
    shown = html(transcript)
    assert "Publish it?" in shown
    assert "answered: On Friday." in shown
    assert "Answered by user: On Friday." in shown
    script.events.pop()
    script.add("permission_result", "publish", "publish", **payload, decision="denied")
    assert fold(script.events).tool_uses[0].status == "failed"


def test_tool_with_helper_shows_parameters_and_agents(script: Script) -> None:
    """The row shows the tool, its parameters and its agents, and does not repeat an agent's text as result."""
    begin(script, "agent")
    end(script, "agent", "I ask.")
    event_data = {"job_id": "main", "tool_call_id": "tc-1"}
    script.add("tool_start", "agent", "ask_helper", **event_data, params={"question": "Paris?"})
    begin(script, "scout", "tc-1")
    end(script, "scout", "It rains.", "tc-1")
    script.add("tool_complete", "agent", "ask_helper", **event_data, success=True, duration_ms=9.0, metadata={})
    run = PlayedRun(script.events)
    for result, n in (("It rains.", 1), ("Rain: yes.", 1)):
        run.results["tc-1"] = result
        shown = html(fold(script.events), run)
        assert shown.count(result) == n
        assert '<span class="af-name">Ask helper</span> <span class="af-arg">Paris?</span>' in shown
        assert "scout · 0 tool calls" in shown
        assert "<p></p>" not in shown
    saved = saved_transcript(fold(script.events), RunRenderer(run), run.run_id)["text/html"]
    assert "Ask helper Paris?" in visible_text(saved)


def test_run_without_steps_has_no_fold(script: Script) -> None:
    """A run that has only an answer shows its agent in a line and has no empty fold."""
    begin(script, "writer")
    end(script, "writer", "Text.")
    complete(script, "Text.")
    shown = html(fold(script.events))
    assert "Text." in shown
    assert "<details" not in shown
    assert "Writer" in shown


def test_card_of_node_has_fields_for_values() -> None:
    """Without a signature the type of each value selects its field, and the card names the node once."""
    node = approval_card(question(), None, str)
    kinds = {field["name"]: field["kind"] for field in node.data["fields"]}
    assert kinds == {
        "to": "text", "copies": "integer", "cc": "list", "meta": "json", "urgent": "checkbox", "note": "json"
    }  # fmt: skip
    assert (node.data["answer"], node.data["answerField"], node.data["note"]) == ("Answer", "Your answer", "Note")
    assert node.html.count(">Publish<") == 1
    assert approval_card(question(params={}), None, str).data["fields"] == []


def test_decision_contains_edited_values_of_node() -> None:
    """Edited values keep their types, other values stay, and an invalid value is reported at its field."""
    payload = {"choice": "approve", "params": {"copies": "3", "cc": ["Eve", "Bob"], "urgent": True}}
    changed = {"copies": 3, "cc": ["Eve", "Bob"], "urgent": True}
    assert read_decision(payload, question(), None) == Decision(True, params=PARAMS | changed)
    assert read_decision({"choice": "approve", "params": {}}, question(), None) == Decision(True)
    with pytest.raises(FormError) as caught:
        read_decision({"choice": "approve", "params": {"copies": "many", "meta": "{"}}, question(), None)
    assert caught.value.fields.keys() == {"copies", "meta"}
    with pytest.raises(FormError, match="Say what you answer"):
        read_decision({"choice": "instruct", "note": ""}, question(), None)
