"""The home of a workbench over a real engine, with a simulated page."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.chat_endpoint import Answer, ChatServer, Request
from support.pages import ShownView
from support.replies import report

import artifactflow_nb as af
from artifactflow_nb.widgets.home.view import HomeView

SECRET = "sk-very-secret-0123456789"  # noqa: S105 - it opens nothing


@pytest.fixture
def wb(tmp_path: Path) -> Iterator[af.Workbench]:
    model = af.ScriptedModel([report(), "Done."], delay_s=0.01)
    with af.Workbench(model=model, data_dir=tmp_path, approvals={"create_artifact": "ask"}, interactive=True) as wb:
        yield wb


def shown(wb: af.Workbench) -> ShownView:
    return ShownView(wb._thread, HomeView(wb._thread))


def test_empty_home_says_what_to_do(wb: af.Workbench) -> None:
    """The home names the model, the sources and the buttons; empty sections are left out."""
    page = shown(wb)
    assert "scripted" in page.text
    assert "No conversations yet." in page.text
    assert {"New chat", "Connect a model"} <= set(page.buttons)
    assert "Waits for you" not in page.text
    assert "Workbench: scripted (scripted)" in page.view.saved_output()["text/plain"]


def test_request_is_decided_in_the_home(wb: af.Workbench) -> None:
    """The home has the card of a waiting run, and afterwards a row with its time, tokens and short id."""
    page = shown(wb)
    run = wb.ask("Write it.")
    page.until(lambda: "1 request waiting" in page.announced)
    page.until(lambda: "Waiting for you: Write it." in page.view.saved_output()["text/plain"])
    saved = page.view.saved_output()
    hint = saved["text/html"].index("wb.pending()")  # above the cards, which have no buttons without a kernel
    assert hint < saved["text/html"].index('<p class="af-approval-title"')
    assert "data-act" not in saved["text/html"]
    (data,) = [data for key, data in page.data.items() if page.kinds[key] == "approval"]
    click = {"request": data["request"], "choice": "approve", "note": "", "scope": "once"}
    assert not page.do("decide", click)["failed"]
    run.wait(10)
    page.until(lambda: "waits-title" not in page.kinds and "running-none" in page.kinds)
    assert f">{run.run_id[:12]}</code>" in page.html["run-table"]
    assert wb.run(run.run_id[:12]).run_id == run.run_id
    page.until(lambda: f"{run.metrics.total_tokens:,}" in page.html["run-table"])
    assert "scripted" in page.html["usage-table"]
    assert page.do("decide", {"request": data["request"], "choice": "deny"})["failed"]


def test_running_run_is_stopped_in_the_home(wb: af.Workbench) -> None:
    """The activity of the run is shown in words."""
    wb._thread.engine.model._delay_s = 0.2  # type: ignore[attr-defined]
    page = shown(wb)
    run = wb.ask("Write it.")
    page.until(lambda: "Writing “" in page.text)
    assert "data-stall" in page.html[f"{run.run_id}-line"]  # the page says when the reply stands still
    page.press("Stop this run")
    page.until(lambda: "running-none" in page.kinds)
    page.until(lambda: "cancelled" in page.html["run-table"])
    assert run.status == "cancelled"


def test_conversation_opens_as_a_chat(wb: af.Workbench) -> None:
    """The chat replaces the home, with all actions of a chat; the saved output remains the output of the home."""
    run = wb.ask("Write it.")
    page = shown(wb)
    page.until(lambda: "1 request waiting" in page.announced)
    page.press("Write it.")
    assert "composer" in page.kinds
    (data,) = [data for key, data in page.data.items() if page.kinds[key] == "approval"]
    page.do("decide", {"request": data["request"], "choice": "approve", "note": "", "scope": "once"})
    run.wait(10)
    page.until(lambda: "Done." in page.text)
    assert "Newest runs" in page.view.saved_output()["text/html"]
    page.press("‹ Workbench")
    assert "composer" not in page.kinds
    assert "Conversations" in page.text
    assert page.do("open", {"conversation": "conv-none"})["failed"]


def endpoint(request: Request) -> Answer:
    """Returns the list of models, and a reply."""
    if request.path.endswith("/models"):
        data = [{"id": name, "object": "model", "created": 0, "owned_by": "me"} for name in ("small", "large")]
        return Answer(raw=json.dumps({"object": "list", "data": data}).encode(), content_type="application/json")
    return Answer("ready", model=request.body["model"])


def test_model_is_connected_by_the_name_of_the_key(wb: af.Workbench, monkeypatch: pytest.MonkeyPatch) -> None:
    """The endpoint's models are listed and a model is tested, as in the offered code. A page never gets the key."""
    monkeypatch.setenv("MY_KEY", SECRET)
    page = shown(wb)
    page.press("Connect a model")
    with ChatServer(endpoint) as server:
        listed = page.submit("list_models", address=server.base_url, key_name="MY_KEY")
        assert listed["message"] == "The endpoint has 2 models."
        assert page.data["test-form"]["fields"][0]["choices"] == ["large", "small"]
        tested = page.submit("test_model", model="small")
        assert tested["message"].startswith("small answered in ")
        assert "keeps its model until you run the code below" in tested["message"]
        assert "scripted (scripted) · in use until the code below has run" in page.html["title"]
        assert [request.headers["authorization"] for request in server.requests] == [f"Bearer {SECRET}"] * 2
    assert not page.submit("add_connection")["failed"]
    code = page.effects[-1]["source"]
    assert code.endswith(
        f"(\n    base_url={server.base_url!r},\n    model='small',\n    api_key=os.environ['MY_KEY'],\n)"
    )
    assert SECRET not in f"{page.html}{page.data}{page.effects}{page.view.saved_output()}"


def test_key_that_is_typed_is_refused_and_not_repeated(wb: af.Workbench) -> None:
    """The error asks for the name of a variable; it tells an unknown variable from an endpoint without a list."""
    page = shown(wb)
    page.press("Connect a model")
    refused = page.submit("list_models", address="http://127.0.0.1:1/v1", key_name=SECRET)
    assert "name of an environment variable" in refused["errors"]["key_name"]
    assert SECRET not in f"{refused}{page.html}{page.data}"
    unset = page.submit("list_models", address="http://127.0.0.1:1/v1", key_name="NO_SUCH_KEY")
    assert "No environment variable of this name is set" in unset["errors"]["key_name"]
    with ChatServer([Answer(status=404, error="no such path"), Answer("ready")]) as server:
        assert "404" in page.submit("list_models", address=server.base_url, key_name="")["message"]
        assert page.submit("test_model", model="mine")["message"].startswith("mine answered in ")


def test_home_says_what_runs_search(wb: af.Workbench, tmp_path: Path) -> None:
    """Runs search all indexed folders; once the notebook has chosen folders, the home names the other folders, too."""
    page = shown(wb)
    assert "Runs search the language reference of Python, because no files of yours are indexed." in page.text
    for name in ("papers", "rules"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "page.md").write_text("# Terns\n\nTerns nest on the roof.\n", encoding="utf-8")
    with af.Workbench(data_dir=tmp_path, interactive=False) as other:
        other.sources.add(tmp_path / "papers")
    page.until(lambda: "Runs search “papers” (1 file)." in page.text)
    wb.sources.add(tmp_path / "rules")
    page.until(lambda: "Runs search “rules” (1 file)." in page.text)
    assert "Not searched, because this notebook chose its sources: “papers” (1 file)." in page.text
    assert "wb.sources.add(folder) adds your own files." in page.text


def test_saved_home_has_no_questions_of_others(wb: af.Workbench, tmp_path: Path) -> None:
    """A notebook may be sent to others, so it only counts the runs of other notebooks; a page shows all runs."""
    with af.Workbench(
        model=af.ScriptedModel([report(), "Done."]),
        data_dir=tmp_path,
        interactive=True,
        approvals={"create_artifact": "ask"},
    ) as other:
        other.ask("A private question.")
        page = shown(wb)
        page.until(lambda: "1 request waiting" in page.announced)
        own = wb.ask("A question of this notebook.")
        page.until(lambda: "2 requests waiting" in page.announced)
        assert "A private question." in page.text
        saved = "".join(page.view.saved_output().values())
        assert "A private question." not in saved
        assert "1 run of other notebooks or kernels." in saved
        assert "A question of this notebook." in saved
        own.cancel().wait()


def test_home_lists_more_conversations_on_demand(tmp_path: Path) -> None:
    """The home lists five conversations, and a button lists more."""
    with af.Workbench(model=af.ScriptedModel(["Yes."] * 7), data_dir=tmp_path, interactive=True) as wb:
        for number in range(7):
            wb.ask(f"Question {number}?").wait()
        page = shown(wb)
        assert "Question 2?" in page.html["list"]
        assert "Question 1?" not in page.html["list"]
        page.press("Show more")
        page.until(lambda: "Question 0?" in page.html["list"])
        assert "Show more" not in page.buttons
        page.submit("search", words="question 3")
        assert page.html["list"].count("<li>") == 1
        assert "Question 3?" in page.html["list"]
