"""A run keeps the model and the endpoint of its start: no process continues the run with another model."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.replies import call

import artifactflow_nb as af
from artifactflow_nb.errors import UsageError

REPORT = call("create_artifact", id="note", title="Note", content="Text")


class HostedModel(af.ScriptedModel):
    """A scripted model with a name at an endpoint."""

    provider = "openai"

    def __init__(self, name: str, address: str, replies: list[str]) -> None:
        super().__init__(replies)
        self.default_model, self.address = name, address


Open = Callable[..., af.Workbench]


@pytest.fixture
def open_here(tmp_path: Path) -> Open:
    def make(model: af.ScriptedModel | None = None, **options: Any) -> af.Workbench:
        approvals = {"create_artifact": "ask"}
        return af.Workbench(model=model, data_dir=tmp_path / "data", approvals=approvals, interactive=False, **options)

    return make


def hosted(*replies: str, name: str = "large", address: str = "http://endpoint.example/v1") -> HostedModel:
    return HostedModel(name, address, list(replies))


@pytest.fixture
def waiting(open_here: Open) -> str:
    """The id of a run that waits for a decision, in the store of a workbench that is closed."""
    with open_here(hosted(REPORT)) as wb:
        run = wb.ask("Write a note.").wait()
        assert run.status == "waiting"
        return run.run_id


OTHERS: dict[str, tuple[Callable[[], af.ScriptedModel | None], str]] = {
    "the offline model": (lambda: None, r"lead_agent has offline-extractive \(offline\)"),
    "another name": (lambda: hosted(name="small"), r"lead_agent has small \(endpoint\.example\)"),
    "another endpoint": (lambda: hosted(address="http://other.example/v1"), r"lead_agent has large \(other\.example\)"),
    "a model of another kind": (lambda: af.ScriptedModel([]), r"lead_agent has scripted \(scripted\)"),
}


@pytest.mark.parametrize("case", OTHERS)
def test_process_with_another_model_neither_decides_nor_continues(open_here: Open, waiting: str, case: str) -> None:
    """The refusal names both models, nothing is decided, and the run can be cancelled."""
    make, here = OTHERS[case]
    with open_here(make()) as wb:
        run = wb.run(waiting)
        for action in (run.approve, run.deny, lambda: run.fork(1)):
            with pytest.raises(UsageError, match=rf"with the model large \(endpoint\.example\) for lead_agent.*{here}"):
                action()
        assert [request.id for request in wb.pending()] == [run.pending[0].id]
        run.cancel()
        assert wb.run(waiting).status == "cancelled"


def test_process_with_the_same_model_continues(open_here: Open, waiting: str) -> None:
    with open_here(hosted("Done.")) as wb:
        assert wb.run(waiting).approve().wait().response == "Done."


def test_model_of_a_single_agent_is_kept(open_here: Open, waiting: str) -> None:
    with (
        open_here(hosted(), agent_models={"search_agent": hosted(name="small")}) as wb,
        pytest.raises(UsageError, match=r"for search_agent, and here search_agent has small"),
    ):
        wb.run(waiting).approve()


def test_question_is_repeated_with_its_model_or_a_chosen_model(open_here: Open) -> None:
    """Without the endpoint, repeating refuses unless a model is passed."""
    with open_here(hosted("Yes.")) as wb:
        run = wb.ask("Is it?").wait()
    with open_here() as wb:
        with pytest.raises(UsageError, match=r"large \(endpoint\.example\).*Pass model= with the name of a model"):
            wb.conversation(run).regenerate()
        assert wb.conversation(run).regenerate(model="offline-extractive").wait().status in {"completed", "waiting"}


def test_answer_of_the_offline_model_can_be_repeated_with_an_endpoint(open_here: Open) -> None:
    with open_here() as wb:
        run = wb.ask("What does a finally clause do?").wait()
    with open_here(hosted("It runs always.")) as wb:
        assert wb.conversation(run).regenerate().wait().response == "It runs always."


def test_key_is_not_stored(open_here: Open, tmp_path: Path) -> None:
    """The manifest, which pins the models, has the host of the endpoint only."""
    model = hosted("Yes.", address="https://user:secret-of-mine@endpoint.example/v1")
    with open_here(model) as wb:
        run = wb.ask("Is it?").wait()
        assert run.manifest["agents"]["lead_agent"]["endpoint"] == "endpoint.example"
    assert all(b"secret-of-mine" not in file.read_bytes() for file in (tmp_path / "data").rglob("*") if file.is_file())
