"""The endpoints: forms, status codes, and requests that are refused without an effect."""

import importlib.util
import json
import re
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus
from pathlib import Path
from typing import Any

import httpx
import pytest
from server.conftest import Serve
from support.frames import all_frames
from support.gated_model import GatedModel
from support.http_server import Client
from support.replies import call, report

from artifactflow_nb.notebook.workbench import Workbench
from artifactflow_nb.server.access import Access
from artifactflow_nb.server.app import API_PREFIX

REWRITE = call("rewrite_artifact", id="research_report", content="Another.")


def finished(client: Client, content: str, **body: Any) -> dict[str, Any]:
    run = client.ask(content, **body)
    list(client.events(run["thread_id"]))
    return run


def rows(client: Client) -> list[list[dict[str, Any]]]:
    """Everything that a request may change."""
    return [client.get(f"/frames/{name}").json()["rows"] for name in ("messages", "approvals", "artifacts", "runs")]


# --- endpoints -------------------------------------------------------------------------------------------------------


def test_post_chat_returns_the_ids_at_once(serve: Serve) -> None:
    """The answer does not wait for the model, and the run needs no reader."""
    model = GatedModel(["At nine."])
    client = serve(model=model)
    answer = client.post("/chat", content="When?")
    assert answer.status_code == 202
    run = answer.json()
    assert set(run) == {"thread_id", "conversation_id", "message_id", "run_id", "stream_url"}
    assert run["stream_url"] == f"{API_PREFIX}/stream/{run['thread_id']}"
    assert client.get(f"/runs/{run['thread_id']}").json()["status"] == "running"
    model.gate.set()
    list(client.events(run["run_id"]))
    assert client.get(f"/runs/{run['thread_id']}").json()["response"] == "At nine."


def test_conversations_are_listed_read_continued_and_deleted(serve: Serve) -> None:
    client = serve(["One.", "Two.", "Three."])
    first = finished(client, "First question?")
    second = finished(client, "Second?", conversation_id=first["conversation_id"])
    root = finished(client, "Other root?", conversation_id=first["conversation_id"], parent_message_id="root")
    [listed] = client.get("/chat").json()["conversations"]
    assert (listed["title"], listed["n_messages"], listed["n_branches"]) == ("First question?", 3, 2)
    assert client.get("/chat", params={"search": "nowhere"}).json() == {"conversations": []}
    messages = client.get(f"/chat/{first['conversation_id']}").json()["messages"]
    assert [(each["message_id"], each["parent_id"], each["response"]) for each in messages] == [
        (first["message_id"], None, "One."),
        (second["message_id"], first["message_id"], "Two."),
        (root["message_id"], None, "Three."),
    ]
    assert client.http.delete(f"/chat/{first['conversation_id']}").status_code == 204
    assert client.get(f"/chat/{first['conversation_id']}").status_code == 404


def test_parent_null_continues_the_active_branch(serve: Serve) -> None:
    """Clients send null for a field without a value; only `root` begins another branch."""
    client = serve(["One.", "Two."])
    first = finished(client, "First question?")
    second = finished(client, "Second?", conversation_id=first["conversation_id"], parent_message_id=None)
    messages = client.get(f"/chat/{first['conversation_id']}").json()["messages"]
    assert messages[1]["parent_id"] == first["message_id"]
    assert messages[1]["message_id"] == second["message_id"]


def test_project_is_made_asked_and_advanced(serve: Serve) -> None:
    client = serve(["It has two phases."])
    template = {"name": "short", "phases": ["plan", "write"], "blocks": [{"name": "Aim", "phase": "plan"}]}
    project = client.post("/projects", name="Essay", template=template).json()
    assert (project["phase"], project["phases"]) == ("plan", ["plan", "write"])
    assert [(block["path"], block["status"]) for block in project["blocks"]] == [("Aim", "empty")]
    assert client.post("/projects", name="Essay").json() == project
    question = finished(client, "How long is it?", conversation_id=project["conversation_id"], flow="compose")
    assert question["conversation_id"] == project["conversation_id"]
    assert client.get(f"/runs/{question['thread_id']}").json()["response"] == "It has two phases."
    assert client.get("/frames/runs").json()["rows"][0]["flow"] == "compose"
    change = client.post("/projects/Essay/advance").json()
    assert (change["before"], change["after"], list(change["open"])) == ("plan", "write", ["Aim"])
    assert client.post("/projects/Essay/advance").status_code == 400
    assert client.post("/projects/Essay/advance", phase="plan").json()["after"] == "plan"
    assert client.get("/projects").json() == {"projects": ["Essay"]}


def test_template_of_a_project_is_no_file_of_the_server(serve: Serve, tmp_path: Path) -> None:
    (tmp_path / "secret.yaml").write_text("token: a-secret")
    answer = serve().post("/projects", name="Essay", template=str(tmp_path / "secret.yaml"))
    assert answer.status_code == 400
    assert "a-secret" not in answer.text


def test_change_of_an_unknown_project_is_refused(serve: Serve) -> None:
    client = serve()
    answer = client.post("/projects/None/advance")
    assert (answer.status_code, "POST /projects" in answer.json()["message"]) == (404, True)
    assert rows(client) == [[], [], [], []]


def test_messages_name_requests_of_the_interface(serve: Serve) -> None:
    """A program cannot call the functions of a notebook."""
    client = serve(["One."])
    run = finished(client, "Why?")
    decision = {"thread_id": run["thread_id"], "decisions": {"req-none": {"approved": True}}}
    answers = [
        client.post("/plan/approve", **decision),
        client.get("/runs/run-none"),
        client.post("/chat", content="Write.", flow="compose"),
        client.get("/frames/runs", params={"run": "run-none"}),
    ]
    for answer in answers:
        assert answer.status_code >= 400
        assert not re.search(r"\b(wb|run)\.", answer.json()["message"]), answer.text


@pytest.mark.parametrize(
    "message", [{"type": "act", "act": []}, {"type": []}, {"act": {}}, {}, {"type": "act"}], ids=str
)
@pytest.mark.parametrize("read_only", [False, True])
def test_malformed_message_to_a_view_is_no_error_of_the_server(
    serve: Serve, message: dict[str, Any], read_only: bool
) -> None:
    client = serve(read_only=read_only)
    with connected(client) as connection:
        assert client.post(connection, view="a", message={"type": "open", "name": "chat"}).status_code == 204
        assert client.post(connection, view="a", message=message).status_code in {204, 403}


@contextmanager
def connected(client: Client) -> Iterator[str]:
    """Connect a page, and give the path for messages to its views."""
    with client.http.stream("GET", "/views") as events:
        lines = events.iter_lines()  # the views are closed with the iterator
        first = next(line for line in lines if line.startswith("data:"))
        yield f"/views/{json.loads(first.removeprefix('data:'))['connection']}"


def test_views_of_a_page_are_opened_and_closed_one_by_one(serve: Serve) -> None:
    client = serve()

    def post(view: str, **message: Any) -> int:
        return client.post(connection, view=view, message=message).status_code

    with connected(client) as connection:
        assert post("a", type="hello") == HTTPStatus.NOT_FOUND
        assert post("a", type="open", name="nothing") == HTTPStatus.NOT_FOUND
        assert post("a", type="open", name="artifacts", conversation="conv-none") == HTTPStatus.NOT_FOUND
        assert [post(name, type="open", name=name) for name in ("chat", "approvals")] == [204, 204]
        assert post("chat", type="close") == HTTPStatus.NO_CONTENT
        assert [post(name, type="hello") for name in ("chat", "approvals")] == [404, 204]
        with Client(client.base_url, {}) as other, connected(other) as second:
            assert second != connection
    deadline = time.monotonic() + 20
    while post("approvals", type="hello") != HTTPStatus.NOT_FOUND:  # the server learns that the page has left
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_server_that_is_no_jupyter_server_takes_no_files(serve: Serve, tmp_path: Path) -> None:
    (tmp_path / "notes.md").write_text("# Notes\n\nThe ferry leaves at nine.\n")
    client = serve()
    answer = client.http.post("/sources", json={"path": str(tmp_path / "notes.md")})
    assert answer.status_code == HTTPStatus.BAD_REQUEST
    assert answer.json()["message"] == "Files cannot be added here. The person who runs the server adds sources."


def test_question_is_asked_again_on_a_branch(serve: Serve) -> None:
    client = serve(["One.", "Two.", "Three."])
    first = finished(client, "Question?")
    path = f"/chat/{first['conversation_id']}/retry"
    again = client.post(path, message_id=first["message_id"]).json()
    list(client.events(again["thread_id"]))
    edited = client.post(path, content="Another?").json()
    list(client.events(edited["thread_id"]))
    messages = client.get(f"/chat/{first['conversation_id']}").json()["messages"]
    assert [each["content"] for each in messages] == ["Question?", "Question?", "Another?"]
    assert {each["parent_id"] for each in messages} == {None}
    assert client.post(path, message_id="msg-none").status_code == 404


def test_artifacts_and_their_versions_are_read(serve: Serve) -> None:
    client = serve([report(), "Written.", REWRITE, "Changed."], options={"approvals": "approve"})
    first = finished(client, "Write.")
    finished(client, "Change it.", conversation_id=first["conversation_id"])
    base = f"/artifacts/{first['conversation_id']}"
    [listed] = client.get(base).json()["artifacts"]
    assert (listed["artifact_id"], listed["version"], "content" in listed) == ("research_report", 2, False)
    assert client.get(f"{base}/research_report").json()["content"] == "Another."
    before = client.get(f"{base}/research_report", params={"message_id": first["message_id"]}).json()
    assert before["content"] == "The report."
    versions = client.get(f"{base}/research_report/versions").json()["versions"]
    assert [each["version"] for each in versions] == [1, 2]
    assert client.get(f"{base}/research_report/versions/1").json()["content"] == "The report."
    for missing in ("nothing", "nothing/versions", "research_report/versions/9"):
        assert client.get(f"{base}/{missing}").status_code == 404, missing


def test_frames_are_read_as_json(serve: Serve) -> None:
    client = serve(["One.", "Two."])
    first = finished(client, "First?")
    finished(client, "Second?")
    for name in (frame.name for frame in all_frames()):
        assert client.get(f"/frames/{name}").status_code == 200, name
    assert [row["question"] for row in client.get("/frames/runs").json()["rows"]] == ["First?", "Second?"]
    [row] = client.get("/frames/runs", params={"run": first["run_id"], "columns": "question"}).json()["rows"]
    assert row["question"] == "First?"
    assert client.get("/frames/runs", params={"columns": "qestion"}).status_code == 400
    assert client.get("/frames/secrets").status_code == 404


ARROW = {"Accept": "application/vnd.apache.arrow.stream"}
HAS_ARROW = importlib.util.find_spec("pyarrow") is not None


@pytest.mark.skipif(HAS_ARROW, reason="the environment with pyarrow runs the next test")
def test_frame_as_arrow_needs_pyarrow(serve: Serve) -> None:
    client = serve(["One."])
    finished(client, "First?")
    answer = client.get("/frames/runs", headers=ARROW)
    assert answer.status_code == 406
    assert "pip install pyarrow" in answer.json()["message"]


@pytest.mark.skipif(not HAS_ARROW, reason="make test runs it in an environment with pyarrow")
def test_frames_are_read_as_arrow(serve: Serve) -> None:
    """Every frame has the same rows and columns in Arrow as in JSON."""
    import pyarrow as pa

    client = serve([[call("web_search", query="x"), call("web_search", query=1)], "One."])
    finished(client, "First?")
    for name in (frame.name for frame in all_frames()):
        answer = client.get(f"/frames/{name}", headers=ARROW)
        assert answer.status_code == 200, (name, answer.text)
        table = pa.ipc.open_stream(answer.content).read_all()
        rows = client.get(f"/frames/{name}").json()["rows"]
        assert table.num_rows == len(rows), name
        assert all(set(row) == set(table.column_names) for row in rows), name


def test_run_is_cancelled(serve: Serve) -> None:
    client = serve(model=GatedModel(["never"]))
    run = client.ask("When?")
    assert client.post(f"/runs/{run['thread_id']}/cancel").json()["status"] == "cancelled"
    assert client.post(f"/runs/{run['thread_id']}/cancel").status_code == 409


def test_description_lists_every_route_and_its_body(serve: Serve) -> None:
    client = serve()
    document = client.get("/openapi.json").json()
    assert document["openapi"] == "3.1.0"
    assert set(document["paths"]["/chat"]) == {"get", "post"}
    assert set(document["components"]["schemas"]["ChatBody"]["properties"]) >= {"content", "flow", "budget"}
    identifiers = [each["operationId"] for path in document["paths"].values() for each in path.values()]
    assert len(set(identifiers)) == len(identifiers)
    references = [part.split('"')[0] for part in json.dumps(document).split('"$ref": "#/components/schemas/')[1:]]
    assert set(references) <= set(document["components"]["schemas"])


# --- decisions -------------------------------------------------------------------------------------------------------


def waiting(client: Client) -> tuple[dict[str, Any], dict[str, Any]]:
    """A run that waits for the approval of a change, and its request."""
    first = finished(client, "Write.")
    run = finished(client, "Change it.", conversation_id=first["conversation_id"])
    [request] = client.get("/pending").json()["requests"]
    assert request["run_id"] == run["run_id"]
    return run, request


@pytest.mark.parametrize("path", ["/chat/{conversation_id}/resume", "/plan/approve", "/compose/approve"])
def test_decision_is_stored_with_the_name_of_the_user(serve: Serve, path: str) -> None:
    access = Access({"ana": "token-of-ana", "ben": "token-of-ben"})
    server = serve([report(), "Written.", REWRITE, "Changed."], access=access)
    with Client(server.base_url, {"Authorization": "Bearer token-of-ana"}) as client:
        run, request = waiting(client)
        decisions = {request["id"]: {"approved": True, "params": {"id": "research_report", "content": "Edited."}}}
        address = path.format(**run)
        answer = client.post(address, thread_id=run["thread_id"], message_id=run["message_id"], decisions=decisions)
        assert answer.status_code == 202, answer.text
        list(client.events(run["thread_id"]))
        artifact = client.get(f"/artifacts/{run['conversation_id']}/research_report").json()
        assert artifact["content"] == "Edited."
        [row] = client.get("/frames/approvals").json()["rows"]
        assert row["decided_by"] == "http:ana"
    with Client(server.base_url, {"Authorization": "Bearer token-of-ben"}) as other:
        again = other.post(address, thread_id=run["thread_id"], decisions={request["id"]: {"approved": False}})
        assert again.status_code == 409
        [decided] = again.json()["decided"].values()
        assert decided["decision"] == "edited"
        assert decided["decided_by"] == "http:ana"
        assert decided["decided_at"] > "2026"
        assert "by http:ana at 20" in again.json()["message"]


def test_question_to_the_person_is_answered_over_http(serve: Serve) -> None:
    """A question with choices refuses an approval, and its answer continues the run; `never` asks nothing."""
    question = call("ask_person", question="City or state?", choices=["City", "State"])
    client = serve([question, "The state's.", "Assumed."])
    run = finished(client, "GDP of New York?")
    [request] = client.get("/pending").json()["requests"]
    assert (request["kind"], request["params"]["choices"]) == ("question", ["City", "State"])
    address = f"/chat/{run['conversation_id']}/resume"
    refused = client.post(address, thread_id=run["thread_id"], approved=True)
    assert refused.status_code == 400
    assert "is a question, which cannot be approved" in refused.json()["message"]
    answer = {"approved": False, "instruction": "State", "replaces_call": True}
    assert client.post(address, thread_id=run["thread_id"], decisions={request["id"]: answer}).status_code == 202
    assert "The state's." in str(list(client.events(run["thread_id"])))
    again = finished(client, "GDP?", clarify="never")
    assert client.get(f"/runs/{again['thread_id']}").json()["response"] == "Assumed."


def test_decision_on_a_foreign_run_changes_nothing(serve: Serve) -> None:
    client = serve([report(), "Written.", REWRITE, "Changed.", "Other."])
    run, request = waiting(client)
    other = finished(client, "Other?")
    before = rows(client)
    own, foreign = f"/chat/{run['conversation_id']}/resume", f"/chat/{other['conversation_id']}/resume"
    yes = {request["id"]: {"approved": True}}
    for path, body in (
        (own, {"thread_id": other["thread_id"], "decisions": yes}),
        (foreign, {"thread_id": other["thread_id"], "decisions": yes}),
        (foreign, {"thread_id": run["thread_id"], "approved": True}),
        (own, {"thread_id": run["thread_id"], "message_id": other["message_id"], "approved": True}),
        (own, {"thread_id": "thd-none", "approved": True}),
        (own, {"thread_id": run["thread_id"], "decisions": {"apr-none": {"approved": True}}}),
    ):
        assert client.post(path, **body).status_code == 404, body
    for body in (
        {"thread_id": run["thread_id"]},
        {"thread_id": run["thread_id"], "approved": True, "decisions": yes},
        {"thread_id": run["thread_id"], "approved": "yes"},
        {"thread_id": run["thread_id"], "decisions": {request["id"]: {"approved": True, "decided_by": "policy"}}},
        {"thread_id": run["thread_id"], "decisions": {request["id"]: {"approved": False, "params": {}}}},
        {"thread_id": run["thread_id"], "decisions": {request["id"]: {"approved": True, "scope": "always"}}},
        {"thread_id": run["thread_id"], "decisions": {request["id"]: {"approved": True, "params": {"x": 1}}}},
    ):
        assert client.post(own, **body).status_code == 400, body
    assert rows(client) == before


# --- budgets ---------------------------------------------------------------------------------------------------------


def test_client_may_lower_the_budget_of_the_server_and_never_raise_it(serve: Serve) -> None:
    client = serve([report(), "Not reached."], budget={"tokens": 50_000, "seconds": 60})
    low = finished(client, "Low?", budget={"tokens": 100})
    retry = client.post(
        f"/chat/{low['conversation_id']}/retry", message_id=low["message_id"], budget={"tokens": 60_000}
    )
    assert retry.status_code == 400
    for budget in (
        {"tokens": 50_001},
        {"tokens": None},
        {"seconds": 61},
        {"when_spent": "ask"},
        {"tokens": -1},
        {"x": 1},
    ):
        answer = client.post("/chat", content="More?", budget=budget)
        assert answer.status_code == 400, budget
    assert client.get(f"/runs/{low['thread_id']}").json()["error_type"] == "BudgetExceeded"
    assert len(client.get("/frames/runs").json()["rows"]) == 1


def test_extension_of_a_budget_may_be_lowered_and_not_raised(serve: Serve) -> None:
    client = serve([report(), "Done."], budget={"tokens": 10, "when_spent": "ask"})
    run = finished(client, "Write.")
    [request] = client.get("/pending").json()["requests"]
    path, limit = f"/chat/{run['conversation_id']}/resume", request["params"]["tokens"]
    higher = {request["id"]: {"approved": True, "params": {**request["params"], "tokens": limit + 1}}}
    answer = client.post(path, thread_id=run["thread_id"], decisions=higher)
    assert (answer.status_code, "lowered, not raised" in answer.json()["message"]) == (400, True)
    equal = {request["id"]: {"approved": True, "params": {**request["params"], "tokens": limit}}}
    assert client.post(path, thread_id=run["thread_id"], decisions=equal).status_code == 202


# --- requests that are refused ---------------------------------------------------------------------------------------


def raw(client: Client, request: bytes) -> bytes:
    """Send bytes that no client library would, and return the first line of the answer."""
    address = httpx.URL(client.base_url)
    with socket.create_connection((address.host, address.port or 80), timeout=10) as connection:
        connection.sendall(request)
        return connection.recv(4096).split(b"\r\n")[0]


def test_hostile_requests_get_4xx_and_change_nothing(serve: Serve) -> None:
    client = serve(["One.", "Two."])
    run = finished(client, "First?")
    before = rows(client)
    post, stream = client.http.post, f"/stream/{run['thread_id']}"
    deep = b'{"content": "x", "budget": ' + b'{"a":' * 5000 + b"1" + b"}" * 5001
    origin = {"Origin": "https://other.example"}
    answers = {
        "huge body": post("/chat", json={"content": "x" * 1_000_001}),
        "huge body without a length": post("/chat", content=(b"x" * 65536 for _ in range(40))),
        "bad JSON": post("/chat", content=b'{"content": ', headers={"Content-Type": "application/json"}),
        "no object": post("/chat", json=["content"]),
        "number": post("/chat", json={"content": 1}),
        "half of a character": post(
            "/chat", content=b'{"content": "\\ud800"}', headers={"Content-Type": "application/json"}
        ),
        "no UTF-8": post("/chat", content=b'{"content": "\xff"}', headers={"Content-Type": "application/json"}),
        "deep": post("/chat", content=deep, headers={"Content-Type": "application/json"}),
        "empty": post("/chat", json={"content": "  "}),
        "flow": post("/chat", json={"content": "x", "flow": "../plan"}),
        "form": post("/chat", content=b'{"content": "x"}', headers={"Content-Type": "text/plain"}),
        "conversation": post("/chat", json={"content": "x", "conversation_id": "../../etc/passwd"}),
        "parent": post(
            "/chat", json={"content": "x", "conversation_id": run["conversation_id"], "parent_message_id": "x"}
        ),
        "origin": post("/chat", json={"content": "x"}, headers=origin),
        "origin of a file": post("/chat", json={"content": "x"}, headers={"Origin": "null"}),
        "origin of a reader": client.get(stream, headers=origin),
        "host": client.get("/chat", headers={"Host": "other.example"}),
        "last id with a line break": client.get(stream, headers={"Last-Event-ID": "1%0d%0aid: 2"}),
        "last id as text": client.get(stream, headers={"Last-Event-ID": "one"}),
        "last id below zero": client.get(stream, headers={"Last-Event-ID": "-1"}),
        "huge last id": client.get(stream, params={"from": "9" * 30}),
        "traversal in a thread": client.get("/stream/..%2f..%2fstore.db"),
        "traversal in a page": httpx.get(f"{client.base_url}/artifactflow/..%2f..%2fstore.db"),
        "traversal in an artifact": client.get(f"/artifacts/{run['conversation_id']}/..%2f..%2fstore.db"),
        "traversal in a frame": client.get("/frames/..%2fruns"),
        "private method as a frame": client.get("/frames/_load"),
        "zero byte": client.get("/chat/conv-%00"),
        "limit": client.get("/chat", params={"limit": "1000000"}),
        "offset": client.get("/chat", params={"offset": "-1"}),
        "closed connection": post("/views/page-none", json={"view": "a", "message": {"type": "hello"}}),
        "method": client.http.request("PUT", "/chat"),
        "deletion": client.http.delete("/chat/conv-none"),
    }
    assert {name: answer.status_code for name, answer in answers.items() if not 400 <= answer.status_code < 500} == {}
    assert answers["huge body"].status_code == 413
    assert answers["origin"].status_code == 403
    assert not any("Access-Control-Allow-Origin" in answer.headers for answer in answers.values())
    line = raw(
        client, f"GET {API_PREFIX}{stream} HTTP/1.1\r\nHost: 127.0.0.1\r\nLast-Event-ID: 1\r\n\r2\r\n\r\n".encode()
    )
    assert line.startswith(b"HTTP/1.1 4")
    assert rows(client) == before


def test_read_only_server_shows_and_changes_nothing(serve: Serve, tmp_path: Path) -> None:
    writer = serve([report(), "Written.", REWRITE, "Changed."])
    run, _ = waiting(writer)
    reader = serve(read_only=True)
    before = rows(writer)
    path = f"/chat/{run['conversation_id']}"
    for answer in (
        reader.post("/chat", content="Why?"),
        reader.post(f"{path}/retry"),
        reader.http.post(f"{path}/retry", json={}),
        reader.post(f"{path}/resume", thread_id=run["thread_id"], approved=True),
        reader.post(f"/runs/{run['thread_id']}/cancel"),
        reader.http.delete(path),
    ):
        assert (answer.status_code, answer.json()["error"]) == (403, "ReadOnly")
    assert reader.get(path).status_code == 200
    assert list(reader.events(run["thread_id"]))[-1].data["interrupted"] is True
    assert rows(writer) == before


def test_error_of_a_question_names_the_known_fields(serve: Serve) -> None:
    answer = serve().post("/chat", content="Why?", modle="x")
    assert answer.json()["message"].startswith("modle: Extra inputs are not permitted. Fields: content, ")


def test_runs_search_the_sources_that_the_store_holds(serve: Serve, tmp_path: Path) -> None:
    """A notebook indexes sources before and after the start of the server."""
    for name in ("notes", "rules"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "page.md").write_text(f"# {name}\n\nTerns nest on the roof.\n", encoding="utf-8")
    with Workbench(data_dir=tmp_path / "data", interactive=False) as wb:
        wb.sources.add(tmp_path / "notes")
        client = serve(["One.", "Two."])
        first = finished(client, "Where do terns nest?")
        wb.sources.add(tmp_path / "rules")
        second = finished(client, "And the rules?")
        assert wb.run(first["run_id"]).settings["sources"] == ["notes/"]
        assert wb.run(second["run_id"]).settings["sources"] == ["notes/", "rules/"]
