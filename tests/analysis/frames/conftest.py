"""A store in which every frame has rows, made by real runs."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.replies import by_agent, call, decide, delegate, plan, report, who_asks

import artifactflow_nb as af
from artifactflow_nb.models.scripted import ScriptedModel


def answer(request: object) -> str:
    """Looks around and reports; what was asked before decides nothing."""
    system, *rest = request.messages  # type: ignore[attr-defined]
    if "search agent" in system.content:
        return "Here."
    turns = [delegate("search_agent", "look") + call("read_artifact", id="nothing"), report("One.\nTwo."), "Done."]
    started = max(place for place, message in enumerate(rest) if "ook" in message.content and message.role == "user")
    return turns[len(rest[started:]) // 2]


def planning() -> ScriptedModel:
    """Answers, but plans if it is asked to: of three steps the second fails twice, and the third is not reached."""
    script = by_agent(
        agent=[plan("Find", "Compare", "Write"), "Done."],
        executor=["Found.", *(turn for _ in range(2) for turn in (call("report_failure", reason="No."), "It failed."))],
        replanner=[decide("retry"), "Once more.", decide("finish", "It is enough."), "So be it."],
        summarizer=["One of three."],
        grader=[call("grade", score=7, evidence=["X is a letter."]), call("grade", score=4, evidence=["X"]), "A", "B"],
    )
    return ScriptedModel(
        lambda request: answer(request) if who_asks(request) in {"lead", "search"} else script(request)
    )


def bench(folder: Path, model: ScriptedModel | None = None) -> af.Workbench:
    return af.Workbench(
        model=model or ScriptedModel(answer), approvals={"create_artifact": "ask"}, data_dir=folder, interactive=False
    )


@pytest.fixture
def open_bench(tmp_path: Path) -> Callable[..., af.Workbench]:
    """Open workbenches on the test's own folder, where `worked` has its store too."""

    def open_one(name: str = "data", **options: Any) -> af.Workbench:
        return bench(tmp_path / name, **options)

    return open_one


@pytest.fixture(scope="session")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the store is kept that `worked` makes once."""
    return tmp_path_factory.mktemp("worked")


@pytest.fixture
def worked(kept: Path, tmp_path: Path) -> Path:
    """A store of one's own: an answered run and one in its place, one that waits, one with a plan, one that judges.

    And a source.
    """
    if not (kept / "data").exists():
        (kept / "letters.md").write_text("# Letters\n\nA letter is sent once.\n", encoding="utf-8")
        with bench(kept / "data", planning()) as wb:
            wb.add_sources(kept)
            first = wb.ask("Look.").wait().approve().wait()
            wb.edit(first, "Look again.").wait().deny("No.").wait()
            wb.ask("Look elsewhere.").wait()
            wb.ask("Plan it.", flow="plan").wait()
            project = wb.project("Book", template="paper")
            part = project.add("Part", is_group=True)
            project.add("Method", "By counting.", parent=part)
            project.add("Analysis", "Seven.", depends_on=[part], need_review=True, reason="It was asked for.")
            project["Method"].write("By weighing.")
            judged = wb.project("Judged")
            judged.add("Text", "X is a letter.")
            judged.evaluate(["Text"], ["clarity", "evidence"]).wait()
    shutil.copytree(kept / "data", tmp_path / "data")
    return tmp_path / "data" / "store.db"
