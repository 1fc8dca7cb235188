"""Nodes of a workbench's home: sections, lists and tables.

A live page has buttons that open conversations; the saved output has only their labels.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from artifactflow_nb.core.language import EnglishText, status_label, translate, translate_list
from artifactflow_nb.core.text.format import capitalized, clip, translate_count, translate_duration, usd
from artifactflow_nb.core.text.markdown import escape, escape_with_language
from artifactflow_nb.store.storage import ModelUsage, RunEntry
from artifactflow_nb.widgets.page.elements import action_attributes, status_mark, time_html
from artifactflow_nb.widgets.page.nodes import Node
from artifactflow_nb.widgets.run import labels

MakeLink = Callable[..., str]
"""Makes the HTML that opens a conversation, from a text and the arguments of the action `open`."""

TITLE_COLUMNS = 80


def open_link(text: str, **args: Any) -> str:
    """Build a button that looks like a link and opens a conversation."""
    attributes = f'type="button" class="af-link" {action_attributes("open", **args)}'
    return f"<button {attributes}>{escape_with_language(text)}</button>"


def link_text(text: str, **_args: Any) -> str:
    """Return the label of an `open_link`, for pages without a kernel."""
    return f"<span>{escape_with_language(text)}</span>"


def section(key: str, title: str, children: Sequence[Node]) -> Node:
    """Build a section with a heading; a section without children is empty."""
    heading = Node(f"{key}-title", f"<h2>{title}</h2>", css="af-home-title", text="")
    return Node(f"{key}-section", kind="box", css="af-home-section", children=(heading, *children) if children else ())


def state_of_run(run_id: str, state: Node) -> Node:
    """Build the status line of a run with unique keys, since several runs are displayed."""
    children = tuple(Node(f"{run_id}-{child.key}", child.html, child.kind, child.css) for child in state.children)
    return Node(f"{run_id}-state", state.html, state.kind, state.css, children=children, text="")


def run_table(entries: Sequence[tuple[RunEntry, str]], make_link: MakeLink) -> Node:
    """Build a table of the newest runs, each with its status."""
    rows, lines = [], []
    for entry, status in entries:
        run, question = entry.run, clip(entry.run.question, TITLE_COLUMNS)
        link = make_link(question, conversation=run.conversation_id, message=run.message_id)
        short_id = f'<code title="{escape(run.run_id)}">{escape(run.short_id)}</code>'
        time = "" if entry.time_ms is None else translate_duration(entry.time_ms)
        cells = [time_html(run.started_at), time, entry.tokens_text, entry.cost_text, short_id]
        failed = labels.failed_label(entry.n_failed)
        words = f' <span class="af-quiet">{failed[0]}</span>' if failed else ""
        name = f'<div class="af-home-name">{status_mark(status)} {link}{words}</div>'
        row = f'<th scope="row">{name}</th>{"".join(f"<td>{cell}</td>" for cell in cells)}'
        rows.append(f"<tr>{row}</tr>")
        text = " · ".join([question, *failed])
        lines.append(translate("{title}: {text}", title=capitalized(status_label(status)), text=text))
    table = _table(("question", "began", "time", "tokens", "cost", "id"), rows)
    text = "\n".join([translate("Newest runs:"), *lines])
    return Node("run-table", table, text=text)


def usage_table(usage: Sequence[ModelUsage]) -> Node:
    """Build a table of the usage of each model since midnight."""
    rows = [
        f'<tr><th scope="row">{escape(entry.model)}</th><td>{entry.n_calls:,}</td>'
        f"<td>{'≈ ' if entry.is_estimated else ''}{entry.n_tokens:,}</td>"
        f"<td>{'–' if entry.cost_usd is None else ('≈ ' if entry.is_estimated else '') + usd(entry.cost_usd)}</td></tr>"
        for entry in usage
    ]
    table = _table(("model", "calls", "tokens", "cost"), rows)
    is_estimated = any(entry.is_estimated for entry in usage)
    note = f'<p class="af-quiet">{translate("≈ estimated from the size of the texts")}</p>' if is_estimated else ""
    return Node("usage-table", table + note, text="")


def sources_line(searched: Mapping[str, int], others: Mapping[str, int], hint: str) -> Node:
    """List the folders that runs search, with their numbers of files, and the indexed folders that runs do not search.

    `hint` says how a person adds files; if runs search all folders, the hint is left out.
    """
    # The paths are left out, because they would tell readers of the notebook about this computer.
    if not searched:
        text = translate("Runs search the language reference of Python, because no files of yours are indexed.")
    else:
        text = translate("Runs search {folders}.", folders=_folder_names(searched))
    if others:
        folders = _folder_names(others)
        text += translate(" Not searched, because this notebook chose its sources: {folders}.", folders=folders)
    plain = translate("Sources: {text}", text=text)
    text += hint if others or not searched else ""
    return Node("sources-line", f"<p>{escape(text)}</p>", css="af-quiet", text=plain)


def _folder_names(folders: Mapping[str, int]) -> str:
    return translate_list(
        translate("“{name}” ({files})", name=Path(folder).name, files=translate_count(n_files, "file"))
        for folder, n_files in folders.items()
    )


def _table(columns: Sequence[EnglishText], rows: Sequence[str]) -> str:
    header = "".join(f'<th scope="col">{translate(name, context="column")}</th>' for name in columns)
    return f'<table class="af-table"><thead><tr>{header}</tr></thead><tbody>{"".join(rows)}</tbody></table>'
