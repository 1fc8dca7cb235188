"""The whole research flow at every endpoint, in the form that its provider documents, in both tool protocols."""

from pathlib import Path
from typing import Any

import pytest
from endpoints.brain import THINKING
from endpoints.dialect import KEY, REFUSED, DialectServer, Sent, load

import artifactflow_nb as af

HANDBOOK = Path(__file__).parents[2] / "data" / "handbook"
QUESTION = "How are backups checked, and what happens if the check fails?"
QUOTE = "If the comparison fails, tell the data steward on the same day"
HIDDEN = THINKING.split(":", maxsplit=1)[0]

OFTEN = "How often is a backup made?"


def options(endpoint: DialectServer, folder: Path, **more: Any) -> dict[str, Any]:
    return {
        "base_url": endpoint.base_url,
        "api_key": KEY if endpoint.dialect.key else None,
        "model": endpoint.dialect.model,
        "data_dir": folder / "data",
        "interactive": False,
        **more,
    }


def to_the_end(run: af.Run) -> tuple[af.Run, int]:
    """Approve everything for which the run waits; return it with the number of approvals."""
    n_approved = 0
    while run.wait().status == "waiting":
        run.approve()
        n_approved += 1
    assert run.status == "completed", run.error
    return run, n_approved


def check_figures(wb: af.Workbench, run: af.Run, sent: list[Sent], endpoint: DialectServer) -> None:
    """The frame has the tokens, the cost and the models of the replies that the endpoint sent for this run."""
    calls = wb.llm_calls_df(run)
    calls = calls[calls["error_type"].isna()].sort_values("started_at")
    assert calls["input_tokens"].tolist() == [reply.prompt for reply in sent]
    assert calls["output_tokens"].tolist() == [reply.output for reply in sent]
    assert not calls["tokens_estimated"].any()
    reported = str(endpoint.dialect.usage)
    if "$thinking" in reported:
        assert calls["reasoning_tokens"].tolist() == [reply.thinking for reply in sent]
    if "$cached" in reported:
        assert calls["cache_read_tokens"].tolist() == [reply.cached for reply in sent]
    if "$cost" in reported:
        assert calls["cost_usd"].tolist() == pytest.approx([reply.cost for reply in sent])
    assert set(calls["request_model"]) == {endpoint.dialect.model}
    assert set(calls["response_model"]) == {endpoint.dialect.response_model or endpoint.dialect.model}


@pytest.mark.parametrize("protocol", ["auto", "xml"])
def test_research_with_approval_follow_up_and_fork(endpoint: DialectServer, tmp_path: Path, protocol: str) -> None:
    """A report is written after an approval; the next question and a fork continue it; no thought is ever an answer.

    The endpoint refuses no reply that it gets back, and the frames have its figures.
    """
    ask_first = {"approvals": {"create_artifact": "ask"}, "tool_protocol": protocol}
    with af.Workbench(**options(endpoint, tmp_path, **ask_first)) as wb:
        wb.sources.add(HANDBOOK)
        run, n_approved = to_the_end(wb.ask(QUESTION))
        assert n_approved == 1  # the report; a plan needs none
        assert QUOTE in run.response
        assert QUOTE in run.artifacts["research_report"].content
        n_sent = len(endpoint.sent)
        check_figures(wb, run, endpoint.sent, endpoint)
        follow_up, _ = to_the_end(wb.ask(OFTEN, conversation_id=run))
        assert "every night at 02:00" in follow_up.response
        check_figures(wb, follow_up, endpoint.sent[n_sent:], endpoint)
        n_sent = len(endpoint.sent)
        written = max(step.number for step in run.steps if step.name == "create_artifact")
        fork, _ = to_the_end(run.fork(written, tool_result="Nothing was written."))
        assert len(endpoint.sent) == n_sent + 1  # the answer; all earlier steps are those of the run
        assert not [ended for ended in (run, follow_up, fork) if HIDDEN in ended.response]
    demanded = (
        ["reasoning"] if (endpoint.dialect.name, protocol) == ("deepseek", "auto") else []
    )  # of an earlier answer
    assert endpoint.refused == REFUSED.get((endpoint.dialect.name, protocol), []) + demanded
    is_native = [bool(request.body.get("tools")) for request in endpoint.requests]
    assert any(is_native) == (protocol == "auto")


@pytest.mark.parametrize(
    ("name", "refused"),
    [
        ("openai", ["temperature", "max_tokens"]),
        ("azure", ["temperature", "max_tokens"]),
        ("mistral", ["field", "field"]),
    ],
)
def test_fields_that_a_person_sets_are_refused_once(tmp_path: Path, name: str, refused: list[str]) -> None:
    """These fields are left out or renamed from then on, also in the next question; accepted fields stay."""
    wishes = {"temperature": 0.3, "reasoning_effort": "high", "extra_body": {"max_tokens": 900, "seed": 1}}
    with DialectServer(load(name)) as endpoint, af.Workbench(**options(endpoint, tmp_path, **wishes)) as wb:
        wb.sources.add(HANDBOOK)
        run, _ = to_the_end(wb.ask(QUESTION))
        to_the_end(wb.ask(OFTEN, conversation_id=run))
        assert endpoint.refused == refused
        failed = wb.llm_calls_df(run)["error_message"].dropna().tolist()
        assert len([message for message in failed if "refused the field" in message]) == len(refused)
        body = endpoint.requests[-1].body
        assert body["reasoning_effort"] == "high"
        assert body.get("max_tokens", body.get("max_completion_tokens")) == 900


@pytest.mark.parametrize("name", ["gemini", "deepseek", "openrouter", "mistral"])
def test_run_goes_on_in_another_process_and_is_replayed(tmp_path: Path, name: str) -> None:
    """Fields that the endpoint wants back survive the pause for an approval; the cassette needs no endpoint."""
    with DialectServer(load(name)) as endpoint:
        waiting = options(endpoint, tmp_path, approvals={"create_artifact": "ask"})
        with af.Workbench(**waiting) as wb:
            wb.sources.add(HANDBOOK)
            run_id = wb.ask(QUESTION).wait().run_id
        with af.Workbench(**waiting) as wb:
            run, n_approved = to_the_end(wb.run(run_id))
            assert n_approved == 1
            assert QUOTE in run.response
        assert endpoint.refused == REFUSED.get((name, "auto"), []) * 2  # once for each workbench
        recorded = options(endpoint, tmp_path / "other", approvals="approve", record=tmp_path / "runs.jsonl")
        with af.Workbench(**recorded) as wb:
            wb.sources.add(HANDBOOK)
            answer = wb.ask(QUESTION).wait().response
    with af.Workbench(replay=tmp_path / "runs.jsonl", data_dir=tmp_path / "replayed", interactive=False) as wb:
        wb.sources.add(HANDBOOK)
        assert wb.ask(QUESTION).wait().response == answer
