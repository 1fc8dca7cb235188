"""Copies and pickles carry no key; objects of a workbench refuse both with advice."""

import copy
import pickle
from pathlib import Path
from typing import Any

import pytest
from support.chat_endpoint import Answer, ChatServer

import artifactflow_nb as af
from artifactflow_nb.models.base import ModelReply, ModelRequest

KEY, LOGIN, TOKEN = "sk-loopback-0123456789", "login-of-a-person-7", "token-of-a-server-8"
COPIES = [copy.copy, copy.deepcopy, lambda value: pickle.loads(pickle.dumps(value))]  # noqa: S301 - our own bytes


def texts_of(value: Any, depth: int = 6) -> str:
    """All texts that are reachable from a value, including the values of `SecretStr`."""
    if hasattr(value, "get_secret_value"):
        return str(value.get_secret_value())
    if isinstance(value, dict):
        return " ".join(texts_of(item, depth - 1) for pair in value.items() for item in pair) if depth else ""
    if isinstance(value, list | tuple):
        return " ".join(texts_of(item, depth - 1) for item in value) if depth else ""
    return repr(value) + (texts_of(vars(value), depth - 1) if depth and hasattr(value, "__dict__") else "")


@pytest.mark.parametrize("make_copy", COPIES, ids=["copy", "deepcopy", "pickle"])
def test_copies_of_settings_and_models_carry_no_key(make_copy: Any) -> None:
    """Copies lack keys, logins in addresses and the configuration of MCP servers."""
    address = f"http://person:{LOGIN}@127.0.0.1:9/v1"
    mcp = {"files": {"command": "files-server", "env": {"FILES_TOKEN": TOKEN}}}
    settings = af.Settings.load(base_url=address, api_key=KEY, tavily_key=KEY, model="m", mcp=mcp, temperature=0.5)
    agent = af.AgentConfig("critic", "Judges.", model=af.OpenAIModel(address, KEY, "m"))
    for value in (settings, agent.model, agent):
        copied = make_copy(value)
        assert repr(copied)
        assert [secret for secret in (KEY, LOGIN, TOKEN) if secret in texts_of(copied)] == []
        assert not any(secret.encode() in pickle.dumps(value) for secret in (KEY, LOGIN, TOKEN))
    assert make_copy(settings).temperature == 0.5
    assert settings.model_copy(update={"temperature": 1.0}).api_key == settings.api_key


async def test_copied_model_without_its_key_refuses_requests_with_advice() -> None:
    """A request would be sent without the key, and the endpoint's error would not tell why."""
    request = ModelRequest(())
    with ChatServer([Answer("Hello.")]) as server:
        with pytest.raises(af.errors.ModelRejected, match=r"has no key.* af\.OpenAIModel\(base_url, api_key, name\)"):
            _ = [event async for event in copy.copy(af.OpenAIModel(server.base_url, KEY, "m")).stream(request)]
        assert server.requests == []
        local = pickle.loads(pickle.dumps(af.OpenAIModel(server.base_url, None, "m")))  # noqa: S301 - our own bytes
        reply = [event async for event in local.stream(request)][-1]
        assert isinstance(reply, ModelReply)
        assert reply.content == "Hello."
        await local.aclose()


def test_pickling_a_workbench_or_handle_is_refused_with_advice(workbench: Any, tmp_path: Path) -> None:
    """The error is one sentence, and not about a lock or an event loop."""
    wb = workbench(["Hello."])
    run = wb.ask("Hello?").wait(10)
    with af.open_run(run.seal(tmp_path / "run.afrun")) as sealed:
        for value, advice in (
            (wb, f"af.Workbench(data_dir={str(wb.data_dir)!r})"),
            (run, f"wb.run({run.run_id!r})"),
            (wb.runs(), f"wb.run({run.run_id!r})"),
            (sealed, f"af.open_run({str(sealed.path)!r})"),
            (wb.projects.start("Book"), "Keep its id or name"),
            (wb.conversation(run), "Keep its id or name"),
        ):
            for make_copy in (pickle.dumps, copy.deepcopy):
                with pytest.raises(af.errors.UsageError) as refused:
                    make_copy(value)
                assert advice in str(refused.value)
                assert "\n" not in str(refused.value)
