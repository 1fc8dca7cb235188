"""A benchmark of research quality: `make eval BASE_URL=http://localhost:8000/v1 MODEL=my-model`.

Asks the 47 questions of a generated corpus, prints a row for each answer and a table with the result, and writes both
to `build/eval`. Without an endpoint the offline model answers. The key of the endpoint is `OPENAI_API_KEY`.
"""

import argparse
import re
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))  # a script's own folder is on the path, the tests' is not

import pandas as pd
from eval.corpus import EvalQuestion, questions, write_corpus
from eval.scores import score_answer, summarize, to_markdown

import artifactflow_nb as af
from artifactflow_nb.core.runs import DEPTHS, Depth
from artifactflow_nb.models.base import model_name

ROOT = Path(__file__).parents[2]


def evaluate(
    workbench: af.Workbench,
    questions: Sequence[EvalQuestion],
    *,
    depth: Depth = "standard",
    report: Callable[[dict[str, Any]], object] = lambda _row: None,
) -> pd.DataFrame:
    """Ask questions about a corpus that the workbench has indexed; one row per question.

    Args:
        workbench: The workbench, which must need no approval by a person.
        questions: The questions.
        depth: The depth of each run.
        report: Called with each row.
    """
    sources = workbench.query("SELECT source_id, anchor FROM main.sections")
    known = frozenset(f"local:{source}#{anchor}" for source, anchor in sources.itertuples(index=False))
    rows: list[dict[str, Any]] = []
    for question in questions:
        started = time.monotonic()
        run = workbench.ask(question.text, depth=depth).wait()
        written = [artifact.content for name, artifact in run.artifacts.items() if name != "task_plan"]
        score = score_answer(question, "\n\n".join([run.response, *written]), known)
        row = {
            "model": _label(workbench),
            "question": question.text,
            "kind": question.kind,
            "facts": score.facts,
            "expected_facts": len(question.facts),
            "is_cited": score.is_cited,
            "is_refusal": score.is_refusal,
            "status": run.status,
            "calls": len(workbench.llm_calls_df(run)),
            "tokens": run.metrics.total_tokens,
            "seconds": time.monotonic() - started,
            "id": question.id,
            "run_id": run.run_id,
        }
        rows.append(row)
        report(row)
    return pd.DataFrame(rows)


def _label(workbench: af.Workbench) -> str:
    model = workbench.settings.model
    return model if workbench.settings.base_url and model else model_name(workbench._thread.engine.model)


def main(arguments: Sequence[str] | None = None) -> pd.DataFrame:
    """Run the benchmark, and return its summary."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--base-url", help="the endpoint; by default OPENAI_BASE_URL")
    parser.add_argument("--model", help="the model; by default AF_MODEL")
    parser.add_argument("--questions", type=int, default=47, help="how many of the 47 questions")
    parser.add_argument("--depth", choices=DEPTHS, default="standard")
    parser.add_argument("--protocol", choices=("xml", "native"), default="xml", help="how tools are called")
    parser.add_argument("--output", type=Path, default=ROOT / "build" / "eval", help="the folder of the results")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        corpus = write_corpus(Path(folder))
        with af.Workbench(
            base_url=options.base_url,
            model=options.model,
            data_dir=Path(folder) / "data",
            approvals="approve",
            interactive=False,
            tool_protocol=options.protocol,
        ) as workbench:
            workbench.sources.add(corpus)
            results = evaluate(workbench, questions()[: options.questions], depth=options.depth, report=_print)
    summary = summarize(results)
    options.output.mkdir(parents=True, exist_ok=True)
    name = re.sub(r"[^\w.-]+", "-", str(summary["model"][0]))
    results.to_csv(options.output / f"{name}-{options.depth}.csv", index=False)
    (options.output / f"{name}-{options.depth}.md").write_text(to_markdown(summary) + "\n", encoding="utf-8")
    print(f"\n{to_markdown(summary)}\n\nThe answers are in {options.output / name}-{options.depth}.csv")
    return summary


def _print(row: dict[str, Any]) -> None:
    facts = f"{row['facts']} of {row['expected_facts']} facts" if row["expected_facts"] else "absent"
    marks = [facts, *(["cited"] if row["is_cited"] else []), *(["refused"] if row["is_refusal"] else [])]
    print(f"{row['id']:<10} {row['status']:<10} {', '.join(marks):<28} {row['question']}", flush=True)


if __name__ == "__main__":
    main()
