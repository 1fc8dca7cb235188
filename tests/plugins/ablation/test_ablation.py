"""What decided it: sources withheld from forks and steps sampled again, at a loopback endpoint that counts requests."""

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from support.chat_endpoint import Answer, ChatServer, Request, calling

import artifactflow_nb as af

OpenWorkbench = Callable[..., af.Workbench]
N_SOURCES, AT_ONCE = 12, 6
DEPTHS = {n: 10 * n for n in range(1, N_SOURCES + 1)}
REPORT = """The depth of lake 1 is 10 m [1]. The depth of lake 2 is 20 m [2].

## Sources

1. Lake 1 — local:lakes/lake01.md#lake-1
2. Lake 2 — local:lakes/lake02.md#lake-2
"""
ADDRESSES = [f"local:lakes/lake{n:02}.md#lake-{n}" for n in DEPTHS]


def answer(request: Request) -> Answer:
    """Read twelve sources in two calls; the answer is the sum of the depths of the first three lakes that it has."""
    messages = request.body["messages"]
    text = "\n".join(str(message.get("content") or "") for message in messages[1:])
    offered = {tool["function"]["name"] for tool in request.body.get("tools", ())}
    if "call_subagent" in offered:
        if "Facts:" not in text:
            call = {"agent_name": "crawl_agent", "instruction": "Read the sources about the lakes."}
            return calling(("call_subagent", call))
        if "report" in text and "create_artifact" not in str(messages[1:]):
            return calling(("create_artifact", {"id": "report", "title": "Report", "content": REPORT}))
        found = {int(n): int(depth) for n, depth in re.findall(r"lake (\d+) is (\d+) m", text)}
        return Answer(f"The three lakes have {sum(found.get(n, 0) for n in (1, 2, 3))} m together.")
    n_calls = sum(bool(message.get("tool_calls")) for message in messages)
    if n_calls < N_SOURCES // AT_ONCE:
        return calling(("web_fetch", {"urls": ADDRESSES[n_calls * AT_ONCE : (n_calls + 1) * AT_ONCE]}))
    facts = sorted(set(re.findall(r"The depth of (lake \d+ is \d+ m)", text)))
    return Answer("Facts: " + "; ".join(facts))


@pytest.fixture
def lakes(tmp_path: Path) -> Path:
    folder = tmp_path / "lakes"
    folder.mkdir()
    for n, depth in DEPTHS.items():
        (folder / f"lake{n:02}.md").write_text(f"# Lake {n}\n\nThe depth of lake {n} is {depth} m.\n")
    return folder


@pytest.fixture
def server() -> Iterator[ChatServer]:
    with ChatServer(answer) as endpoint:
        yield endpoint


@pytest.fixture
def wb(workbench: OpenWorkbench, server: ChatServer, lakes: Path) -> af.Workbench:
    model = af.OpenAIModel(server.base_url, "key", "loopback-1")
    wb = workbench(model=model, interactive=False, prices={"loopback-1": {"input": 1, "output": 1}})
    wb.sources.add(lakes)
    return wb


def test_source_on_which_the_answer_rests_changes_it_and_no_call_before_it_is_repeated(
    wb: af.Workbench, server: ChatServer
) -> None:
    """Of twelve sources three decide the figure. A fork asks the endpoint from the call that found its source on."""
    run = wb.ask("How deep are the first three lakes together?").wait()
    assert run.response == "The three lakes have 60 m together."
    assert len(server.requests) == 5
    before = run.rows()

    ablation = wb.studies.ablate(run, repeats=2).wait()

    # From the first call of web_fetch on there are three requests, from the second two.
    assert len(server.requests) - 5 == 2 * 6 * (3 + 2)
    df = ablation.df
    assert sorted(df["address"]) == sorted(address.partition("#")[0] for address in ADDRESSES)
    decisive = df[df["changed"] == 2]
    assert sorted(decisive["title"]) == ["Lake 1", "Lake 2", "Lake 3"]
    assert df["changed"].tolist() == [2] * 3 + [0] * 9
    assert (df["n"] == 2).all()
    assert df["low"][0] == pytest.approx(0.342, abs=0.001)  # Wilson, 2 of 2
    assert (df["cost_usd"] > 0).all()
    assert run.rows() == before
    first = ablation.forks("local:lakes/lake02.md")[0]
    assert first.response == "The three lakes have 40 m together."
    assert "lake02" in first.steps[first_fetch(first)].row["metadata_json"]  # as an address that could not be read


def first_fetch(run: af.Run) -> int:
    return next(number for number, step in enumerate(run.steps) if step.name == "web_fetch")


def test_forks_are_in_a_conversation_of_their_own_and_are_found_again(wb: af.Workbench, server: ChatServer) -> None:
    """The conversation of the run does not change, also if it has earlier messages; a second call asks nothing."""
    wb.ask("How deep are the lakes?").wait()
    first = wb.runs()[0]
    run = wb.ask("And the first three?", conversation_id=first).wait()
    messages = wb.messages_df(conversation=run)
    ablation = wb.studies.ablate(run, repeats=1).wait()
    assert wb.messages_df(conversation=run).equals(messages)
    fork = ablation.forks(ablation.df["address"][0])[0]
    assert fork.conversation_id != run.conversation_id
    assert wb.messages_df(conversation=fork)["content"].tolist()[0] == first.question
    assert any(first.response in str(message) for message in server.requests[-1].body["messages"])
    (entry,) = wb.conversations("Ablation")
    assert entry.conversation_id == fork.conversation_id

    n_requests = len(server.requests)
    again = wb.studies.ablate(run, repeats=1).wait()
    assert again.df.equals(ablation.df)
    assert len(server.requests) == n_requests


def test_withheld_source_is_in_no_search_and_cannot_be_read(wb: af.Workbench) -> None:
    """Search, passages, word counts and fetch leave the source out; other sources of its folder remain."""
    from artifactflow_nb.tools.base import ToolContext
    from artifactflow_nb.tools.web.tools import web_fetch, web_search

    run = wb.ask("How deep are the first three lakes together?").wait()
    engine = wb._thread.engine

    def call(entry: object, sources: list[str], **params: object) -> str:
        async def work() -> str:
            stored = await engine.runs.get(run.run_id)
            stored.settings["sources"] = sources
            ctx = ToolContext("r", "c", "m", "a", "t", services=engine._tool_services(stored))
            result = await entry.run(ctx, params)  # type: ignore[attr-defined]
            return str(result.data or result.error)

        return wb._thread.call(work())

    assert "lake02" in call(web_search, ["lakes/"], query="depth of lake 2", max_results=12)
    without = call(web_search, ["lakes/", "-local:lakes/lake02.md"], query="depth of lake 2", max_results=12)
    assert "lake02" not in without
    assert "lake03" in without
    assert "Words in the 11 passages searched" in without
    read = call(web_fetch, ["lakes/", "-local:lakes/lake02.md"], urls=ADDRESSES[1:3])
    assert "is 20 m" not in read
    assert "is 30 m" in read


def test_step_is_sampled_again_and_a_grade_decides(wb: af.Workbench) -> None:
    """A deterministic endpoint repeats itself, so no step changes the grade; the last step asks once a fork."""
    run = wb.ask("How deep are the first three lakes together?").wait()
    grade = lambda text: float("60" in text)  # noqa: E731
    df = wb.studies.ablate(run, by="steps", repeats=1, grade=grade).wait().df
    assert df["step"].tolist() == sorted(step.number for step in run.steps if step.kind == "model")
    assert df["changed"].tolist() == [0] * 5
    assert df["grade_change"].tolist() == [0.0] * 5
    by_source = wb.studies.ablate(run, repeats=1, grade=grade).wait()
    assert by_source.df["grade_change"].tolist() == [-1.0] * 3 + [0.0] * 9
    assert "3 of 3" not in by_source._card().plain()
    assert "1 of 1" in by_source._card().plain()


def test_claims_that_no_other_source_supports_fall_with_their_source(wb: af.Workbench) -> None:
    """Another source that says the same keeps a claim."""
    (wb.data_dir.parent / "lakes" / "lake12.md").write_text("# Lake 12\n\nThe depth of lake 2 is 20 m.\n")
    run = wb.ask("Write a report about the lakes.").wait()
    assert wb.claims_df(run)["status"].tolist() == ["supported"] * 2
    claims = wb.studies.ablate(run, repeats=1).wait().df.set_index("address")["claims"]
    assert claims["local:lakes/lake01.md"] == ["The depth of lake 1 is 10 m."]
    assert claims["local:lakes/lake02.md"] == []


def test_fork_whose_grade_fails_counts_as_a_fork_without_one(wb: af.Workbench, server: ChatServer) -> None:
    """A failed grade is no unchanged outcome; a run that cannot be graded is refused before a fork is paid for."""
    run = wb.ask("How deep are the first three lakes together?").wait()

    def grade(text: str) -> float:
        if "60" not in text:
            raise ValueError("another depth")
        return 1.0

    df = wb.studies.ablate(run, repeats=1, grade=grade).wait().df
    without = df[df["title"].isin(["Lake 1", "Lake 2", "Lake 3"])]
    assert without[["n", "n_without", "changed"]].to_numpy().tolist() == [[0, 1, 0]] * 3
    assert without["share"].isna().all()
    assert df["n"].sum() == 9
    n_requests = len(server.requests)
    for broken in (lambda _text: float("nan"), lambda _text: 1 / 0, af.graders.exact("expected")):
        with pytest.raises(af.errors.UsageError, match="The answer of the run cannot be graded"):
            wb.studies.ablate(run, repeats=2, grade=broken)
    assert len(server.requests) == n_requests


def test_cost_of_forks_with_an_unknown_price_is_unknown(workbench: OpenWorkbench, server: ChatServer) -> None:
    wb = workbench(model=af.OpenAIModel(server.base_url, "key", "loopback-1"), interactive=False)
    ablation = wb.studies.ablate(wb.ask("How deep are the lakes?").wait(), by="steps", repeats=1).wait()
    assert ablation.df["cost_usd"].isna().all()
    assert "unknown" in ablation._card().plain()


@pytest.mark.parametrize(
    ("answer", "other", "same"),
    [
        ("It is 1,200 m deep.", "Its depth is 1.2 km.", True),
        ("It is 1,200 m deep.", "It is 1,300 m deep.", False),
        ("It is 12 m [1].\n\n## Sources\n\n1. A 7 — local:a#7", "12 m it is [2, 3].", True),
        ("It is deep.", "it  is deep.", True),
        ("It is deep.", "It is shallow.", False),
        ("It is deep.", "It is 3 m deep.", False),
    ],
)
def test_outcome_is_compared_by_figures_and_without_figures_by_words(answer: str, other: str, same: bool) -> None:
    from artifactflow_nb.plugins.ablation import is_same_answer

    assert is_same_answer(answer, other) is same


def test_invalid_arguments_are_refused(wb: af.Workbench) -> None:
    run = wb.ask("How deep are the first three lakes together?").wait()
    for options in ({"by": "tools"}, {"repeats": 0}, {"grade": 3}):
        with pytest.raises(af.errors.UsageError, match=f"{next(iter(options))} is"):
            wb.studies.ablate(run, **options)
