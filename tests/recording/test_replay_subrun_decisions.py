"""Decisions on several parallel subruns are replayed in order."""

import asyncio
import random
import time
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from flows.test_run_research import research, turns
from recording.test_replay_subruns import ask_for_research, comparable, with_look
from support.recorded_scenes import WAIT_S, Stage, jobs, open_scene, play_both
from support.recorded_scenes import with_look as search_with_look
from support.replies import call, report, requesting_agent

import artifactflow_nb as af
from artifactflow_nb.core.approvals import ApprovalRequest, Decision
from artifactflow_nb.errors import Conflict
from artifactflow_nb.models.base import ModelEvent, ModelRequest
from artifactflow_nb.models.scripted import ScriptedModel


class Researching(ScriptedModel):
    """A composer that starts a parallel subrun for each word; each subrun looks up its word repeatedly.

    Args:
        looks: The number of look-ups by word.
        delays: The seconds that a turn takes, by word and turn; other turns take none.
    """

    def __init__(self, looks: Mapping[str, int], delays: Mapping[tuple[str, int], float]) -> None:
        self._looks, self._delays = looks, delays
        self._composer = turns("".join(research(f"What is {word}?") for word in looks), "Done.")
        super().__init__(self._turn)

    def _turn(self, request: ModelRequest) -> Any:
        if requesting_agent(request) != "lead":
            return self._composer(request)
        word, turn = self._place(request)
        n_looks = self._looks[word]
        return call("look", word=f"{word}{turn}") if turn < n_looks else [report(f"Of {word}."), "."][turn - n_looks]

    def _place(self, request: ModelRequest) -> tuple[str, int]:
        text = " ".join(message.content for message in request.messages)
        word = next(word for word in self._looks if f"What is {word}" in text)
        return word, sum(message.role == "assistant" for message in request.messages)

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        if requesting_agent(request) == "lead":
            await asyncio.sleep(self._delays.get(self._place(request), 0))
        async for event in super().stream(request):
            yield event


@dataclass
class Answer:
    """A decision on the look-up of a word by `click` or `code`, and the pause after it."""

    word: str
    decider: str
    approved: bool = True
    pause_s: float = 0.0
    waits: bool = False


def open_request(run: af.Run, word: str) -> ApprovalRequest | None:
    return next((request for request in run.pending if request.params["word"] == word), None)


def decide(stage: Stage, run: af.Run, answer: Answer) -> None:
    """Decide each request as soon as it is open; a replay repeats clicks, and may have repeated decisions of code."""
    if answer.decider == "click" and stage.is_played:
        return
    until = time.monotonic() + WAIT_S
    while (request := open_request(run, answer.word)) is None:
        if stage.is_played and run.status != "running":
            run.wait(WAIT_S)
            if open_request(run, answer.word) is None:
                return
        assert time.monotonic() < until, f"{answer.word} was never asked; the run is {run.status}."
        time.sleep(0.005)
    try:
        stage.decide(request, answer.decider, Decision(answer.approved))
    except Conflict:
        assert stage.is_played


def play(folder: Path, model: Researching, answers: list[Answer]) -> str:
    """Record and replay the answers; return the last status."""

    def scene(stage: Stage) -> Any:
        project, run = ask_for_research(stage)
        for answer in answers:
            decide(stage, run, answer)
            time.sleep(answer.pause_s)
            if answer.waits:
                run.wait(WAIT_S)
        return comparable(project, run.wait(WAIT_S))

    return str(play_both(folder, scene, model, setup=with_look)[0])


@pytest.mark.parametrize("first", ["click", "code"])
@pytest.mark.parametrize("second", ["click", "code"])
def test_subrun_decided_while_another_runs_is_replayed(tmp_path: Path, first: str, second: str) -> None:
    """Both subruns wait at one pause; no further pause lies between the decisions."""
    model = Researching({"X": 1, "Y": 1}, {("X", 1): 0.3})
    answers = [Answer("X0", first, pause_s=0.1), Answer("Y0", second)]
    assert play(tmp_path, model, answers) == "completed"


@pytest.mark.parametrize("second", ["click", "code"])
def test_subrun_decided_after_two_requests_of_another_is_replayed(tmp_path: Path, second: str) -> None:
    model = Researching({"X": 2, "Y": 1}, {("X", 1): 0.05, ("X", 2): 0.3})
    answers = [Answer("X0", "click"), Answer("X1", "click", approved=False), Answer("Y0", second)]
    assert play(tmp_path, model, answers) == "completed"


@pytest.mark.parametrize("seed", range(8))
def test_decisions_in_any_order_are_replayed(tmp_path: Path, seed: int) -> None:
    """Two or three subruns have up to two requests each, decided at any time by clicks or by code."""
    any_of = random.Random(seed)  # noqa: S311 - a seed repeats the same numbers
    looks = {word: any_of.choice([0, 1, 1, 2]) for word in "XYZ"[: any_of.choice([2, 2, 3])]}
    delays = {(word, turn): any_of.choice([0, 0, 0.02, 0.1]) for word in looks for turn in range(4)}
    words = [word for word, n_looks in looks.items() for _ in range(n_looks)]
    any_of.shuffle(words)
    answers = [
        Answer(
            f"{word}{words[:n].count(word)}",
            any_of.choice(["click", "code"]),
            approved=any_of.random() > 0.2,
            pause_s=any_of.choice([0, 0, 0.03, 0.08]),
            waits=any_of.random() < 0.5,
        )
        for n, word in enumerate(words)
    ]
    assert play(tmp_path, Researching(looks, delays), answers) == "completed"


def test_request_after_the_end_of_the_recording_waits(tmp_path: Path) -> None:
    """The run continues live after the recorded request, and waits for a new request."""
    cassette = tmp_path / "c.jsonl"
    for folder, mode in (("a", "record"), ("b", "auto")):
        model = Researching({"X": 2}, {})
        with open_scene(tmp_path / folder, model=model, record=cassette, mode=mode, setup=with_look) as wb:
            stage = Stage(wb, is_played=mode == "auto")
            project, run = ask_for_research(stage)
            assert [request.params["word"] for request in run.pending] == ["X0"]
            if mode == "auto":
                run.approve().wait(WAIT_S)
                assert (run.status, [request.params["word"] for request in run.pending]) == ("waiting", ["X1"])
                run.approve().wait(WAIT_S)
                assert (run.status, project["What is X?"].content) == ("completed", "Of X.")
                assert len(model.requests) == 4


@pytest.mark.parametrize("decider", ["click", "code"])
@pytest.mark.parametrize("words", ["X", "XY"])
def test_run_cancelled_while_its_approved_subrun_runs_is_replayed(tmp_path: Path, decider: str, words: str) -> None:
    """Run and subrun end at the same event, and no model is called."""

    def scene(stage: Stage) -> Any:
        project, run = ask_for_research(stage)
        decide(stage, run, Answer("X0", decider))
        time.sleep(0.2)
        if decider == "code" or not stage.is_played:
            stage.wb._thread.call(stage.wb._thread.engine.controller.cancel(run.run_id, by_code=decider == "code"))
        return comparable(project, run.wait(WAIT_S))

    model = Researching(dict.fromkeys(words, 1), {("X", 1): 0.5})
    assert play_both(tmp_path, scene, model, times=2, setup=with_look)[0] == "cancelled"


def test_subrun_cancelled_by_code_while_another_runs_is_replayed(tmp_path: Path) -> None:
    """Code may cancel the subrun again."""
    cancelled = list[str]()

    def scene(stage: Stage) -> Any:
        project, run = ask_for_research(stage)
        if not stage.is_played:
            cancelled.append(next(request.run_id for request in run.pending if request.params["word"] == "X0"))
        decide(stage, run, Answer("Y0", "click"))
        time.sleep(0.2)
        stage.wb.run(cancelled[0]).cancel()
        return comparable(project, run.wait(WAIT_S))

    model = Researching({"X": 1, "Y": 1}, {("Y", 1): 0.5})
    assert play_both(tmp_path, scene, model, times=2, setup=with_look)[0] == "completed"


def test_decision_of_code_before_the_recorded_pause_waits(tmp_path: Path) -> None:
    """The recorded cell was slow; the cell in the replay decides at once."""

    def scene(stage: Stage) -> Any:
        project = stage.wb.projects.start("Essay", template="paper")
        run = stage.ask("Find out.", conversation_id=project.conversation_id, flow="compose")
        while not run.pending:
            time.sleep(0.002)
        time.sleep(0 if stage.is_played else 0.5)
        decide(stage, run, Answer("X0", "code"))
        return comparable(project, run.wait(WAIT_S))

    assert play_both(tmp_path, scene, Researching({"X": 1}, {}), times=3, setup=with_look)[0] == "completed"


def decide_as_a_cell_does(stage: Stage, n_clicks: int) -> Any:
    """After clicks at a pause, code waits for a request and decides without naming its id."""
    project = stage.wb.projects.start("Essay", template="paper")
    run = stage.ask("Find out.", conversation_id=project.conversation_id, flow="compose")
    if n_clicks:
        run.wait(WAIT_S)
    for _ in range(n_clicks):
        stage.click(run)
    until = time.monotonic() + WAIT_S
    while n_clicks != 1 and not run.pending:
        assert time.monotonic() < until, "Nothing was asked."
        time.sleep(0.1)
    run.deny("Not this one.")
    return comparable(project, run.wait(WAIT_S))


@pytest.mark.parametrize(
    ("looks", "n_clicks"),
    [
        pytest.param({"X": 1, "Y": 0}, 0, id="at once"),
        pytest.param({"X": 1, "Y": 1}, 1, id="after one click of two"),
        pytest.param({"X": 2, "Y": 1}, 2, id="asked after clicks"),
    ],
)
def test_decision_without_an_id_is_on_the_recorded_request(
    tmp_path: Path, looks: dict[str, int], n_clicks: int
) -> None:
    """Several requests are open; the replay takes the request that was decided."""
    model = Researching(looks, {("Y", 0): 0.5, ("X", 1): 0.3, ("Y", 1): 0.6})
    scene = partial(decide_as_a_cell_does, n_clicks=n_clicks)
    assert play_both(tmp_path, scene, model, times=3, setup=with_look)[0] == "completed"


class SlowSearch(ScriptedModel):
    """Two parallel search agents: one agent looks up a word, the other agent is slow."""

    def __init__(self) -> None:
        self._lead = iter([jobs("a", "b"), report("Of both."), "Done."])
        super().__init__(self._turn)

    def _turn(self, request: ModelRequest) -> str:
        if requesting_agent(request) == "lead":
            return next(self._lead)
        must_look = request.messages[1].content.startswith("a") and len(request.messages) == 2
        return call("look", word="a") if must_look else "It is found."

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        is_slow = requesting_agent(request) == "search" and request.messages[1].content.startswith("b")
        await asyncio.sleep(0.8 if is_slow else 0)
        async for event in super().stream(request):
            yield event


def test_decision_of_code_while_another_agent_runs_is_replayed(tmp_path: Path) -> None:
    """No pause is recorded; the replay waits for the cell."""

    def scene(stage: Stage) -> Any:
        run = stage.ask()
        until = time.monotonic() + WAIT_S
        while not run.pending:
            assert time.monotonic() < until, "Nothing was asked."
            time.sleep(0.1)
        return run.deny("Not this one.").wait(WAIT_S).status

    setup = partial(search_with_look, permission="confirm")
    assert play_both(tmp_path, scene, SlowSearch(), times=3, setup=setup) == "completed"


class SlowLead(ScriptedModel):
    """The composer asks for research and for a chain of texts in one reply, and the research is slowest."""

    def __init__(self, n_texts: int, *more: str) -> None:
        texts = "".join(call("generate_field_content", field_name=f"B{n}") for n in range(n_texts))
        super().__init__(turns(research() + texts, *more, "Done."))

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        await asyncio.sleep(0.3 if requesting_agent(request) == "lead" else 0)
        async for event in super().stream(request):
            yield event


def during_research(stage: Stage, n_texts: int, **options: Any) -> Any:
    project = stage.wb.projects.start("Essay", template="paper")
    for n in range(n_texts):
        project.add(f"B{n}", phase="writing", depends_on=[f"B{n - 1}"] if n else [])
    run = stage.ask("Find out.", conversation_id=project.conversation_id, flow="compose", **options)
    return comparable(project, run.wait(WAIT_S))


def test_budget_of_writers_parallel_to_a_subrun_is_replayed(tmp_path: Path) -> None:
    """The costs of the subrun count once the composer continues."""
    scene = partial(during_research, n_texts=3, budget={"tokens": 6000})
    assert play_both(tmp_path, scene, SlowLead(3), times=2, setup=with_look)[0] == "failed"


def test_remaining_budget_is_replayed(tmp_path: Path) -> None:
    """Each subrun starts with the same remaining budget."""
    scene = partial(during_research, n_texts=3, budget={"tokens": 60_000, "usd": 1, "seconds": 600})
    model = SlowLead(3, research("What is Y?") + research("What is Z?"))
    prices = {"scripted": {"input": 1, "output": 3}}
    assert play_both(tmp_path, scene, model, times=3, setup=with_look, prices=prices)[0] == "completed"


def test_chain_of_writers_parallel_to_a_subrun_is_replayed(tmp_path: Path) -> None:
    """No writer sees the blocks that the subrun of the same reply adds."""
    model = SlowLead(8)
    assert play_both(tmp_path, partial(during_research, n_texts=8), model, times=2, setup=with_look)[0] == "completed"
    writers = [request.messages[-1].content for request in model.requests if requesting_agent(request) == "writer"]
    assert len(writers) == 8
    assert not any("What is X?" in ask_for_research for ask_for_research in writers)
