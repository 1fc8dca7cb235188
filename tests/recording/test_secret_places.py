"""Secrets in every place of a real run: no file or message contains them, and a replay does not depend on them."""

import logging
import sqlite3
import zipfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from support.recorded_scenes import open_scene, step_of
from support.replies import call, delegate, report, requesting_agent

import artifactflow_nb as af
from artifactflow_nb.core.approvals import Decision
from artifactflow_nb.errors import CassetteMiss, ModelUnavailable, ToolError
from artifactflow_nb.models.base import ModelRequest
from artifactflow_nb.models.scripted import ScriptedModel

WAIT_S = 30
KNOWN = "plain.opaque.value.of.letters"
"""It has no form of its own; only a variable of the environment makes it a secret."""

SHOWN = {
    "question": "sk-question0123456789",
    "instruction": "ghp_instruction0123456789",
    "param": "glpat-param0123456789abc",
    "password": "of-a-param",
    "header": "opaque-header-9",
    "address": "ada:address1815",
    "query": "query-secret-1",
    "report": "correct-horse-report",
    "reply": "xoxb-0123456789-reply",
    "decision": "hf_decision0123456789",
    "edited": "npm_edited0123456789edited0123456789",
    "error": "AIzaError0123456789error012",
    "package": "pypi-AgEpackage0123456789abc",
    "setting": "tvly-setting0123456789",
}
"""Secrets of known forms, by where they are."""


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MY_SERVICE_TOKEN", raising=False)


def script(request: ModelRequest) -> Any:
    """Secrets in replies, parameters, addresses and a report."""
    step = step_of(request)
    if requesting_agent(request) != "lead":
        fetch = call("look", url=f"https://{SHOWN['address']}@h.example/?api_key={SHOWN['query']}", note=f"({KNOWN})")
        return [f"Asking with {SHOWN['reply']} and {KNOWN}. {fetch}", "Found."][min(step, 1)]
    text = f"# Found\n\npassword: {SHOWN['report']}\n\nSee https://h.example/{KNOWN}/x."
    turns = [
        delegate("search_agent", f"Use {SHOWN['instruction']} of {KNOWN}."),
        report(text),
        call("update_artifact", id="research_report", old_str="Found", new_str=f"Seen {KNOWN}"),
        call("read_artifact", id="research_report"),
        call("fail", api_key=SHOWN["param"], password=SHOWN["password"], note=f"x={KNOWN}&y"),
        f"Done with {KNOWN}, {SHOWN['reply']}.",
    ]
    return turns[min(step, len(turns) - 1)]


@af.tool()
def look(ctx: af.ToolContext, url: str, note: str) -> str:
    """Look up an address, and return the headers."""
    return f"{url} {note}\nAuthorization: Bearer {SHOWN['header']}\n{SHOWN['package']}==1.0"


@af.tool()
def fail(ctx: af.ToolContext, api_key: str, password: str, note: str) -> str:
    """Fail with the text."""
    message = f"refused {api_key} and {note}: {SHOWN['error']}"
    raise ToolError(message)


def with_tools(wb: af.Workbench) -> None:
    wb.tool(look, agent="search_agent")
    wb.tool(fail, agent="lead_agent")


def run_with_secrets(wb: af.Workbench) -> af.Run:
    """A run with decisions and edits by a person."""
    run = wb.ask(f"What is {SHOWN['question']}, and {KNOWN}?").wait(WAIT_S)
    assert run.pending, run.error
    params = {**run.pending[0].params, "title": f"Edited {SHOWN['edited']} {KNOWN}"}
    decision = Decision(approved=True, instruction=f"Use {SHOWN['decision']}, not {KNOWN}.", params=params)
    wb._thread.call(wb._thread.engine.controller.decide(run.pending[0].id, decision))
    run.wait(WAIT_S)
    assert run.status == "completed", run.error
    run.artifacts["research_report"].edit(f"By hand: {KNOWN} {SHOWN['question']}")
    last = wb.ask(f"And {KNOWN}?", conversation_id=run).wait(WAIT_S)
    if last.pending:
        last.approve().wait(WAIT_S)
    assert last.status == "completed", last.error
    return last


def open_workbench(folder: Path, **options: Any) -> af.Workbench:
    policy = {"create_artifact": "ask"}
    return open_scene(folder, setup=with_tools, approvals=policy, tavily_key=SHOWN["setting"], **options)


def contents(path: Path) -> Iterator[bytes]:
    """The bytes of a file, and of the members of a zip file."""
    yield path.read_bytes()
    if zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as file:
            yield from (file.read(name) for name in file.namelist())


@pytest.mark.parametrize(("known_then", "known_now"), [(True, False), (False, True), (True, True)])
def test_replay_does_not_depend_on_the_secrets_of_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, known_then: bool, known_now: bool
) -> None:
    """A run that was recorded with a secret in the environment replays without the secret, and the reverse."""
    cassette = tmp_path / "c.jsonl"
    if known_then:
        monkeypatch.setenv("MY_SERVICE_TOKEN", KNOWN)
    with open_workbench(tmp_path, model=ScriptedModel(script), record=cassette) as wb:
        run_with_secrets(wb)
    assert (KNOWN.encode() in cassette.read_bytes()) is not known_then
    monkeypatch.delenv("MY_SERVICE_TOKEN", raising=False)
    if known_now:
        monkeypatch.setenv("MY_SERVICE_TOKEN", KNOWN)
    with open_workbench(tmp_path, replay=cassette) as wb:
        run_with_secrets(wb)


@pytest.mark.parametrize(("known_then", "known_now"), [(True, False), (False, True), (True, True)])
def test_verification_does_not_depend_on_the_secrets_of_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, known_then: bool, known_now: bool
) -> None:
    """A sealed run comes out the same with a secret in the environment and without."""
    if known_then:
        monkeypatch.setenv("MY_SERVICE_TOKEN", KNOWN)
    with open_workbench(tmp_path, model=ScriptedModel(script), record=tmp_path / "c.jsonl") as wb:
        sealed = run_with_secrets(wb).seal(tmp_path / "x.afrun")
    monkeypatch.delenv("MY_SERVICE_TOKEN", raising=False)
    if known_now:
        monkeypatch.setenv("MY_SERVICE_TOKEN", KNOWN)
    with af.open_run(sealed) as run:
        assert run.verify(tools=[look, fail]).differences == ()


def test_no_file_log_or_repr_holds_a_secret(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Files and log contain no secret; the store contains only secrets that were unknown."""
    monkeypatch.setenv("MY_SERVICE_TOKEN", KNOWN)
    caplog.set_level(logging.DEBUG)
    cassette, sealed = tmp_path / "c.jsonl", tmp_path / "x.afrun"
    with open_workbench(tmp_path, model=ScriptedModel(script), record=cassette) as wb:
        run_with_secrets(wb).seal(sealed)
        with closing(sqlite3.connect(wb._store)) as db:
            stored = "\n".join(db.iterdump())
        shown = repr(wb) + repr(wb.settings) + repr(wb._thread.engine.session)
    everything = [*contents(cassette), *contents(sealed), caplog.text.encode(), shown.encode()]
    for name, secret in {**SHOWN, "known": KNOWN}.items():
        is_masked_at_entry = name in {"setting", "error", "known"}
        assert (secret in stored) is not is_masked_at_entry, name
        assert not [True for content in everything if secret.encode() in content], name


def decided(run: af.Run, approved: bool, instruction: str) -> af.Run:
    """The run after a decision by code."""
    controller = run._thread.engine.controller
    run._thread.call(controller.decide(run.pending[0].id, Decision(approved, instruction)))
    return run.wait(WAIT_S)


@pytest.mark.parametrize("changed", ["question", "decision", "report"])
def test_cassette_miss_shows_no_secret(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, changed: str) -> None:
    """The error shows the difference, although the secret was unknown when the cassette was recorded."""
    key, policy = SHOWN["question"], {"create_artifact": "ask"}
    replies = [report(f"It is {KNOWN}."), call("read_artifact", id="research_report"), "Done."]
    with open_scene(tmp_path, model=ScriptedModel(replies), record=tmp_path / "c.jsonl", approvals=policy) as wb:
        decided(wb.ask(f"Who has {key} of {KNOWN}?").wait(WAIT_S), True, f"Not {KNOWN}.")
    monkeypatch.setenv("MY_SERVICE_TOKEN", KNOWN)
    with open_scene(tmp_path, replay=tmp_path / "c.jsonl", approvals=policy) as wb:
        try:
            run = wb.ask(f"Who {'else ' * (changed == 'question')}has {key} of {KNOWN}?").wait(WAIT_S)
            if changed in {"decision", "report"}:
                run = decided(run, changed == "report", f"{'Not' if changed == 'report' else 'For'} {KNOWN}.")
            message = f"{run.error}"
        except CassetteMiss as miss:
            message = f"{miss!s}{miss!r}"
    assert ("mode=" in message) is (changed != "report"), message
    assert not [secret for secret in (key, KNOWN) if secret in message]


def test_notice_of_a_changed_prompt_shows_no_secret(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Neither the log nor the verification shows the secret of the prompt."""
    key, cassette, prompts = SHOWN["question"], tmp_path / "c.jsonl", tmp_path / "prompts"
    with open_scene(tmp_path, model=ScriptedModel(["Nobody."]), record=cassette) as wb:
        wb.ask(f"Who has {key} of {KNOWN}?").wait(WAIT_S)
    monkeypatch.setenv("MY_SERVICE_TOKEN", KNOWN)
    prompts.mkdir()
    (prompts / "lead_agent.md").write_text(f"You lead with {key} and {KNOWN}.", encoding="utf-8")
    with open_scene(tmp_path, replay=cassette, prompts=prompts) as wb:
        assert wb.ask(f"Who has {key} of {KNOWN}?").wait(WAIT_S).status == "completed"
    assert "Changed since then: prompt lead_agent.md" in caplog.text
    assert not [secret for secret in (key, KNOWN) if secret in caplog.text]


def test_error_of_an_endpoint_is_recorded_without_its_secrets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error is replayed as the same error."""
    monkeypatch.setenv("MY_SERVICE_TOKEN", KNOWN)

    def refuse(_request: ModelRequest) -> str:
        raise ModelUnavailable(f"{KNOWN} and {SHOWN['error']} are refused.", partial=f"As {KNOWN}")

    cassette = tmp_path / "c.jsonl"
    with open_scene(tmp_path, model=ScriptedModel(refuse), record=cassette) as wb:
        run = wb.ask("Who?").wait(WAIT_S)
        assert run.status == "failed"
        run.seal(tmp_path / "x.afrun")
    for content in [*contents(cassette), *contents(tmp_path / "x.afrun")]:
        assert not [secret for secret in (KNOWN, SHOWN["error"]) if secret.encode() in content]
    monkeypatch.delenv("MY_SERVICE_TOKEN")
    with open_scene(tmp_path, replay=cassette) as wb:
        assert wb.ask("Who?").wait(WAIT_S).status == "failed"
