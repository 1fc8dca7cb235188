"""A store in which every frame has rows, made by real runs."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from support.replies import by_agent, call, decide, delegate, plan, report, requesting_agent

import artifactflow_nb as af
from artifactflow_nb.models.scripted import ScriptedModel


def answer(request: object) -> str:
    """Reply of a lead that delegates and reports, or of a search agent; earlier questions do not matter."""
    system, *rest = request.messages  # type: ignore[attr-defined]
    if "search agent" in system.content:
        return "Here."
    turns = [
        delegate("search_agent", "look") + call("read_artifact", id="nothing"),
        report("One.\nTwo is in https://two.example/."),
        "Done.",
    ]
    started = max(place for place, message in enumerate(rest) if "ook" in message.content and message.role == "user")
    return turns[len(rest[started:]) // 2]


def planning_model() -> ScriptedModel:
    """A model that also plans: of three steps the second fails twice, and the third is not started."""
    script = by_agent(
        agent=[plan("Find", "Compare", "Write"), "Done."],
        executor=["Found.", *(turn for _ in range(2) for turn in (call("report_failure", reason="No."), "It failed."))],
        replanner=[decide("retry"), "Once more.", decide("finish", "It is enough."), "So be it."],
        summarizer=["One of three."],
        grader=[call("grade", score=7, evidence=["X is a letter."]), call("grade", score=4, evidence=["X"]), "A", "B"],
    )
    return ScriptedModel(
        lambda request: answer(request) if requesting_agent(request) in {"lead", "search"} else script(request)
    )


def open_in_folder(folder: Path, model: ScriptedModel | None = None) -> af.Workbench:
    return af.Workbench(
        model=model or ScriptedModel(answer), approvals={"create_artifact": "ask"}, data_dir=folder, interactive=False
    )


@pytest.fixture
def open_workbench(tmp_path: Path) -> Callable[..., af.Workbench]:
    """Open workbenches in the folder of the test, where `sample_store` has its store too."""

    def open_one(name: str = "data", **options: Any) -> af.Workbench:
        return open_in_folder(tmp_path / name, **options)

    return open_one


@pytest.fixture(scope="session")
def sample_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of the store that `sample_store` copies."""
    return tmp_path_factory.mktemp("sample")


@pytest.fixture
def sample_store(sample_folder: Path, tmp_path: Path) -> Path:
    """A copy of a store with runs that are completed, edited, waiting, planned and judged, and with a source."""
    if not (sample_folder / "data").exists():
        (sample_folder / "letters.md").write_text("# Letters\n\nA letter is sent once.\n", encoding="utf-8")
        with open_in_folder(sample_folder / "data", planning_model()) as wb:
            wb.sources.add(sample_folder)
            first = wb.ask("Look.").wait().approve().wait()
            wb.conversation(first).edit("Look again.").wait().deny("No.").wait()
            wb.ask("Look elsewhere.").wait()
            wb.ask("Plan it.", flow="plan").wait()
            project = wb.projects.start("Book", template="paper")
            part = project.add("Part", is_group=True)
            project.add("Method", "By counting.", parent=part)
            project.add("Analysis", "Seven.", depends_on=[part], need_review=True, reason="It was asked for.")
            project["Method"].write("By weighing.")
            judged = wb.projects.start("Judged")
            judged.add("Text", "X is a letter.")
            judged.evaluate(["Text"], ["clarity", "evidence"]).wait()
            wb.data.share(letters=pd.DataFrame({"letter": ["a", "b"]}))
            result = wb._thread.call(wb.data._shared.query("SELECT count(*) FROM letters", "Letters"))
            call = af.ToolContext(first.run_id, first.conversation_id, first.message_id, "lead_agent", "tool-letters")
            wb._thread.call(wb.data._shared.record(call, result))
    shutil.copytree(sample_folder / "data", tmp_path / "data")
    return tmp_path / "data" / "store.db"
