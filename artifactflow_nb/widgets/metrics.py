"""`MetricsView`: a table of grouped metrics. The table shows `metrics_df` for arguments that a reader chooses.

::

    head      title, button "As DataFrame"
    form      kind of group, words of the filter
    within    the groups that the table is limited to, each with a button that lifts the limit
    table     a click on a group shows the runs of the group, a click on a run opens its conversation
"""

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from artifactflow_nb.core.language import EnglishText, agent_label, translate
from artifactflow_nb.core.text.cards import CardTable
from artifactflow_nb.core.text.format import (
    about,
    capitalized,
    clip,
    format_local_time,
    rounded,
    translate_count,
    translate_duration,
    usd,
)
from artifactflow_nb.core.text.markdown import escape, escape_with_language
from artifactflow_nb.core.text.panels import scroll_box
from artifactflow_nb.engine.thread import EngineThread
from artifactflow_nb.errors import UsageError
from artifactflow_nb.widgets.chat.host import ChatHost
from artifactflow_nb.widgets.forms.form import Field, form_node
from artifactflow_nb.widgets.page.elements import action_attributes, button, status_mark, time_html
from artifactflow_nb.widgets.page.nodes import Node
from artifactflow_nb.widgets.page.view import PageAction

MAX_ROWS = 200
_NAME_COLUMNS = 60

_GROUPS: Sequence[EnglishText] = ("agent", "model", "flow", "conversation", "day", "run")
_COLUMNS = (
    *("started_at", "n_runs", "n_llm_calls", "total_tokens", "cached_share"),
    *("ttft_p50_ms", "ttft_p95_ms", "latency_p50_ms", "latency_p95_ms", "cost_usd", "n_failures"),
)
_HEADINGS: Sequence[EnglishText] = (
    *("began", "runs", "model calls", "tokens", "cached"),
    *("first text, median", "first text, 95 %", "latency, median", "latency, 95 %", "cost", "failures"),
)
_SHOWN = dict(zip(_COLUMNS, _HEADINGS, strict=True))
"""The columns that the table shows after the names, with their headings."""

_Group = Mapping[Any, Any]
"""A row of the frame; unknown values are None."""


class MetricsView(ChatHost):
    """Metrics of model calls in groups.

    Args:
        load_frame: Returns `metrics_df`, a DataFrame, for its arguments.
        call: The name of the method in code, such as `wb.metrics_df`.
        filters: The arguments of `load_frame` that limit the table to its subject.
    """

    label: EnglishText = "Metrics"
    css = "af-groups"

    def __init__(
        self, thread: EngineThread, load_frame: Callable[..., Any], call: str, filters: Mapping[str, Any]
    ) -> None:
        super().__init__(thread)
        self._load_frame, self._call, self._filters = load_frame, call, filters
        self._form = {"by": "agent", "search": ""}
        self._within: dict[str, tuple[str, str]] = {}  # key and name of a group, by the kind of group
        self._order: dict[str, Any] = {}
        self._frame: Any  # a DataFrame
        self._by = "agent"  # of the loaded frame, not of the form
        self._load_lock = asyncio.Lock()

    async def load(self) -> None:
        """Load the frame."""
        async with self._load_lock:  # an earlier load must not finish last
            arguments = self.arguments
            self._frame, self._by = await asyncio.to_thread(self._load_frame, **arguments), arguments["by"]

    @property
    def arguments(self) -> dict[str, Any]:
        """The arguments of the call that gives the displayed table, without defaults."""
        within = {by: key for by, (key, _) in self._within.items()}
        if "day" in within:
            first = datetime.fromisoformat(within.pop("day"))
            days = {"since": first, "until": first + timedelta(days=1)}
            within |= {name: time.astimezone().isoformat() for name, time in days.items()}
        search = {"search": self._form["search"]} if self._form["search"] else {}
        return {**self._filters, "by": self._form["by"], **within, **search, **self._order}

    @property
    def code(self) -> str:
        """The call that gives the displayed table."""
        return f"{self._call}({', '.join(f'{name}={value!r}' for name, value in self.arguments.items())})"

    def announcement(self) -> str:
        """Return the number of rows and their order, or the announcement of the open chat."""
        if self._chat is not None:
            return super().announcement()
        column = translate(_SHOWN.get(self._sorted_by, self._by), context="column")
        order = translate("ascending" if self._order.get("ascending") else "descending")
        rows = translate_count(len(self._frame), "row")
        return translate("{rows}, sorted by {column}, {order}", rows=rows, column=column, order=order)

    @property
    def _sorted_by(self) -> str:
        return str(self._order.get("sort", {"run": "started_at", "day": "day"}.get(self._by, "total_tokens")))

    async def _show_and_save(self) -> None:
        await self.load()
        self.screen.save_soon()

    # --- actions ------------------------------------------------------------------------------------------------------

    async def act_show(self, act: PageAction) -> None:
        """Group and filter as the form says."""
        values = {name: str(act.args["values"].get(name) or "") for name in self._form}
        if values["by"] not in _GROUPS:
            raise UsageError(f"There is no group {values['by']!r}.")
        self._order = self._order if values["by"] == self._form["by"] else {}
        self._form = values
        await self._show_and_save()

    async def act_sort(self, act: PageAction) -> None:
        """Sort by a column, the highest value first; a second click sorts the lowest value first."""
        column = str(act.args.get("column"))
        turns_round = column == self._sorted_by and not self._order.get("ascending")
        self._order = {"sort": column, **({"ascending": True} if turns_round else {})}
        await self._show_and_save()

    async def act_within(self, act: PageAction) -> None:
        """Show the runs of a group."""
        by, group = self._by, str(act.args.get("group"))
        self._within[by] = next(((key, name) for key, name, _ in self._groups() if key == group), (group, group))
        self._form, self._order = {**self._form, "by": "run", "search": ""}, {}
        await self._show_and_save()

    async def act_leave(self, act: PageAction) -> None:
        """Show all groups again."""
        by = str(act.args.get("by"))
        if self._within.pop(by, None) is not None:
            self._form, self._order = {**self._form, "by": by}, {}
        await self._show_and_save()

    async def act_frame(self, act: PageAction) -> None:
        """Add a cell with the Python call that returns the displayed table."""
        self.screen.effect(act.page, "cell", source=self.code, cell_type="code")

    # --- content ------------------------------------------------------------------------------------------------------

    def own_nodes(self, *, is_saved: bool = False) -> tuple[Node, ...]:
        """Return title, form and table; the saved output has the call instead of controls."""
        title = f"<strong>{translate(self.label)}</strong>"
        text = translate("{title}: {text}", title=translate(self.label), text=self.code)
        title_node = Node("title", title, css="af-question", text=text)
        if is_saved:
            call = Node("call", f"<p><code>{escape(self.code)}</code></p>", text="")
            return title_node, self._table(is_saved=True), call
        name = translate("As DataFrame: add a cell with this table")
        frame = Node("frame", button(translate("As DataFrame"), "frame", name=name), "controls", "af-controls")
        box = Node("head", kind="box", css="af-home-head", children=(title_node, frame))
        return box, self._form_node(), *self._within_nodes(), self._table(is_saved=False)

    def _form_node(self) -> Node:
        names = (capitalized(translate(name, context="column")) for name in _GROUPS)
        fields = (
            Field("by", "choice", self._form["by"], translate("Group by"), tuple(_GROUPS), tuple(names)),
            Field("search", "text", self._form["search"], translate("Filter by name")),
        )
        name = translate("Groups and filter")
        return form_node("form", "show", "", name, fields, css="af-groups-form", is_instant=True)

    def _within_nodes(self) -> Iterator[Node]:
        """Yield the buttons that lift the limit to a group."""
        buttons = []
        for by, (_, name) in self._within.items():
            text = translate("{title}: {text}", title=capitalized(translate(by, context="column")), text=name)
            label = translate("{group}: show all groups again", group=text)
            buttons.append(button(f"{text} ×", "leave", css="af-small", name=label, by=by))
        if buttons:
            yield Node("within", " ".join(buttons), "controls", "af-controls")

    def _groups(self) -> Iterator[tuple[str, str, _Group]]:
        """Yield key, name for readers and values of each displayed group."""
        by, frame = self._by, self._frame.head(MAX_ROWS).astype(object)
        for values in frame.where(frame.notna(), None).to_dict("records"):
            first = str(next(iter(values.values())))
            name = capitalized(agent_label(first)) if by == "agent" else clip(first, _NAME_COLUMNS)
            yield str(values.get(f"{by}_id", first)), name, values

    def _table(self, *, is_saved: bool) -> Node:
        frame, by = self._frame, self._by
        if frame.empty:
            text = translate("Nothing matches. Empty the filter.")
            if self.arguments.keys() == {"by"}:
                text = translate("No model has been called yet. {code} asks a question.", code='wb.ask("...")')
            return Node("table", f"<p>{escape(text)}</p>", css="af-quiet", text=text)
        columns = [(str(frame.columns[0]), by), *((name, text) for name, text in _SHOWN.items() if name in frame)]
        headings = [translate(heading, context="column") for _, heading in columns]
        head_row = "".join(map(self._heading, (name for name, _ in columns), headings, [is_saved] * len(columns)))
        longest = {name: frame[name.replace("_p50_", "_p95_")].max() for name, _ in columns if name.endswith("_ms")}
        body, lines = "", []
        for key, group_name, values in self._groups():
            texts = [_text(name, values) for name, _ in columns[1:]]
            lines.append([group_name, *texts])
            body += f'<tr><th scope="row">{self._name(key, group_name, values, is_saved=is_saved)}</th>'
            for (name, _), text in zip(columns[1:], texts, strict=True):
                html = time_html(values[name].to_pydatetime()) if name == "started_at" else text
                body += f"<td>{html}{_bar(values[name], longest.get(name))}</td>"
            body += "</tr>"
        html = f'<table class="af-table"><thead><tr>{head_row}</tr></thead><tbody>{body}</tbody></table>'
        html = scroll_box(html, "af-table-box", translate(self.label))
        rows = translate_count(len(frame) - MAX_ROWS, "row")
        notes = [translate("… {rows} more: {code}", rows=rows, code=self.code)] if len(frame) > MAX_ROWS else []
        if frame["tokens_estimated"].any():
            notes.append(translate("“About”: with estimates from the size of the texts."))
        html += "".join(f'<p class="af-quiet">{escape(note)}</p>' for note in notes)
        return Node("table", html, text="\n".join([CardTable(headings, lines).plain(), *notes]))

    def _heading(self, column: str, text: str, is_saved: bool) -> str:
        """Return the heading of a column, as a button that sorts by the column."""
        order = "ascending" if self._order.get("ascending") else "descending"
        state = f' aria-sort="{order}"' if column == self._sorted_by else ""
        attributes = f'type="button" class="af-sort" {action_attributes("sort", column=column)}'
        html = text if is_saved else f"<button {attributes}>{text}</button>"
        return f'<th scope="col"{state}>{html}</th>'

    def _name(self, key: str, name: str, values: _Group, *, is_saved: bool) -> str:
        """Return the name of a group as a button that shows its runs, or of a run as a button that opens the run."""
        by, html = self._by, escape_with_language(name)
        attributes = f'aria-label="{escape(translate("{name}: show the runs", name=name))}" '
        if by == "run":
            attributes = action_attributes("open", conversation=values["conversation_id"], message=values["message_id"])
        else:
            attributes += action_attributes("within", group=key)
        html = html if is_saved else f'<button type="button" class="af-link" {attributes}>{html}</button>'
        return f"{status_mark(values['status'])} {html}" if by == "run" else html


def _text(column: str, values: _Group) -> str:
    """Format a figure of a group; an unknown figure is a dash."""
    value, is_estimated = values[column], bool(values["tokens_estimated"] and values[column])
    if value is None:
        return "–"
    if column == "started_at":
        return format_local_time(value.to_pydatetime())
    if column.endswith("_ms"):
        return translate_duration(value)
    if column == "cached_share":
        return f"{value:.0%}"
    if column == "total_tokens":
        return about(f"{rounded(value, is_estimated=is_estimated):,}", is_estimated=is_estimated)
    if column == "cost_usd":
        unknown = translate(", {n} unknown", n=f"{values['n_unpriced']:,}") if values["n_unpriced"] else ""
        return about(usd(value), is_estimated=is_estimated) + unknown
    return f"{value:,}"


def _bar(value: float | None, longest: float | None) -> str:
    """Return a bar for a time in relation to the longest time; the number stands beside the bar."""
    if value is None or not longest:
        return ""
    return f'<span class="af-groups-bar" aria-hidden="true"><span style="width: {value / longest:.0%}"></span></span>'
