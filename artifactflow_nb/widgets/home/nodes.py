"""Nodes of a workbench's home: sections, lists and tables.

A live page has buttons that open conversations; the saved output has only their labels.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from artifactflow_nb.core.language import Texts
from artifactflow_nb.core.text.format import clip, usd
from artifactflow_nb.core.text.markdown import escape, escape_with_language
from artifactflow_nb.store.conversations import Conversation
from artifactflow_nb.store.storage import ModelUsage, RunEntry
from artifactflow_nb.widgets.page.elements import action_attributes, status_mark, time_html
from artifactflow_nb.widgets.page.nodes import Node
from artifactflow_nb.widgets.run import labels

MakeLink = Callable[..., str]
"""Makes the HTML that opens a conversation, from a text and the arguments of the action `open`."""

TITLE_COLUMNS = 80


def open_link(text: str, **args: Any) -> str:
    """Button with the look of a link that opens a conversation."""
    attributes = f'type="button" class="af-link" {action_attributes("open", **args)}'
    return f"<button {attributes}>{escape_with_language(text)}</button>"


def link_text(text: str, **_args: Any) -> str:
    """The label of the button, for pages without a kernel that could open a conversation."""
    return f"<span>{escape_with_language(text)}</span>"


def section(key: str, title: str, children: Sequence[Node]) -> Node:
    """Section with a heading; it has no content without children."""
    heading = Node(f"{key}-title", f"<h3>{title}</h3>", css="af-home-title", text="")
    return Node(f"{key}-section", kind="box", css="af-home-section", children=(heading, *children) if children else ())


def state_of_run(run_id: str, state: Node) -> Node:
    """Build the status line of a run with unique keys, since several runs are displayed."""
    children = tuple(Node(f"{run_id}-{child.key}", child.html, child.kind, child.css) for child in state.children)
    return Node(f"{run_id}-state", state.html, state.kind, state.css, children=children, text="")


def conversation_list(
    conversations: Sequence[Conversation],
    costs: Mapping[str, float | None],
    make_link: MakeLink,
    texts: Texts,
    nothing: str,
) -> Node:
    """Build the list of conversations, with the cost of each by id; the text `nothing` for an empty list."""
    if not conversations:
        return Node("conversation-list", f"<p>{nothing}</p>", css="af-home-conversations af-quiet", text=nothing)
    items = []
    for entry in conversations:
        cost = labels.cost_label(costs.get(entry.conversation_id))
        facts = [texts.count(entry.n_messages, "n_questions"), *cost, time_html(entry.updated_at)]
        title = clip(entry.title or texts("untitled"), TITLE_COLUMNS)
        link = make_link(title, conversation=entry.conversation_id)
        items.append(f'<li>{link} <span class="af-quiet">{" · ".join(facts)}</span></li>')
    text = "\n".join([texts("conversations_are"), *(clip(entry.title, TITLE_COLUMNS) for entry in conversations)])
    html = f'<ul class="af-home-list">{"".join(items)}</ul>'
    return Node("conversation-list", html, css="af-home-conversations", text=text)


def run_table(entries: Sequence[tuple[RunEntry, str]], make_link: MakeLink, texts: Texts) -> Node:
    """The newest runs, each with its status."""
    rows, lines = [], []
    for entry, status in entries:
        run, question = entry.run, clip(entry.run.question, TITLE_COLUMNS)
        link = make_link(question, conversation=run.conversation_id, message=run.message_id)
        short_id = f'<code title="{escape(run.run_id)}">{escape(run.short_id)}</code>'
        time = "" if entry.time_ms is None else texts.duration(entry.time_ms)
        cells = [time_html(run.started_at), time, entry.tokens_text, entry.cost_text, short_id]
        failed = labels.failed_label(entry.n_failed, texts)
        words = f' <span class="af-quiet">{failed[0]}</span>' if failed else ""
        name = f'<div class="af-home-name">{status_mark(status, texts)} {link}{words}</div>'
        row = f'<th scope="row">{name}</th>{"".join(f"<td>{cell}</td>" for cell in cells)}'
        rows.append(f"<tr>{row}</tr>")
        lines.append(texts("titled", title=texts.status(status), text=" · ".join([question, *failed])))
    table = _table(("question", "began", "time", "tokens", "cost", "id"), rows, texts)
    text = "\n".join([texts("newest_runs_are"), *lines])
    return Node("run-table", table, text=text)


def usage_table(usage: Sequence[ModelUsage], texts: Texts) -> Node:
    """The usage of each model since midnight."""
    rows = [
        f'<tr><th scope="row">{escape(entry.model)}</th><td>{entry.n_calls:,}</td>'
        f"<td>{'≈ ' if entry.is_estimated else ''}{entry.n_tokens:,}</td>"
        f"<td>{'–' if entry.cost_usd is None else usd(entry.cost_usd)}</td></tr>"
        for entry in usage
    ]
    table = _table(("model", "calls", "tokens", "cost"), rows, texts)
    is_estimated = any(entry.is_estimated for entry in usage)
    note = f'<p class="af-quiet">{texts("estimated")}</p>' if is_estimated else ""
    return Node("usage-table", table + note, text="")


def sources_line(searched: Mapping[str, int], others: Mapping[str, int], texts: Texts) -> Node:
    """List the folders that runs search, with their numbers of files, and the indexed folders that they do not."""
    # Without the paths, which would tell readers of the notebook about this computer.
    if not searched:
        text, hint = texts("searches_reference"), texts("add_source")
    else:
        text, hint = texts("searches", folders=_folder_names(searched, texts)), ""
    if others:
        text += texts("not_searched", folders=_folder_names(others, texts))
        hint = texts("add_source")
    return Node("sources-line", f"<p>{escape(text + hint)}</p>", css="af-quiet", text=texts("sources_are", text=text))


def _folder_names(folders: Mapping[str, int], texts: Texts) -> str:
    return texts.listed(
        texts("folder", name=Path(folder).name, files=texts.count(n_files, "n_files"))
        for folder, n_files in folders.items()
    )


def _table(columns: Sequence[str], rows: Sequence[str], texts: Texts) -> str:
    head = "".join(f'<th scope="col">{texts(f"column_{name}")}</th>' for name in columns)
    return f'<table class="af-table"><thead><tr>{head}</tr></thead><tbody>{"".join(rows)}</tbody></table>'
