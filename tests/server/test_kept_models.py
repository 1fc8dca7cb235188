"""A server that lacks the model of a run neither continues the run nor decides its requests."""

from pathlib import Path

import pytest
from support.replies import call

import artifactflow_nb as af
from artifactflow_nb.core.approvals import Decision
from artifactflow_nb.errors import UsageError
from artifactflow_nb.server.lifecycle import open_lifecycle


class HostedModel(af.ScriptedModel):
    """A scripted model at an endpoint."""

    provider = "openai"
    default_model, address = "large", "http://endpoint.example/v1"


async def test_server_without_the_model_leaves_the_run(tmp_path: Path) -> None:
    """The run waits as before, and the kernel that has the model continues it."""
    options = {"approvals": {"create_artifact": "ask"}, "data_dir": tmp_path, "interactive": False}
    with af.Workbench(
        model=HostedModel([call("create_artifact", id="a", title="A", content="T"), "Done."]), **options
    ) as wb:
        run = wb.ask("Write a note.").wait()
        lifecycle = open_lifecycle(data_dir=tmp_path)
        try:
            with pytest.raises(UsageError, match=r"large \(endpoint\.example\).*offline-extractive"):
                await lifecycle.call(lifecycle.thread.engine.controller.decide(run.pending[0].id, Decision(True)))
            assert await lifecycle.continue_abandoned() == []
        finally:
            lifecycle.close()
        assert run.status == "waiting"
        assert run.approve().wait().response == "Done."
