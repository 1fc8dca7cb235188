"""The second stage of a search in deep runs: a model scores the passages that the index found."""

import json
import re
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest
from support.chat_endpoint import Answer, ChatServer, Request
from support.replies import call

import artifactflow_nb as af
from artifactflow_nb.engine.folder_file import STORE_FILE
from artifactflow_nb.errors import ModelUnavailable
from artifactflow_nb.flows.passage_scorer import read_scores
from artifactflow_nb.models.base import ModelRequest
from artifactflow_nb.sources.citations import read_hits
from artifactflow_nb.sources.retrieval.scoring import fuse_ranks

QUESTION = "How deep is the mooring of Brenholm?"
SENTENCE = "The mooring of Brenholm stands in 412 m of water."
CONFIG = {"lead_agent": {"tools": ["web_search"]}}
Scoring = Callable[[str], str]


def is_scoring(request: ModelRequest) -> bool:
    return "You judge how well passages" in request.messages[0].content


def is_rewriting(request: ModelRequest) -> bool:
    return "You write search queries." in request.messages[0].content


def good_scores(instruction: str) -> str:
    """Score the passage with the sentence 9, one other passage 5, and all other passages 1."""
    entries = []
    for number, text in re.findall(r'<passage number="(\d)"[^>]*>\n(.*?)\n</passage>', instruction, re.DOTALL):
        score = 9 if SENTENCE in text else 5 if "# Note 3\n" in text else 1
        quotes = [SENTENCE, "An invented sentence."] if score == 9 else []
        entries.append({"passage": int(number), "score": score, "sentences": quotes})
    return f"Here are the scores:\n```json\n{json.dumps(entries)}\n```"


@pytest.fixture
def notes(tmp_path: Path) -> Path:
    """Forty notes that repeat the words of the question, and a note with the answer in the middle of the ranking."""
    folder = tmp_path / "notes"
    folder.mkdir()
    for n in range(40):
        text = "How deep a mooring is, nobody at Brenholm knows. " * (1 + n % 3)
        (folder / f"note{n:02}.md").write_text(f"# Note {n}\n\n{text}\n", encoding="utf-8")
    (folder / "sheet.md").write_text(f"# Sheet\n\n{SENTENCE}\n", encoding="utf-8")
    return folder


@pytest.fixture
def ask(notes: Path, tmp_path: Path) -> Callable[..., tuple[af.Workbench, af.Run, af.ScriptedModel]]:
    """Ask with a lead that searches once; `scoring` answers the requests for scores."""

    def ask_once(
        scoring: Scoring = good_scores, depth: Any = "deep", **options: Any
    ) -> tuple[af.Workbench, af.Run, af.ScriptedModel]:
        def script(request: ModelRequest) -> Any:
            if is_rewriting(request):
                return '1. anchor depth sounding\n- "Brenholm sheet"\n'
            if is_scoring(request):
                answer = scoring(request.messages[-1].content)
                if isinstance(answer, Exception):
                    raise answer
                return answer
            has_searched = any("Address:" in message.content for message in request.messages)
            return "Done." if has_searched else af.ToolCall("web_search", {"query": "Brenholm mooring depth"})

        model = af.ScriptedModel(script)
        budget = options.pop("budget", None)
        options = {"data_dir": tmp_path / "data", "interactive": False, "graph_config": CONFIG, **options}
        wb = af.Workbench(model=model, **options)
        wb.sources.add(notes)
        return wb, wb.ask(QUESTION, depth=depth, budget=budget).wait(), model

    return ask_once


def hits_of(run: af.Run) -> list[Any]:
    (call,) = run.rows()["tool_calls"]
    return read_hits(call["result"])


def test_deep_search_keeps_passages_with_five_and_more(ask: Any) -> None:
    """30 candidates are scored in five requests; the snippet is the sentence that occurs word for word."""
    wb, run, model = ask()
    hits = hits_of(run)
    assert [hit.address for hit in hits] == ["local:notes/sheet.md#sheet", "local:notes/note03.md#note-3"]
    assert hits[0].snippet == SENTENCE
    scored = [request.messages[-1].content for request in model.requests if is_scoring(request)]
    assert len(scored) == 5
    assert all(text.count("<passage ") == 6 for text in scored)
    assert all(text.startswith(f"Question: {QUESTION}\nThe search was for: Brenholm mooring depth") for text in scored)
    calls = wb.llm_calls_df(run)
    assert (calls["agent_name"] == "passage_scorer").sum() == 5
    assert run.metrics.total_tokens == calls["total_tokens"].sum()
    assert wb.sources.search_df("Brenholm mooring depth")["address"][0] != "local:notes/sheet.md#sheet"
    wb.close()


def test_deep_search_finds_other_words(ask: Any, notes: Path) -> None:
    """A model writes the question in other words, and a text with only those words is among the scored passages."""
    (notes / "glossary.md").write_text("# Glossary\n\nAn anchor depth sounding takes an hour.\n", encoding="utf-8")
    wb, run, model = ask()
    scored = [request.messages[-1].content for request in model.requests if is_scoring(request)]
    assert any("anchor depth sounding" in text for text in scored)
    assert wb.llm_calls_df(run)["agent_name"].tolist().count("query_rewriter") == 1
    wb.close()


@pytest.mark.parametrize("depth", ["quick", "standard"])
def test_other_depths_add_no_model_call(ask: Any, depth: str) -> None:
    """The ranking of the index is used, and only the agents call the model."""
    wb, run, model = ask(depth=depth)
    assert len(model.requests) == 2
    assert len(hits_of(run)) == 5
    wb.close()


def raising(_instruction: str) -> Any:
    return ModelUnavailable("The endpoint is gone.")


@pytest.mark.parametrize(
    "scoring",
    [
        lambda _text: "I like passage 3.",
        lambda _text: "[]",
        lambda _text: '[{"passage": 1, "score": 11}]',
        lambda text: good_scores(text).replace('"passage": 2', '"passage": 99'),
        raising,
    ],
    ids=["prose", "empty", "out of range", "unknown passage", "failing"],
)
def test_malformed_scores_leave_the_ranking_of_the_index(ask: Any, scoring: Scoring) -> None:
    """The run completes with the hits of the first stage."""
    wb, run, _ = ask(scoring)
    seen = wb.sources.search_df("Brenholm mooring depth", limit=5)
    assert run.status == "completed"
    assert [hit.address for hit in hits_of(run)] == list(seen["address"])
    wb.close()


def test_spent_budget_leaves_the_ranking_of_the_index(ask: Any) -> None:
    """No passage is scored once the budget is spent, and the run stops as without a second stage."""
    wb, run, model = ask(budget=af.Budget(tokens=10))
    assert run.status == "failed"
    assert not any(map(is_scoring, model.requests))
    assert len(hits_of(run)) == 5
    wb.close()


def test_scores_are_recorded_and_replayed(ask: Any, tmp_path: Path) -> None:
    """A replay plays the rows of the scoring calls and needs no model; tokens and result are the same."""
    cassette = tmp_path / "scores.jsonl"
    recorded, run, _ = ask(record=cassette)
    before = run.response, run.metrics.total_tokens, hits_of(run), len(recorded.llm_calls_df(run))
    recorded.close()
    replayed, run, model = ask(raising, replay=cassette, data_dir=None)
    assert (run.response, run.metrics.total_tokens, hits_of(run), len(replayed.llm_calls_df(run))) == before
    assert model.requests == []
    replayed.close()


def test_scored_run_is_verified_forked_and_displayed(ask: Any, tmp_path: Path) -> None:
    """A verification compares the search by its recorded result, a fork copies the scores, a seal contains them."""
    wb, run, model = ask()
    assert run.verify().is_same, run.verify().differences
    paths = [step.path for step in run.steps if step.agent == "passage_scorer"]
    assert sorted(paths) == [f"main/1.1~{n}" for n in range(1, 6)]
    n_requests = len(model.requests)
    last = max(step.number for step in run.steps if step.agent == "lead_agent" and step.kind == "model")
    forked = run.fork(last, prompt="Be brief.").wait()
    assert forked.status == "completed"
    assert len(model.requests) == n_requests + 1
    assert len(af.open_run(run.seal(tmp_path / "run.afrun")).steps) == len(run.steps)
    assert "Passage scorer" in str(wb.timeline(run).saved_output())
    wb.close()


def test_search_is_cancelled_in_the_middle_of_scoring(ask: Any, notes: Path, tmp_path: Path) -> None:
    """Cancelling the run ends the scoring calls; each call is stored with its error."""

    def script(request: ModelRequest) -> Any:
        return "x" * 4_000 if is_scoring(request) else af.ToolCall("web_search", {"query": "Brenholm mooring depth"})

    model = af.ScriptedModel(script, delay_s=0.05)
    with af.Workbench(model=model, data_dir=tmp_path / "slow", interactive=False, graph_config=CONFIG) as wb:
        wb.sources.add(notes)
        run = wb.ask(QUESTION, depth="deep")
        while not any(event.agent == "passage_scorer" for event in run.events):
            pass
        run.cancel()
        assert run.wait().status == "cancelled"
        errors = wb.llm_calls_df(run)["error_type"].dropna()
        assert (errors == "RunCancelled").sum() == len([r for r in model.requests if is_scoring(r)])


def test_stored_scores_are_not_paid_twice(ask: Any) -> None:
    """A search that is repeated, after a crash or in a fork, takes only the scoring calls that are not stored."""
    wb, run, model = ask()
    before = hits_of(run)
    last = max(step.number for step in run.steps if step.agent == "passage_scorer")
    model.requests.clear()
    forked = run.fork(last).wait()
    assert hits_of(forked) == before
    assert [is_scoring(request) for request in model.requests] == [True, False]
    wb.close()


def test_scores_may_come_in_any_order() -> None:
    """A score belongs to the passage that its entry names; sentences may be left out."""
    answer = '[{"passage": 2, "score": 7, "sentences": ["Beta is there."]}, {"passage": 1, "score": 0.5}]'
    first, second = read_scores(answer, ["Alpha is here.", "Beta is there."]) or []
    assert (first.score, first.sentences) == (0.5, ())
    assert (second.score, second.sentences) == (7.0, ("Beta is there.",))


def test_fused_ranking_prefers_hits_of_several_searches() -> None:
    """An item that is second in two rankings comes before an item that is first in one ranking."""
    assert fuse_ranks([["a", "b", "c"], ["d", "b"]]) == ["b", "a", "d", "c"]
    assert fuse_ranks([]) == []


ASKS = """
import sys
import artifactflow_nb as af
data, notes, url, question = sys.argv[1:]
config = {"lead_agent": {"tools": ["web_search"]}}
wb = af.Workbench(base_url=url, model="m", api_key="k", data_dir=data, interactive=False, graph_config=config)
wb.sources.add(notes)
wb.ask(question, depth="deep").wait()
"""


def count_scored(store: Path) -> int:
    """The stored replies of the passage scorer."""
    if not store.exists():
        return 0
    with closing(sqlite3.connect(store)) as db, suppress(sqlite3.OperationalError):  # its tables are not there yet
        return int(db.execute("SELECT count(*) FROM llm_calls WHERE agent_name = 'passage_scorer'").fetchone()[0])
    return 0


def test_killed_scoring_continues_with_the_missing_scores(notes: Path, tmp_path: Path) -> None:
    """After a kill with two of five replies stored, another process requests the three missing replies, each once."""
    scored: list[str] = []
    n_answered = 2

    def answer(request: Request) -> Answer:
        messages = request.body["messages"]
        if "You judge how well passages" in messages[0]["content"]:
            scored.append(messages[-1]["content"])
            return Answer(good_scores(scored[-1]), hang_after=None if len(scored) <= n_answered else 1)
        has_searched = any("Address:" in message["content"] for message in messages)
        return Answer("Done." if has_searched else call("web_search", query="Brenholm mooring depth"))

    data = tmp_path / "data"
    with ChatServer(answer) as server:
        code = [sys.executable, "-c", ASKS, str(data), str(notes), server.base_url, QUESTION]
        with subprocess.Popen(code) as child:
            while len(scored) < 5 or count_scored(data / STORE_FILE) < n_answered:
                assert child.poll() is None
                time.sleep(0.02)
            child.kill()
        before, n_answered = scored[:], 8
        with af.Workbench(
            base_url=server.base_url, model="m", api_key="k", data_dir=data, interactive=False, graph_config=CONFIG
        ) as wb:
            (run,) = wb.runs(unfinished=True)
            assert run.resume().wait().response.startswith("Done.")
            calls = wb.llm_calls_df(run)
            hits = hits_of(run)
    assert sorted(scored[5:]) == sorted(before[2:])
    assert (calls["agent_name"] == "passage_scorer").sum() == 5
    assert hits[0].snippet == SENTENCE
