"""Questions, events and decisions over HTTP."""

from server.conftest import Serve

import artifactflow_nb as af


def write_note() -> list[object]:
    return [
        af.ToolCall("create_artifact", {"id": "note", "title": "Note", "content": "One."}),
        "Written.",
        af.ToolCall("rewrite_artifact", {"id": "note", "content": "Two."}),
        "Rewritten.",
    ]


def test_question_is_answered_and_its_events_are_streamed(serve: Serve) -> None:
    """POST /chat returns at once; the stream has everything from the first event to the end of the run."""
    client = serve(["The answer."])
    run = client.ask("Why?")
    events = list(client.events(run["thread_id"]))
    assert events[0].event == "metadata"
    assert events[-1].event == "complete"
    assert events[-1].data["response"] == "The answer."
    assert client.get(f"/runs/{run['thread_id']}").json()["status"] == "completed"


def test_run_waits_and_continues_after_an_approval(serve: Serve) -> None:
    client = serve(write_note(), options={"approvals": "ask"})
    first = client.ask("Write a note.")
    list(client.events(first["thread_id"]))
    second = client.ask("Again.", conversation_id=first["conversation_id"])
    events = list(client.events(second["thread_id"]))
    assert events[-1].data["interrupted"] is True
    answer = client.post(f"/chat/{second['conversation_id']}/resume", thread_id=second["thread_id"], approved=True)
    assert answer.status_code == 202, answer.text
    rest = list(client.events(second["thread_id"], last=events[-1].id))
    assert rest[0].event == "permission_result"
    assert rest[0].data["decided_by"].startswith("http:")
    assert rest[-1].data["response"] == "Rewritten."
    again = client.post(f"/chat/{second['conversation_id']}/resume", thread_id=second["thread_id"], approved=False)
    assert again.status_code == 409
    [decided] = again.json()["decided"].values()
    assert decided["decision"] == "approved"
    assert decided["decided_by"] == rest[0].data["decided_by"]
