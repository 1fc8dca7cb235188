"""Report of a run: a notebook with cells that compute the figures from the sealed run in the same folder.

::

    report.ipynb    # the question, the answer, sources, artifacts; frames and plots with their outputs
    report.afrun    the sealed run

The report is built from the sealed file, so the report contains no secrets that were redacted there. Another execution
calls no model, uses no network, and gives the same outputs.
"""

import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

from artifactflow_nb.core.language import EnglishText, status_label, translate
from artifactflow_nb.core.local_files import reason
from artifactflow_nb.core.text.cards import Code, cell_markdown
from artifactflow_nb.core.text.format import capitalized, format_local_time
from artifactflow_nb.core.text.markdown import safe_markdown, safe_markdown_line
from artifactflow_nb.errors import UsageError, brief
from artifactflow_nb.export.document import as_document_part
from artifactflow_nb.recording.files import write_bytes
from artifactflow_nb.recording.seal import ReadSource, SealedParts, memory_store, read_sealed
from artifactflow_nb.store.artifact_versions import TASK_PLAN_ID, Artifact, list_visible
from artifactflow_nb.store.runs import COMPLETED
from artifactflow_nb.store.schema import from_microseconds

SEALED_SUFFIX = ".afrun"
"""Extension of the sealed file next to a report."""

PARAMETERS = "parameters"
"""Tag of the cell after which papermill inserts parameters."""

_MAX_HEADING_CHARS = 200
_CELL_SECONDS = 300

_OPEN = """\
import artifactflow_nb as af

run = af.open_run(SEALED)
run"""

_CHAPTERS: Mapping[EnglishText, Sequence[str]] = {
    "Tokens, time and cost": (
        """\
run.runs_df(run, columns="all")[
    ["models", "n_llm_calls", "n_tool_calls", "n_tool_errors", "total_tokens", "cost_usd", "active_ms", "wait_ms"]
]""",
        "run.timeline()",
    ),
    "model calls": (
        """\
run.llm_calls_df(run)[
    ["agent_name", "step", "response_model", "finish_reason", "input_tokens", "output_tokens", "llm_duration_ms"]
]""",
    ),
    "tool calls": (
        'run.tool_calls_df(run)[["agent_name", "tool_name", "args_json", "success", "approval", "duration_ms"]]',
    ),
    "Decisions": ('run.approvals_df(run)[["tool_name", "decision", "scope", "decided_by", "wait_ms", "instruction"]]',),
    "Written": ('run.artifacts_df(run)[["artifact_id", "version", "title", "update_type", "created_by", "n_chars"]]',),
}
"""The code cells of each chapter by the heading; the cells work for every sealed run."""


def write_report(
    path: Path, run_id: str, seal: Callable[[Path], object], *, sealed: Path | None = None, replace: bool = False
) -> Path:
    """Write the executed notebook of a run, and the sealed run in the same folder.

    `sealed` is an existing sealed file; if `sealed` is None, `seal` writes a file next to the notebook.

    Returns: Path of the notebook.

    Errors: `UsageError` if the notebook exists, cannot be written or executed, or if the sealed file contains another
    run; errors of `seal` and `read_sealed`.
    """
    sealed_path = path.with_suffix(SEALED_SUFFIX) if sealed is None else sealed
    if sealed_path == path:
        raise UsageError(f"{brief(str(path))} is the name of a sealed run. Pass a notebook, such as 'report.ipynb'.")
    if os.path.lexists(path) and not replace:
        raise UsageError(
            f"There is a file {brief(str(path))} already. Pass replace=True to replace it, or another path."
        )
    if sealed is None:
        seal(sealed_path)
    parts, manifest = read_sealed(sealed_path)
    if parts.rows.run_id != run_id:
        raise UsageError(
            f"{brief(str(sealed_path))} is the run {parts.rows.run_id}, not {run_id}. Remove sealed=, or seal this run."
        )
    try:
        folder = path.resolve().parent
    except (OSError, ValueError, RuntimeError) as error:
        raise UsageError(f"{brief(str(path))} cannot be written: {reason(error)}. Pass another path.") from error
    relative = Path(os.path.relpath(sealed_path.resolve(), folder)).as_posix()
    notebook = report_notebook(parts, manifest["sha256"], relative)
    return write_bytes(path, _execute(notebook, folder), replace=replace)


def report_notebook(sealed: SealedParts, sha256: str, name: str) -> dict[str, Any]:
    """Build the notebook of a report in format 4.5, without outputs.

    `sha256` is the hash of the manifest of the sealed file, `name` the path of the file relative to the notebook.
    """
    file = f"[{safe_markdown_line(name)}]({quote(name)})"
    origin = translate(
        "The cells below compute from {file}, in which all of the run is sealed. No model is asked, nothing is loaded.",
        file=file,
    )
    cells = [
        *_text_cells(sealed),
        _markdown(f"## {translate('How the text was written')}\n\n{origin}"),
        _code(f"SEALED = {json.dumps(name, ensure_ascii=False)}", PARAMETERS),
        _code(_OPEN),
    ]
    for heading, codes in _CHAPTERS.items():
        cells += [_markdown(f"## {capitalized(translate(heading))}"), *map(_code, codes)]
    return {
        "cells": [{**cell, "id": f"cell-{number:02d}"} for number, cell in enumerate(cells)],
        "metadata": {**_METADATA, "artifactflow": {"run_id": sealed.rows.run_id, "sha256": sha256}},
        "nbformat": 4,
        "nbformat_minor": 5,
    }


_METADATA = {
    "kernelspec": {"name": "python3", "display_name": "Python 3 (ipykernel)", "language": "python"},
    "language_info": {"name": "python"},
}


# --- text cells ------------------------------------------------------------------------------------------------------


def _text_cells(sealed: SealedParts) -> Iterator[dict[str, Any]]:
    run = sealed.rows.run
    heading = safe_markdown_line(run["question"])
    started, completed = (format_local_time(from_microseconds(run[name])) for name in ("started_at", "completed_at"))
    status = status_label(run["status"])
    times = f"*{translate('Asked {start}, {status} {end}.', start=started, status=status, end=completed)}*"
    if len(heading) <= _MAX_HEADING_CHARS:
        yield _markdown(f"# {heading}\n\n{times}")
    else:
        yield _markdown(f"# {translate('Report')}\n\n{times}\n\n{safe_markdown(run['question'])}")
    yield _markdown(f"## {translate('Answer')}\n\n{_answer(sealed)}")
    for artifact in _artifacts(sealed):
        author = safe_markdown_line(artifact.author_label)
        version = translate("version {number}", number=artifact.version)
        byline = f"{cell_markdown(Code(artifact.artifact_id))} · {version} · {author}"
        text = as_document_part(safe_markdown(artifact.markdown), artifact.title, 2)
        yield _markdown(f"## {cell_markdown(artifact.title)}\n\n{byline}\n\n{text}")
    if sealed.sources:
        yield _markdown("\n".join([f"## {translate('Sources read')}\n", *map(_source_line, sealed.sources)]))


def _answer(sealed: SealedParts) -> str:
    run, response = sealed.rows.run, sealed.rows.message["response"] or ""
    if run["status"] == COMPLETED:
        return safe_markdown(response)
    explanation = translate("{status}; there is no answer.", status=capitalized(status_label(run["status"])))
    explanation = f"{explanation} {run['error_message'] or ''}".strip()
    return "\n\n".join(filter(None, [safe_markdown(explanation), safe_markdown(response)]))


def _artifacts(sealed: SealedParts) -> list[Artifact]:
    """Return the artifacts on the branch of the run, the plan last."""
    run = sealed.rows.run
    with memory_store(sealed) as db:
        visible = list_visible(db, run["conversation_id"], run["message_id"])
    return sorted(visible, key=lambda artifact: artifact.artifact_id == TASK_PLAN_ID)


def _source_line(source: ReadSource) -> str:
    """Return title and address of a source; a plain web address is a link."""
    is_link = source.address.startswith(("http://", "https://")) and not set(source.address) & set("<>\\ \n\t")
    address = f"<{source.address}>" if is_link else cell_markdown(Code(source.address))
    return f"- {cell_markdown(source.title)}: {address}"


# --- cells ----------------------------------------------------------------------------------------------------------


def _markdown(source: str) -> dict[str, Any]:
    return {"cell_type": "markdown", "metadata": {}, "source": source}


def _code(source: str, *tags: str) -> dict[str, Any]:
    metadata = {"tags": list(tags)} if tags else {}
    return {"cell_type": "code", "metadata": metadata, "execution_count": None, "outputs": [], "source": source}


def _execute(notebook: dict[str, Any], folder: Path) -> bytes:
    """Execute the notebook in a folder with a new kernel, and return the executed notebook as bytes."""
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
        requirement = "It needs a kernel python3 in which artifactflow_nb is installed."
        raise UsageError(f"The report could not be executed: {error}\n{requirement}") from error
    node.metadata = notebook["metadata"]  # without the language_info of this kernel, so that the bytes are reproducible
    nbformat.validate(node)
    text: str = nbformat.writes(node)  # type: ignore[no-untyped-call]
    return f"{text}\n".encode("utf-8", "replace")
