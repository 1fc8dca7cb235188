"""The offline model in the plan flow: plans, steps and answers."""

import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml
from support.replies import call, requesting_agent
from support.web_server import Reply, WebRequest, WebServer

import artifactflow_nb as af
from artifactflow_nb.core.plan import Plan
from artifactflow_nb.core.text.chinese import is_chinese
from artifactflow_nb.engine.engine import Engine
from artifactflow_nb.models.base import ModelRequest
from artifactflow_nb.models.offline.model import OfflineModel
from artifactflow_nb.models.offline.plan import plan_parts
from artifactflow_nb.models.offline.report import PHRASES
from artifactflow_nb.models.scripted import ScriptedModel
from artifactflow_nb.sources.retrieval.sentences import collapse_whitespace

CHINESE = Path(__file__).parent / "chinese"
HANDBOOK = Path(__file__).parents[3] / "data" / "handbook"
SOURCE = re.compile(r"^(\d+)\. .* — (local:\S+)$", re.MULTILINE)
QUOTE = re.compile(r"^> (.*) \[(\d+)\]$", re.MULTILINE)
RAIN = "In frost the gauge reports nothing, and snow is measured by hand."


def open_workbench(folder: Path, **options: Any) -> af.Workbench:
    options = {"model": OfflineModel(), "approvals": "approve", "interactive": False, **options}
    wb = af.Workbench(data_dir=folder / "data", **options)
    wb.sources.add(HANDBOOK)
    wb.sources.add(CHINESE)
    return wb


@pytest.fixture
def wb(tmp_path: Path) -> Iterator[af.Workbench]:
    with open_workbench(tmp_path) as workbench:
        yield workbench


def planned(wb: af.Workbench, question: str, **options: Any) -> af.Run:
    return wb.ask(question, flow="plan", **options).wait(60)


def plan_of(run: af.Run) -> Plan:
    return Plan.from_json(run.artifacts["task_plan"].content)


def ends(run: af.Run) -> list[tuple[str, str]]:
    return [(step.title, step.status) for step in plan_of(run).steps]


def calls(wb: af.Workbench, run: af.Run, agent: str) -> list[str]:
    frame = wb.tool_calls_df(run)
    return frame.loc[frame["agent_name"] == agent, "tool_name"].tolist()


def quotes_of(wb: af.Workbench, text: str) -> list[str]:
    """The sentences that a text quotes; checks that each is in its source."""
    cited = dict(SOURCE.findall(text))
    engine: Engine = wb._thread.engine
    for sentence, number in QUOTE.findall(text):
        section = wb._thread.call(engine.sources.read(cited[number]))
        assert sentence in collapse_whitespace(section.text)
    return [sentence for sentence, _ in QUOTE.findall(text)]


@pytest.mark.parametrize(
    ("question", "fact", "title"),
    [
        ("What does the rain gauge do in frost?", RAIN, "Find out: What does the rain gauge do in frost?"),
        (
            "数据库的全量备份保留多久？",
            "全量备份保留35天，增量备份保留7天，年底的一份存档永久保存。",
            "查明：数据库的全量备份保留多久？",
        ),
    ],
    ids=["english", "chinese"],
)
def test_question_is_planned_and_answered(wb: af.Workbench, question: str, fact: str, title: str) -> None:
    """Research and report are carried out one by one; answer and report quote the fact and cite its source."""
    run = planned(wb, question)
    assert run.status == "completed"
    steps = ends(run)
    assert steps[0][0] == title
    assert [status for _, status in steps] == ["completed"] * 2
    assert f"   > {fact}" in plan_of(run).steps[0].result
    report = run.artifacts["research_report"]
    assert report.title == question
    assert fact in quotes_of(wb, report.content)
    assert fact in quotes_of(wb, str(run.response))
    assert "`research_report`" in str(run.response)
    tool_names = calls(wb, run, "executor")
    assert (tool_names[0], tool_names[-2:]) == ("web_search", ["web_fetch", "create_artifact"])


def test_every_part_of_a_question_gets_a_step(wb: af.Workbench) -> None:
    """Each of several questions is a step and a section; after a failed step the plan continues."""
    parts = ["How are backups checked?", "Who eats cheese?", "What does the rain gauge do in frost?"]
    run = planned(wb, " ".join(parts))
    assert ends(run) == [
        ("Find out: How are backups checked?", "completed"),
        ("Find out: Who eats cheese?", "failed"),
        ("Find out: What does the rain gauge do in frost?", "completed"),
        ("Write the report", "completed"),
    ]
    assert calls(wb, run, "replanner") == ["plan_decide"]
    for text in (run.artifacts["research_report"].content, str(run.response)):
        assert RAIN in quotes_of(wb, text)
        assert "### How are backups checked?\n\n> " in text
        assert "Who eats cheese?" in text
        assert plan_of(run).steps[1].result in text


@pytest.mark.parametrize(
    ("question", "parts"),
    [
        (
            "When are probes calibrated, and who calls the mountain rescue?",
            ["When are probes calibrated", "who calls the mountain rescue?"],
        ),
        ("Where is it? And why?", None),
        ("全量备份保留多久？离心机由谁检查？", ["全量备份保留多久？", "离心机由谁检查？"]),
        ("What is kept? " * 7, None),
    ],
)
def test_question_is_split_into_plan_parts(question: str, parts: list[str] | None) -> None:
    """Follow-ups, and too many questions, are not split."""
    assert plan_parts(question) == (parts or [question])


@pytest.mark.parametrize("question", ["Who won the football world cup in 1954?", "食堂的午饭几点开始供应？"])
def test_silent_sources_fail_the_step(wb: af.Workbench, question: str) -> None:
    """The step is not retried, the rest is skipped, nothing is cited, and no report is written."""
    run = planned(wb, question)
    statuses = [status for _, status in ends(run)]
    assert statuses.count("failed") == 1
    assert statuses[-1] == "skipped"
    assert calls(wb, run, "replanner") == ["plan_decide"]
    assert "research_report" not in run.artifacts
    response = str(run.response)
    assert "local:" not in response
    failed = next(step for step in plan_of(run).steps if step.status == "failed")
    assert f"{failed.title}: {failed.result}" in response
    phrases = PHRASES["zh" if is_chinese(question) else "en"]
    assert failed.result.startswith((phrases["absent"], phrases["searched_none"]))


def test_the_reference_is_cited_where_it_answers(tmp_path: Path) -> None:
    """Eight of ten questions on the language reference are answered from an expected topic; absent subjects are not."""
    questions = yaml.safe_load((Path(__file__).parent / "questions.yaml").read_text(encoding="utf-8"))
    with af.Workbench(model=OfflineModel(), data_dir=tmp_path / "data", interactive=False) as wb:
        answered = [(entry, planned(wb, entry["question"])) for entry in questions["questions"][::3]]
        absent = [str(planned(wb, question).response) for question in questions["absent"][::2]]
        cited = [(SOURCE.search(str(run.response)), entry["topics"], str(run.response)) for entry, run in answered]
        assert all(quotes_of(wb, text) for match, _, text in cited if match)
    assert sum(match is not None and match[2].partition("#")[2] in topics for match, topics, _ in cited) >= 8
    assert not any(SOURCE.search(text) for text in absent)


def test_follow_up_uses_the_earlier_question_and_report(wb: af.Workbench) -> None:
    """The earlier question is added to the search, and the existing report is rewritten."""
    first = planned(wb, "数据库的全量备份保留多久？")
    run = planned(wb, "那增量的呢？", conversation_id=first.conversation_id)
    assert any("增量备份保留7天" in sentence for sentence in quotes_of(wb, str(run.response)))
    assert calls(wb, run, "executor")[-1] == "rewrite_artifact"
    assert "create_artifact" not in calls(wb, run, "executor")
    assert run.artifacts["research_report"].version == 2


@pytest.mark.parametrize(("failures", "status", "looks"), [(1, "completed", 1), (9, "failed", 3)])
def test_temporary_failure_is_retried(tmp_path: Path, failures: int, status: str, looks: int) -> None:
    """A search engine that does not answer is asked until the retries are used up; then the plan ends."""
    queries: list[str] = []

    def search(request: WebRequest) -> Reply:
        queries.append(request.path)
        found = {"results": [{"title": "Rain gauge", "url": server.url("/rain"), "content": "In frost it rests."}]}
        is_down = len(queries) <= failures
        return Reply(b"", status=500) if is_down else Reply(json.dumps(found).encode(), content_type="application/json")

    page = Reply(f"<title>Rain gauge</title><h1>Rain gauge</h1><p>{RAIN}".encode(), content_type="text/html")
    with WebServer({"/search": search, "/rain": page}) as server:
        options = {"search": "searxng", "searxng_url": server.url(""), "allowed_hosts": server.host}
        with open_workbench(tmp_path, **options) as wb:
            run = planned(wb, "What does the rain gauge do in frost?")
            assert ends(run)[0] == ("Find out: What does the rain gauge do in frost?", status)
            assert calls(wb, run, "replanner") == ["plan_decide"] * looks
            response = str(run.response)
    assert (RAIN in response) == (status == "completed")
    assert ("web_search failed: " in response) == (status == "failed")


ASKED = {"approval": {"enabled": True}}


def test_rejected_plan_is_not_carried_out(tmp_path: Path) -> None:
    """The answer says that nothing was done, and gives the reason."""
    with open_workbench(tmp_path, graph_config=ASKED, approvals="ask") as wb:
        run = planned(wb, "How are backups checked?").deny("Not today.").wait(60)
        assert run.status == "completed"
        assert str(run.response).startswith(
            "The plan was not carried out: Permission denied. The person says: Not today."
        )
        assert calls(wb, run, "executor") == []


def test_step_in_the_persons_words_is_carried_out(tmp_path: Path) -> None:
    """Steps without tools or question are understood by their words: an address, a subject, a report."""
    steps = [
        {"title": "Read local:handbook/sensors.md#rain-gauge about frost"},
        {"title": "Look up how raw files are kept"},
        {"title": "Summarize all of it"},
    ]
    with open_workbench(tmp_path, graph_config=ASKED, approvals="ask") as wb:
        run = planned(wb, "What does the rain gauge do in frost?")
        run.approve(params={"title": "Mine", "steps": steps}).wait(60)
        assert [status for _, status in ends(run)] == ["completed"] * 3
        quotes = quotes_of(wb, run.artifacts["research_report"].content)
        assert {RAIN, "Raw files are kept for ever."} <= set(quotes)
        assert "### Look up how raw files are kept" in str(run.response)
        assert calls(wb, run, "executor")[0] == "web_fetch"


def test_denied_report_still_gives_the_answer(tmp_path: Path) -> None:
    """The answer quotes the findings; the denied step is not retried."""
    with open_workbench(tmp_path, approvals={"create_artifact": "deny"}) as wb:
        run = planned(wb, "What does the rain gauge do in frost?")
        assert ends(run)[-1] == ("Write the report", "failed")
        assert calls(wb, run, "replanner") == ["plan_decide"]
        assert RAIN in quotes_of(wb, str(run.response))
        assert "Not done: Write the report: The report was not written: Permission denied" in str(run.response)
        assert "`research_report`" not in str(run.response)


@pytest.mark.parametrize(
    "config",
    [{"summarizer": {"enabled": False}}, {"replanner": {"enabled": False}}, {"planner": {"enabled": False}}],
    ids=["no summarizer", "no replanner", "no planner"],
)
def test_answer_does_not_depend_on_one_agent(tmp_path: Path, config: dict[str, Any]) -> None:
    """Without a summarizer, a replanner or a planner the same fact is found and cited."""
    with open_workbench(tmp_path, graph_config=config) as wb:
        run = planned(wb, "What does the rain gauge do in frost?")
        assert RAIN in quotes_of(wb, str(run.response))


def test_skipped_steps_are_listed_by_reason(tmp_path: Path) -> None:
    """Steps that were skipped for the same reason are listed together with the reason."""
    with open_workbench(tmp_path, graph_config={"executor": {"max_steps": 1}}) as wb:
        response = str(planned(wb, "What does the rain gauge do in frost? How are backups checked?").response)
    assert (
        "Not done: Find out: How are backups checked?; Write the report: The limit of 1 executed step was reached."
        in response
    )


@pytest.mark.parametrize(
    ("tool", "reason"), [("read_artifact", "no_tool"), ("web_fetch", "no_address"), ("create_artifact", "nothing")]
)
def test_step_without_tools_or_material_fails(tmp_path: Path, tool: str, reason: str) -> None:
    """A first step that cannot look up anything, or only read or write what others have found, fails with the plan."""
    steps = [{"title": "Begin", "tools": [tool]}]
    script = ScriptedModel(lambda request: _from(request, steps))
    with open_workbench(tmp_path, agent_models={"agent": script}) as wb:
        run = planned(wb, "What does the rain gauge do in frost?")
        assert ends(run) == [("Begin", "failed")]
        assert plan_of(run).steps[0].result.startswith(PHRASES["en"][reason])
        assert calls(wb, run, "replanner") == ["plan_decide"]


def _from(request: ModelRequest, steps: Sequence[dict[str, Any]]) -> str:
    has_replied = any(message.role == "assistant" for message in request.messages)
    assert requesting_agent(request) == "agent"
    return "Over." if has_replied else call("plan_create", title="A plan", steps=list(steps))
