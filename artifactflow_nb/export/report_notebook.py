"""A run as a notebook: a report to read, then cells that compute its figures from the sealed run beside it.

::

    report.ipynb    # the question, the answer, sources, artifacts; frames and plots with their outputs
    report.afrun    everything of the run

What it says is read from the sealed file, so it holds no secret that was taken out there. Executing it again asks no
model and no network, and gives the same.
"""

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

from artifactflow_nb.errors import UsageError
from artifactflow_nb.recordings.row_import import import_rows
from artifactflow_nb.recordings.scratch import empty_store
from artifactflow_nb.recordings.sealed import ReadSource, Sealed, read_sealed
from artifactflow_nb.recordings.zipped import write_bytes
from artifactflow_nb.store.artifact_versions import TASK_PLAN, Artifact, list_seen
from artifactflow_nb.store.runs import COMPLETED
from artifactflow_nb.store.schema import from_us
from artifactflow_nb.text.cards import Code, markdown_text
from artifactflow_nb.text.figures import moment
from artifactflow_nb.text.markdown import portable, portable_line

ENDING = ".afrun"
"""What the sealed file beside a report ends in."""

PARAMETERS = "parameters"
"""The tag of the cell that papermill puts other values behind."""

_LONGEST_HEADING = 200
_CELL_SECONDS = 300

_OPEN = """\
import artifactflow_nb as af

run = af.open_run(SEALED)
run"""

_CHAPTERS = (
    (
        "## What it took",
        """\
run.runs_df(run)[
    ["models", "n_llm_calls", "n_tool_calls", "n_tool_errors", "total_tokens", "cost_usd", "active_ms", "wait_ms"]
]""",
        """\
af.plot_timeline(
    run.llm_calls_df(run), run.tool_calls_df(run), run.approvals_df(run), run.plan_steps_df(run)
)""",
        "af.plot_tokens(run.llm_calls_df(run))",
    ),
    (
        "## What the models were asked",
        """\
run.llm_calls_df(run)[
    ["agent_name", "step", "response_model", "finish_reason", "input_tokens", "output_tokens", "llm_duration_ms"]
]""",
    ),
    (
        "## What the tools did",
        'run.tool_calls_df(run)[["agent_name", "tool_name", "args_json", "success", "approval", "duration_ms"]]',
    ),
    (
        "## Who decided what",
        'run.approvals_df(run)[["tool_name", "decision", "scope", "decided_by", "wait_ms", "instruction"]]',
    ),
    (
        "## What was written",
        'run.artifacts_df(run)[["artifact_id", "version", "title", "update_type", "created_by", "n_chars"]]',
    ),
)
"""A heading and cells of code each; they work for any sealed run."""


def write_report(
    path: Path,
    run_id: str,
    seal: Callable[[Path], object],
    *,
    sealed: Path | None = None,
    replace: bool = False,
) -> Path:
    """Write the notebook of a run, executed, and the sealed run beside it.

    Args:
        path: The notebook.
        run_id: The run.
        seal: Writes the sealed run to a path.
        sealed: A file that was sealed before, to be used instead of sealing one beside the notebook.
        replace: Take the place of a notebook that is there.

    Returns:
        Where the notebook lies.

    Errors: `UsageError` if there is such a notebook, it cannot be written or executed, or the sealed file is that of
        another run; as of `seal` and `read_sealed`.
    """
    beside = path.with_suffix(ENDING) if sealed is None else sealed
    if beside == path:
        raise UsageError(f"{str(path)!r} is the name of a sealed run. Pass a notebook's, such as 'report.ipynb'.")
    if path.exists() and not replace:
        raise UsageError(f"There is a file {str(path)!r} already. Pass replace=True to replace it, or another path.")
    if sealed is None:
        seal(beside)
    found = read_sealed(beside)
    if found.rows.run_id != run_id:
        raise UsageError(
            f"{str(beside)!r} is the run {found.rows.run_id}, not {run_id}. Leave sealed out, or seal this run."
        )
    place = path.resolve().parent
    notebook = report_notebook(found, Path(os.path.relpath(beside.resolve(), place)).as_posix())
    return write_bytes(path, _executed(notebook, place), replace=replace)


def report_notebook(sealed: Sealed, name: str) -> dict[str, Any]:
    """The notebook in format 4.5, not executed yet.

    Args:
        sealed: The run.
        name: The path of its file, seen from the notebook.
    """
    cells = [*_reading(sealed), *_computing(name)]
    return {
        "cells": [{**cell, "id": f"cell-{number:02d}"} for number, cell in enumerate(cells)],
        "metadata": {**_METADATA, "artifactflow": {"run_id": sealed.rows.run_id, "sha256": sealed.manifest["sha256"]}},
        "nbformat": 4,
        "nbformat_minor": 5,
    }


_METADATA = {
    "kernelspec": {"name": "python3", "display_name": "Python 3 (ipykernel)", "language": "python"},
    "language_info": {"name": "python"},
}


# --- what is read ----------------------------------------------------------------------------------------------------


def _reading(sealed: Sealed) -> Iterator[dict[str, Any]]:
    run = sealed.rows.run
    heading = portable_line(run["question"])
    is_short = len(heading) <= _LONGEST_HEADING
    asked = f"*Asked {moment(from_us(run['started_at']))}, {run['status']} {moment(from_us(run['completed_at']))}.*"
    yield _markdown(f"# {heading}\n\n{asked}" if is_short else f"# Report\n\n{asked}\n\n{portable(run['question'])}")
    yield _markdown(f"## Answer\n\n{_answer(sealed)}")
    for artifact in _artifacts(sealed):
        name, by = markdown_text(Code(artifact.artifact_id)), portable_line(artifact.created_by)
        about = f"{name}, version {artifact.version}, by {by}"
        yield _markdown(f"## {markdown_text(artifact.title)}\n\n{about}\n\n{portable(artifact.markdown)}")
    if sealed.sources:
        yield _markdown("\n".join(["## Sources\n", *map(_source, sealed.sources)]))


def _answer(sealed: Sealed) -> str:
    run, said = sealed.rows.run, sealed.rows.message["response"] or ""
    if run["status"] == COMPLETED:
        return portable(said)
    why = f"There is no answer: the run is {run['status']}. {run['error_message'] or ''}"
    return "\n\n".join(filter(None, [portable(why.strip()), portable(said)]))


def _artifacts(sealed: Sealed) -> list[Artifact]:
    """What the run's branch sees, its plan last."""
    run = sealed.rows.run
    with empty_store() as db:
        db.execute("BEGIN")
        import_rows(db, sealed.rows, alone=True)
        seen = list_seen(db, run["conversation_id"], run["message_id"])
    return sorted(seen, key=lambda artifact: artifact.artifact_id == TASK_PLAN)


def _source(source: ReadSource) -> str:
    """A line with the address as it was given; one that a browser can follow is a link."""
    can_follow = source.address.startswith(("http://", "https://")) and not set(source.address) & set("<>\\ \n\t")
    address = f"<{source.address}>" if can_follow else markdown_text(Code(source.address))
    return f"- {markdown_text(source.title)}: {address}"


# --- what is computed ------------------------------------------------------------------------------------------------


def _computing(name: str) -> Iterator[dict[str, Any]]:
    yield _markdown(
        f"## How it came about\n\nThe cells below compute from [{portable_line(name)}]({quote(name)}), in which all of "
        "the run is sealed. No model is asked, and nothing is loaded from a network."
    )
    yield _code(f"SEALED = {json.dumps(name, ensure_ascii=False)}", PARAMETERS)
    yield _code(_OPEN)
    for heading, *codes in _CHAPTERS:
        yield _markdown(heading)
        yield from map(_code, codes)


def _markdown(source: str) -> dict[str, Any]:
    return {"cell_type": "markdown", "metadata": {}, "source": source}


def _code(source: str, *tags: str) -> dict[str, Any]:
    metadata = {"tags": list(tags)} if tags else {}
    return {"cell_type": "code", "metadata": metadata, "execution_count": None, "outputs": [], "source": source}


def _executed(notebook: dict[str, Any], folder: Path) -> bytes:
    """The notebook with its outputs, executed in a folder by a kernel of its own."""
    import nbformat
    from jupyter_client.kernelspec import NoSuchKernel
    from nbclient import NotebookClient
    from nbclient.exceptions import CellControlSignal, CellExecutionError, DeadKernelError

    node: Any = nbformat.from_dict(notebook)  # type: ignore[no-untyped-call]
    client = NotebookClient(
        node,
        timeout=_CELL_SECONDS,
        resources={"metadata": {"path": str(folder)}},
        extra_arguments=["--log-level=ERROR"],
        record_timing=False,
    )
    try:
        client.execute()
    except (NoSuchKernel, CellControlSignal, CellExecutionError, DeadKernelError) as error:
        needs = "It needs a kernel python3 in which artifactflow_nb is installed."
        raise UsageError(f"The report could not be executed: {error}\n{needs}") from error
    node.metadata = notebook["metadata"]  # without what the kernel tells of itself
    nbformat.validate(node)
    written: str = nbformat.writes(node)  # type: ignore[no-untyped-call]
    return f"{written}\n".encode("utf-8", "replace")
