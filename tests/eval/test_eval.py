"""The benchmark of research quality: its corpus, its scores, and its command."""

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from eval.corpus import EvalQuestion, documents, questions, write_corpus
from eval.run import evaluate, main
from eval.scores import score_answer, summarize, to_markdown
from support.chat_endpoint import Answer, ChatServer, Request

import artifactflow_nb as af
from artifactflow_nb.models.base import ModelRequest

DIGEST = "0f8ef8e8a403766f965bde0541b7b3a89bf029f819845767452acedb8f89f5d3"
QUESTIONS = {question.text: question for question in questions()}


def right_answer(question: EvalQuestion) -> str:
    """The answer of a perfect model."""
    if not question.facts:
        return "The sources do not say that."
    return "\n".join(f"It is {fact.spellings[0]} ({fact.address})." for fact in question.facts)


def invented_answer(question: EvalQuestion) -> str:
    """An answer with a wrong fact and a citation of a section that does not exist."""
    return f"{question.text} It is 1,234,567 (local:observatory/none.md#none)."


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_corpus(tmp_path_factory.mktemp("corpus"))


@pytest.fixture
def score(corpus: Path, tmp_path: Path) -> Callable[[Callable[[EvalQuestion], str]], pd.DataFrame]:
    """Run all questions with a scripted model that answers by a function."""

    def run_all(answer: Callable[[EvalQuestion], str]) -> pd.DataFrame:
        def script(request: ModelRequest) -> str:
            return answer(QUESTIONS[request.messages[-1].content])

        with af.Workbench(model=af.ScriptedModel(script), data_dir=tmp_path / "data", interactive=False) as wb:
            wb.sources.add(corpus)
            return evaluate(wb, questions())

    return run_all


def test_corpus_is_the_same_each_time() -> None:
    """The corpus has 47 questions, and 300 documents with the same bytes on each machine and in each Python version."""
    written = dict(documents())
    assert len(written) == 300
    digest = hashlib.sha256(b"".join(path.encode() + content for path, content in sorted(written.items())))
    assert digest.hexdigest() == DIGEST
    kinds = pd.Series([question.kind for question in questions()]).value_counts().to_dict()
    assert kinds == {"fact": 17, "absent": 9, "page": 6, "dates": 5, "two": 3, "lay": 5, "parts": 2}
    assert len(QUESTIONS) == 47
    assert {question.kind for question in questions()[:10]} == set(kinds) - {"lay", "parts"}


def test_every_fact_is_stated_by_its_section_only(corpus: Path, tmp_path: Path) -> None:
    """The sentence with a fact is in the section that the question expects, which the index has under that address."""
    with af.Workbench(data_dir=tmp_path / "data", interactive=False) as wb:
        wb.sources.add(corpus)
        texts = wb.query("SELECT 'local:' || source_id || '#' || anchor AS address, text FROM main.sections")
    by_address = dict(texts.itertuples(index=False))
    for question in questions():
        for fact in question.facts:
            assert fact.spellings[0] in by_address[fact.address]


def test_perfect_answers_reach_full_scores(score: Callable[..., pd.DataFrame]) -> None:
    """Each fact, citation and refusal counts, and the frame has a row for each question with its calls and tokens."""
    results = score(right_answer)
    (summary,) = summarize(results).to_dict("records")
    assert (summary["facts"], summary["citations_right"], summary["refusals_right"]) == (1.0, 1.0, 1.0)
    assert (summary["wrong_refusals"], summary["failed"], summary["calls_per_question"]) == (0, 0, 1.0)
    assert results["tokens"].gt(0).all()
    assert list(results.columns[:3]) == ["model", "question", "kind"]


def test_invented_answers_score_nothing(score: Callable[..., pd.DataFrame]) -> None:
    """Wrong figures are not facts, and an invented answer to an absent question is not a refusal."""
    (summary,) = summarize(score(invented_answer)).to_dict("records")
    assert (summary["facts"], summary["citations_right"], summary["refusals_right"]) == (0.0, 0.0, 0.0)


@pytest.mark.parametrize(
    ("answer", "facts", "is_cited", "is_refusal"),
    [
        ("It is {fact} deep ({address}).", 1, True, False),
        ("It is {fact} deep.", 1, False, False),
        ("It is {fact} deep ({address}), see local:observatory/invented.md#none.", 1, False, False),
        ("It is 9{fact} or {fact},5 deep ({address}).", 0, None, False),
        ("The sources do not mention it.", 0, None, True),
        ("The sources do not mention the tide. It is {fact} deep ({address}).", 1, True, False),
    ],
)
def test_score_of_one_answer(answer: str, facts: int, is_cited: bool | None, is_refusal: bool) -> None:
    """A figure counts as a whole; a citation must name the right section and nothing that does not exist."""
    question = next(question for question in questions() if question.kind == "fact")
    (fact,) = question.facts
    text = answer.format(fact=fact.spellings[0], address=fact.address)
    score = score_answer(question, text, frozenset({fact.address}))
    assert (score.facts, score.is_cited, score.is_refusal) == (facts, is_cited, is_refusal)


def test_command_measures_an_endpoint(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`make eval BASE_URL=... MODEL=...` asks the endpoint, and writes the answers and the table."""

    def script(request: Request) -> Answer:
        return Answer(right_answer(QUESTIONS[request.body["messages"][-1]["content"]]))

    with ChatServer(script) as server:
        arguments: list[Any] = ["--base-url", server.base_url, "--model", "loopback-1", "--questions", "3"]
        summary = main([*arguments, "--output", str(tmp_path)])
    assert summary[["model", "questions", "facts"]].to_numpy().tolist() == [["loopback-1", 3, 1.0]]
    assert len(pd.read_csv(tmp_path / "loopback-1-standard.csv")) == 3
    table = (tmp_path / "loopback-1-standard.md").read_text(encoding="utf-8")
    assert "| loopback-1 | 3 | 100% |" in table
    assert table.strip() in capsys.readouterr().out


def test_offline_model_answers_most_questions(corpus: Path, tmp_path: Path) -> None:
    """Without an endpoint nine of ten facts of single sections are found and cited; no run fails."""
    with af.Workbench(data_dir=tmp_path / "data", approvals="approve", interactive=False) as wb:
        wb.sources.add(corpus)
        results = evaluate(wb, questions())
    single = results[results["kind"].isin(["fact", "page", "dates"])]
    assert single["facts"].sum() >= 0.9 * len(single)
    assert single["is_cited"].sum() >= 0.9 * len(single)
    assert set(results["status"]) == {"completed"}
    assert "offline" in to_markdown(summarize(results))
