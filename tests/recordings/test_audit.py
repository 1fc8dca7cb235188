"""A sealed run, run again by somebody who has nothing but the file."""

from pathlib import Path

import pytest
from recordings.test_replay import ask, bench, script
from scripts import delegate

import artifactflow_nb as af
from artifactflow_nb.models.scripted import ScriptedModel


@pytest.fixture
def sealed(tmp_path: Path) -> Path:
    with bench(tmp_path, model=ScriptedModel(script, delay_s=0.0005)) as wb:
        first, _ = ask(wb)
        second, _ = ask(wb, "And vegetables?", conversation_id=first.conversation_id)
        number = next(step.number for step in second.steps if step.name == "create_artifact")
        fork = second.fork(number, decision=False).wait(20)
        return fork.seal(tmp_path / "fork.afrun")


def test_it_comes_out_the_same(sealed: Path) -> None:
    """With the tools at hand nothing differs, neither in what came of it nor in what the models were asked."""

    @af.tool()
    async def look(ctx: af.ToolContext, word: str) -> str:
        """Look a word up."""
        raise AssertionError

    with af.open_run(sealed) as run:
        found = run.replay(tools=[look])
    assert (found.is_same, found.differences, found.prompts) == (True, (), ())
    assert "came out the same" in repr(found)


def test_without_its_tools_the_prompts_differ_and_the_rest_does_not(sealed: Path) -> None:
    """A tool that is not at hand is stood in for; that its manual is not the same is told."""
    with af.open_run(sealed) as run:
        found = run.replay()
    assert found.differences == ()
    assert any("-Look a word up." in told for told in found.prompts)
    assert "Prompts" in found._repr_html_()


def test_what_comes_out_otherwise_is_told(sealed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A release that writes artifacts otherwise is found out: call, result and what followed."""
    monkeypatch.setattr(
        "artifactflow_nb.tools.artifacts._written", lambda _ctx, _artifact: af.ToolResult(success=True, data="Written!")
    )
    with af.open_run(sealed) as run:
        found = run.replay()
    assert not found.is_same
    assert any("Written!" in told for told in found.differences)


def test_an_agent_that_is_missing_is_named(tmp_path: Path) -> None:
    """Agents of one's own are asked for by name."""
    (tmp_path / "prompts").mkdir()
    (tmp_path / "prompts" / "counter.md").write_text("You count.", encoding="utf-8")
    turns = [
        delegate("counter", "Count."),
        "Three.",
        "Three it is.",
    ]
    config = af.AgentConfig("counter", "Counts.")
    with bench(tmp_path, model=ScriptedModel(turns), prompts=tmp_path / "prompts") as wb:
        wb.register_agent(config)
        path = wb.ask("How many?").wait(20).seal(tmp_path / "run.afrun")
    with af.open_run(path) as run, pytest.raises(af.UsageError, match=r"not built in: counter. Pass agents="):
        run.replay()
