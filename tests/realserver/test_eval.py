"""Ten questions of the benchmark of research quality with the real model, in both protocols."""

import os
from pathlib import Path

import pytest
from eval.corpus import questions, write_corpus
from eval.run import evaluate
from eval.scores import summarize, to_markdown
from realserver.proxy import extending_proxy
from realserver.server import MODEL, RealServer, skip_reason

import artifactflow_nb as af

if skip_reason() and os.environ.get("AF_REALSERVER") != "required":
    pytest.skip(skip_reason(), allow_module_level=True)

PROMPT = "Answer the question with what web_search finds. Name the address. Say so if it finds nothing."
ROUNDS = 2
ANSWER_TOKENS = 60


@pytest.mark.parametrize("protocol", ["xml", "native"])
def test_every_run_ends_within_its_rounds(
    server: RealServer, tmp_path: Path, capsys: pytest.CaptureFixture[str], protocol: str
) -> None:
    """No run of this model of 135 million parameters loops or crashes; its figures are printed, and not asserted."""
    (tmp_path / "prompts").mkdir()
    (tmp_path / "prompts" / "lead_agent.md").write_text(PROMPT, encoding="utf-8")  # one thread reads the prompt
    with (
        extending_proxy(server.address, lambda _body: {"max_tokens": ANSWER_TOKENS}) as base_url,
        af.Workbench(
            base_url=base_url,
            model=MODEL,
            data_dir=tmp_path / "data",
            prompts=tmp_path / "prompts",
            graph_config={"lead_agent": {"tools": ["web_search"], "max_tool_rounds": ROUNDS}},
            approvals="approve",
            interactive=False,
            temperature=0,
            tool_protocol=protocol,
        ) as wb,
    ):
        wb.sources.add(write_corpus(tmp_path))
        results = evaluate(wb, questions()[:10])
    with capsys.disabled():
        print(f"\n{protocol}\n{to_markdown(summarize(results))}")
    assert results["calls"].le(ROUNDS + 1).all()
    assert set(results["status"]) <= {"completed", "failed"}
    assert results.loc[results["status"] == "failed", "calls"].gt(0).all()
