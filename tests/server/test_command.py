"""`python -m artifactflow_nb serve` as a process."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus
from pathlib import Path

import httpx
import pytest
from support.forked_python import fast_python
from support.http_server import Client

import artifactflow_nb as af


@contextmanager
def served(*arguments: str, **environment: str) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """Yield the printed line of a server at a free port, once it listens."""
    command = [*fast_python(), "-m", "artifactflow_nb", "serve", "--port=0", *arguments]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(command, env={**os.environ, **environment}, text=True, **pipes) as process:
        try:
            assert process.stdout is not None
            line = process.stdout.readline().strip()
            yield line, process
        finally:
            process.send_signal(signal.SIGINT)
            process.wait(30)


def test_recording_is_served_without_a_key(tmp_path: Path) -> None:
    """A front end gets the recorded events, and sends the recorded decision."""
    cassette = tmp_path / "cassette.jsonl"
    turns = [
        af.ToolCall("create_artifact", {"id": "note", "title": "Note", "content": "One."}),
        "Written.",
        af.ToolCall("rewrite_artifact", {"id": "note", "content": "Two."}),
        "Rewritten.",
    ]
    with af.Workbench(
        model=af.ScriptedModel(turns), data_dir=tmp_path / "data", record=cassette, interactive=False
    ) as wb:
        first = wb.ask("Write.").wait()
        second = wb.ask("Again.", conversation_id=first).wait().approve().wait()
        assert second.response == "Rewritten."
    with served(f"--replay={cassette}") as (line, process), Client(line.removesuffix("/artifactflow/")) as client:
        run = client.ask("Write.")
        assert run["run_id"] == first.run_id
        assert list(client.events(run["thread_id"]))[-1].data["response"] == "Written."
        again = client.ask("Again.", conversation_id=run["conversation_id"])
        waiting = list(client.events(again["thread_id"]))
        assert waiting[-1].data["interrupted"] is True
        path = f"/chat/{again['conversation_id']}/resume"
        assert client.post(path, thread_id=again["thread_id"], approved=False).status_code == 404
        assert client.post(path, thread_id=again["thread_id"], approved=True).status_code == 202
        rest = list(client.events(again["thread_id"], last=waiting[-1].id))
        assert rest[-1].data["response"] == "Rewritten."
        miss = client.post("/chat", content="Something else?")
        assert (miss.status_code, miss.json()["error"]) == (404, "CassetteMiss")
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=30)
        assert errors == ""


def test_server_for_others_prints_an_address_with_a_token_for_each_user(tmp_path: Path) -> None:
    arguments = f"--data-dir={tmp_path / 'data'}", "--host=0.0.0.0", "--user=ana"
    with served(*arguments, AF_SERVER_TOKEN="chosen") as (line, process):  # noqa: S106 - of this test only
        assert process.stdout is not None
        assert process.stdout.readline().startswith("ana: http://localhost:")
        user, address = line.split(": ")
        assert user == "ana"
        port = re.search(r":(\d+)/", address)
        assert port is not None
        assert "0.0.0.0" not in address  # noqa: S104 - which is no address of a browser
        assert httpx.get(address.strip(), follow_redirects=True).status_code == HTTPStatus.OK
        base_url = f"http://127.0.0.1:{port[1]}"
        with Client(base_url, {"Authorization": "Bearer chosen"}) as client:
            run = client.ask("What is a generator?")
            assert list(client.events(run["thread_id"]))[-1].data["success"] is True
        assert httpx.get(f"{base_url}/artifactflow/api/v1/chat?token=wrong").status_code == 401
        process.send_signal(signal.SIGINT)
        output, errors = process.communicate(timeout=30)
        assert "chosen" not in output + errors


def run_command(*arguments: str, code: str = "") -> subprocess.CompletedProcess[str]:
    program = f"{code}\nimport sys; from artifactflow_nb.__main__ import main; sys.exit(main({list(arguments)!r}))"
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)


@pytest.mark.parametrize("module", ["uvicorn", "starlette"])
def test_missing_extra_is_reported_in_one_line(module: str) -> None:
    done = run_command("serve", code=f"import sys; sys.modules[{module!r}] = None")
    assert done.returncode == 1
    assert "pip install 'artifactflow-nb[server]'" in done.stderr
    assert done.stderr.count("\n") == 1


def test_settings_that_do_not_fit_are_reported_without_a_traceback(tmp_path: Path) -> None:
    done = run_command("serve", f"--replay={tmp_path / 'missing.jsonl'}")
    assert (done.returncode, done.stderr.startswith("There is no cassette")) == (1, True), done.stderr
    assert "Traceback" not in done.stderr
    done = run_command("serve", "--user=ana", "--user=ben", code="import os; os.environ['AF_SERVER_TOKEN'] = 'one'")
    assert (done.returncode, "is for one user" in done.stderr) == (1, True)


def test_command_lists_its_options() -> None:
    done = run_command("serve", "--help")
    assert done.returncode == 0
    for option in ("--data-dir", "--host", "--port", "--user", "--read-only", "--replay"):
        assert option in done.stdout
    assert done.stderr == ""
