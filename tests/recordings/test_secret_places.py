"""Secrets in every place of a real run: nothing that is written or told has them, and they part no replay."""

import logging
import sqlite3
import zipfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from recordings.replayed import opened, step_of
from scripts import call, delegate, report, who_asks

import artifactflow_nb as af
from artifactflow_nb.approvals import Decision
from artifactflow_nb.errors import CassetteMiss, ModelUnavailable, ToolError
from artifactflow_nb.models.base import ModelRequest
from artifactflow_nb.models.scripted import ScriptedModel
from artifactflow_nb.recordings.masked import is_masked
from artifactflow_nb.recordings.secrets import Masker

WAIT_S = 30
KNOWN = "plain.opaque.value.of.letters"
"""It has no form of its own: only a variable of the environment says that it is secret."""

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
"""Secrets that show themselves, by where they are."""


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MY_SERVICE_TOKEN", raising=False)


def script(request: ModelRequest) -> Any:
    """Secrets in replies, parameters, addresses and a report."""
    step = step_of(request)
    if who_asks(request) != "lead":
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
    """Look an address up, and tell its headers."""
    return f"{url} {note}\nAuthorization: Bearer {SHOWN['header']}\n{SHOWN['package']}==1.0"


@af.tool()
def fail(ctx: af.ToolContext, api_key: str, password: str, note: str) -> str:
    """Fail with what was given."""
    message = f"refused {api_key} and {note}: {SHOWN['error']}"
    raise ToolError(message)


def with_tools(wb: af.Workbench) -> None:
    wb.register_tool(look, agent="search_agent")
    wb.register_tool(fail, agent="lead_agent")


def played(wb: af.Workbench) -> af.Run:
    """A run with a person's words and edits in it."""
    run = wb.ask(f"What is {SHOWN['question']}, and {KNOWN}?").wait(WAIT_S)
    assert run.pending, run.error
    params = {**run.pending[0].params, "title": f"Edited {SHOWN['edited']} {KNOWN}"}
    told = Decision(approved=True, instruction=f"Use {SHOWN['decision']}, not {KNOWN}.", params=params)
    wb._thread.call(wb._thread.engine.controller.decide(run.pending[0].id, told))
    run.wait(WAIT_S)
    assert run.status == "completed", run.error
    run.artifacts["research_report"].edit(f"By hand: {KNOWN} {SHOWN['question']}")
    last = wb.ask(f"And {KNOWN}?", conversation_id=run).wait(WAIT_S)
    if last.pending:
        last.approve().wait(WAIT_S)
    assert last.status == "completed", last.error
    return last


def bench(folder: Path, **options: Any) -> af.Workbench:
    policy = {"create_artifact": "ask"}
    return opened(folder, setup=with_tools, approvals=policy, tavily_key=SHOWN["setting"], **options)


def held(path: Path) -> Iterator[bytes]:
    """The bytes of a file, and of the members of a zipped one."""
    yield path.read_bytes()
    if zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as file:
            yield from (file.read(name) for name in file.namelist())


@pytest.mark.parametrize(("then", "now"), [(True, False), (False, True), (True, True)])
def test_what_the_environment_knows_parts_no_replay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, then: bool, now: bool
) -> None:
    """Recorded with a secret in the environment it replays without, and the other way round."""
    cassette = tmp_path / "c.jsonl"
    if then:
        monkeypatch.setenv("MY_SERVICE_TOKEN", KNOWN)
    with bench(tmp_path, model=ScriptedModel(script), record=cassette) as wb:
        sealed = played(wb).seal(tmp_path / "x.afrun")
    assert (KNOWN.encode() in cassette.read_bytes()) is not then
    monkeypatch.delenv("MY_SERVICE_TOKEN", raising=False)
    if now:
        monkeypatch.setenv("MY_SERVICE_TOKEN", KNOWN)
    with bench(tmp_path, replay=cassette) as wb:
        played(wb)
    with af.open_run(sealed) as run:
        assert run.replay(tools=[look, fail]).is_same


def test_nothing_that_is_written_or_told_has_a_secret(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Neither the cassette nor the sealed file nor the log has any of them."""
    monkeypatch.setenv("MY_SERVICE_TOKEN", KNOWN)
    caplog.set_level(logging.DEBUG)
    cassette, sealed = tmp_path / "c.jsonl", tmp_path / "x.afrun"
    with bench(tmp_path, model=ScriptedModel(script), record=cassette) as wb:
        played(wb).seal(sealed)
        with closing(sqlite3.connect(wb._store)) as db:
            stored = "\n".join(db.iterdump())
        shown = repr(wb) + repr(wb.settings) + repr(wb._thread.engine.deck)
    everything = [*held(cassette), *held(sealed), caplog.text.encode(), shown.encode()]
    for name, secret in {**SHOWN, "known": KNOWN}.items():
        assert (secret in stored) is (name != "setting"), name
        assert not [True for content in everything if secret.encode() in content], name


def decided(run: af.Run, approved: bool, instruction: str) -> af.Run:
    """A run that goes on after code decided, as a cell does."""
    controller = run._thread.engine.controller
    run._thread.call(controller.decide(run.pending[0].id, Decision(approved, instruction)))
    return run.wait(WAIT_S)


@pytest.mark.parametrize("changed", ["question", "prompt", "decision", "report"])
def test_a_miss_is_told_without_secrets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, changed: str) -> None:
    """What differs is shown, and what is secret in it is not, though the cassette was made where nobody knew it."""
    key, policy = SHOWN["question"], {"create_artifact": "ask"}
    replies = [report(f"It is {KNOWN}."), call("read_artifact", id="research_report"), "Done."]
    with opened(tmp_path, model=ScriptedModel(replies), record=tmp_path / "c.jsonl", approvals=policy) as wb:
        decided(wb.ask(f"Who has {key} of {KNOWN}?").wait(WAIT_S), True, f"Not {KNOWN}.")
    monkeypatch.setenv("MY_SERVICE_TOKEN", KNOWN)
    (tmp_path / "prompts").mkdir()
    (tmp_path / "prompts" / "lead_agent.md").write_text(f"You lead with {key} and {KNOWN}.", encoding="utf-8")
    told = {"prompts": tmp_path / "prompts"} if changed == "prompt" else {}
    with opened(tmp_path, replay=tmp_path / "c.jsonl", approvals=policy, **told) as wb:
        try:
            run = wb.ask(f"Who {'else ' * (changed == 'question')}has {key} of {KNOWN}?").wait(WAIT_S)
            if changed in {"decision", "report"}:
                run = decided(run, changed == "report", f"{'Not' if changed == 'report' else 'For'} {KNOWN}.")
            said = f"{run.error}"
        except CassetteMiss as miss:
            said = f"{miss!s}{miss!r}"
    assert ("mode=" in said) is (changed != "report"), said
    assert not [secret for secret in (key, KNOWN) if secret in said]


def test_a_model_that_fails_with_a_secret_is_recorded_without(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What an endpoint says in its error is masked, and replays as the same error."""
    monkeypatch.setenv("MY_SERVICE_TOKEN", KNOWN)

    def refuse(_request: ModelRequest) -> str:
        raise ModelUnavailable(f"{KNOWN} and {SHOWN['error']} are refused.", partial=f"As {KNOWN}")

    cassette = tmp_path / "c.jsonl"
    with opened(tmp_path, model=ScriptedModel(refuse), record=cassette) as wb:
        run = wb.ask("Who?").wait(WAIT_S)
        assert run.status == "failed"
        run.seal(tmp_path / "x.afrun")
    for content in [*held(cassette), *held(tmp_path / "x.afrun")]:
        assert not [secret for secret in (KNOWN, SHOWN["error"]) if secret.encode() in content]
    monkeypatch.delenv("MY_SERVICE_TOKEN")
    with opened(tmp_path, replay=cassette) as wb:
        assert wb.ask("Who?").wait(WAIT_S).status == "failed"


@pytest.mark.parametrize(
    ("recorded", "now", "is_same"),
    [
        ("It is [secret].", "It is opaque.value.", True),
        ("It is [secret].", "It is [secret].", True),
        ("[secret]", "opaque-value", True),
        ("[secret]/[secret]?a=[secret]&b", "opaque1/opaque2?a=opaque3&b", True),
        ("[secret][secret] end", "opaque1opaque2 end", True),
        ("of [secret] and apples", "of opaque1 pears and apples", False),
        ("?key=[secret]&x=1", "?key=opaque1&y=2&x=1", False),
        ('{"a":"[secret]","b":1}', '{"a":"opaque1","c":2,"b":1}', False),
        ("It is [secret].", "It is you.", False),
        ("It is [secret].", "It is opaque1.!", False),
        ("It is [secret].", "is opaque1.", False),
        ("It is here.", "It is opaque1.", False),
        ("[secret] and [secret]", "opaque1 and", False),
    ],
)
def test_a_mask_stands_for_one_secret(recorded: str, now: str, is_same: bool) -> None:
    """Whatever may be one fits in its place; a change of the text around it does not pass for one."""
    assert is_masked(recorded, now) is is_same


def test_values_are_compared_but_for_secrets() -> None:
    """Parts that differ are given without secrets, whoever knew them; equal ones as they are recorded."""
    here, nowhere = Masker([KNOWN]), Masker()
    recorded = {"note": "of [secret].", "deep": [{"x": "[secret]"}]}
    now = {"note": f"of {KNOWN}.", "deep": [{"x": KNOWN}]}
    for masker in (here, nowhere):
        assert masker.compared(recorded, now) == (recorded, recorded)
        assert masker.compared(recorded, {**now, "deep": []})[1] == {"note": "of [secret].", "deep": []}
    assert here.compared(now, recorded) == (now, now)
    assert here.compared(now, {"note": "else"}) == (
        {"note": "of [secret].", "deep": [{"x": "[secret]"}]},
        {"note": "else"},
    )
