"""The agent of a command line as the model of a run."""

import json
import os
import sys
from pathlib import Path

import pytest
from support.mcp_config import until

import artifactflow_nb as af
from artifactflow_nb.core.messages import Message
from artifactflow_nb.errors import ModelRejected, ModelUnavailable, UsageError
from artifactflow_nb.models.base import ModelRequest

AGENT = Path(__file__).parents[2] / "support/acp_agent.py"


def agent(behaviour: str, folder: Path) -> af.AgentModel:
    """A model whose agent writes what it gets into the folder."""
    folder.mkdir(exist_ok=True)
    path = os.pathsep.join(entry for entry in sys.path if entry)
    return af.AgentModel([sys.executable, str(AGENT), behaviour, str(folder)], env={"PYTHONPATH": path})


def is_running(pid: str) -> bool:
    try:
        os.kill(int(pid), 0)
    except ProcessLookupError:
        return False
    return True


def test_agent_answers_a_question_with_calls_of_the_workbench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-never-for-the-agent")
    model = agent("write", tmp_path / "files")
    with af.Workbench(model=model, data_dir=tmp_path / "data", approvals="approve", interactive=False) as wb:
        run = wb.ask("Write a note.").wait()
        assert run.response == "The note is written."
        assert run.artifacts["note"].content == "Otters sleep."
        calls = wb.llm_calls_df(run)
        assert calls["provider"].tolist() == ["acp", "acp"]
        assert calls["input_tokens"].tolist() == [10, 10]
    files = tmp_path / "files"
    assert (files / "permission.txt").read_text() == "no"
    prompts = [json.loads(line) for line in (files / "prompts.jsonl").read_text().splitlines()]
    assert "## user\n\nWrite a note." in prompts[0]
    assert "create_artifact" in prompts[0]
    environment = json.loads((files / "environment.json").read_text())
    assert "OPENAI_API_KEY" not in environment
    assert not any(is_running(path.stem) for path in files.glob("*.pid"))


@pytest.mark.parametrize(
    ("behaviour", "error", "message"),
    [
        ("logged_out", ModelRejected, "refused the request: Authentication required"),
        ("end", ModelUnavailable, "ended or did not answer"),
    ],
)
async def test_agent_that_fails_is_told_in_a_sentence(
    tmp_path: Path, behaviour: str, error: type[Exception], message: str
) -> None:
    request = ModelRequest((Message("user", "Why?"),))
    with pytest.raises(error, match=message):
        async for _ in agent(behaviour, tmp_path / "files").stream(request):
            pass


async def test_command_that_does_not_exist_is_told_in_a_sentence() -> None:
    request = ModelRequest((Message("user", "Why?"),))
    with pytest.raises(ModelRejected, match=r"'no-such-agent' cannot be started: No such file or directory\. Install"):
        async for _ in af.AgentModel(["no-such-agent"]).stream(request):
            pass


def test_cancelled_run_ends_the_process_of_the_agent(tmp_path: Path) -> None:
    model = agent("sleep", tmp_path / "files")
    with af.Workbench(model=model, data_dir=tmp_path / "data", interactive=False) as wb:
        run = wb.ask("Why?")
        until(lambda: list((tmp_path / "files").glob("*.pid")))
        [pid] = (path.stem for path in (tmp_path / "files").glob("*.pid"))
        run.cancel()
        assert run.wait().status == "cancelled"
        until(lambda: not is_running(pid))


@pytest.mark.parametrize("command", ["claude", [], [1]])
def test_command_must_be_a_list_of_texts(command: object) -> None:
    with pytest.raises(UsageError, match="pass a list of texts"):
        af.AgentModel(command)  # type: ignore[arg-type]
