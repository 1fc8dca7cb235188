"""Parts of the artifact panel: the list, and the title, controls, versions, text and forms of the chosen artifact."""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from artifactflow_nb.core.language import Texts
from artifactflow_nb.core.text.diff import Layout
from artifactflow_nb.core.text.markdown import MarkdownRenderer, escape, escape_with_language
from artifactflow_nb.core.text.panels import scroll_box
from artifactflow_nb.core.text.shortened import shown_code, shown_html
from artifactflow_nb.sources.citation_marks import Citations
from artifactflow_nb.store.artifact_versions import CHANGE_LABELS, Artifact
from artifactflow_nb.widgets.forms.form import Field, form_node
from artifactflow_nb.widgets.page.elements import action_attributes, button, format_buttons, status_mark, time_html
from artifactflow_nb.widgets.page.markdown import html_to_markdown
from artifactflow_nb.widgets.page.nodes import Node

VIEW_MODES = ("rendered", "raw", "changes")
LAYOUTS: tuple[Layout, ...] = ("inline", "side_by_side")
PAGE_SIZE = 50
"""Number of versions that are listed at first, and that each press of the button adds."""
_EDIT_ROWS = 14


class ArtifactTexts:
    """Cache of rendered versions with their citations; the ids are unique in the conversation of the artifacts."""

    def __init__(self, citations: Callable[[Artifact], Citations]) -> None:
        self._citations = citations
        self._renderer = MarkdownRenderer()
        self._rendered: dict[tuple[str, int], str] = {}

    async def prepare(self, artifacts: Iterable[Artifact]) -> None:
        """Render the versions that are not in the cache, and drop all others from it."""
        versions = {(artifact.artifact_id, artifact.version): artifact for artifact in artifacts}
        missing = {key: artifact for key, artifact in versions.items() if key not in self._rendered}

        def render_missing() -> dict[tuple[str, int], str]:
            return {key: self._render(artifact) for key, artifact in missing.items()}

        new = await asyncio.to_thread(render_missing) if missing else {}
        self._rendered = {key: text for key, text in self._rendered.items() if key in versions} | new

    def html(self, artifact: Artifact) -> str:
        """Return the rendered text of a version; rendered in the calling thread if it was not prepared."""
        text = self._rendered.get((artifact.artifact_id, artifact.version))
        return self._render(artifact) if text is None else text

    def _render(self, artifact: Artifact) -> str:
        html = shown_html(artifact.markdown, self._renderer, cite=self._citations(artifact).apply)
        html_to_markdown(html)  # fills its cache in this thread; the saved output calls it on the loop
        return html


@dataclass(frozen=True, slots=True)
class ArtifactSelection:
    """The chosen artifact, and how it is displayed.

    Attributes:
        history: The versions that the branch sees; its current one last.
        version: The displayed version.
        view_mode: `rendered`, `raw` or `changes`.
        before: The version that the displayed one is compared with; None to compare with an empty text.
        layout: The layout of the changes.
        n_listed: Number of versions in the list, counted from the newest.
    """

    history: Sequence[Artifact]
    version: Artifact
    view_mode: str
    before: Artifact | None
    layout: Layout
    n_listed: int = PAGE_SIZE

    @property
    def current(self) -> Artifact:
        """The newest version on the branch."""
        return self.history[-1]


def heading(title: str, status: str, texts: Texts) -> Node:
    """The title of the conversation, and the status of its run while that is unfinished."""
    state = ""
    if status in {"running", "waiting"}:
        state = f"{status_mark(status, texts)} <span>{texts(f'run_is_{status}')}</span>"
    return Node(
        "head",
        f"<strong>{texts('page_artifacts')}</strong> <span class='af-arg'>{escape_with_language(title)}</span> {state}",
        css="af-art-head",
    )


def artifact_list(present: Sequence[Artifact], chosen: str) -> Node:
    """Build the list of artifacts as buttons that show them."""
    items = "".join(_item(artifact, is_chosen=artifact.artifact_id == chosen) for artifact in present)
    return Node("list", f'<ul class="af-art-items">{items}</ul>', "controls", "af-art-list")


def _item(artifact: Artifact, *, is_chosen: bool) -> str:
    current = ' aria-current="true"' if is_chosen else ""
    action = action_attributes("choose", artifact=artifact.artifact_id)
    return (
        f'<li><button type="button" class="af-art-item"{current} {action}>'
        f'<span class="af-art-title">{escape_with_language(artifact.title)}</span>'
        f'<span class="af-art-id">{escape(artifact.artifact_id)} · v{artifact.version}</span></button></li>'
    )


def title(shown: ArtifactSelection, texts: Texts, *, with_id: bool = True) -> Node:
    """Build the title and id of the artifact, and the number, author and time of the displayed version."""
    version, earlier = shown.version, ""
    if version.version != shown.current.version:
        earlier = f' <span class="af-art-old">{texts("earlier_version")}</span>'
    label = version_label(version, texts)
    name = f"<code>{escape(version.artifact_id)}</code> · " if with_id else ""
    html = (
        f'<div class="af-art-name">{escape_with_language(version.title)}</div>'
        f'<div class="af-quiet">{name}{label}{earlier}</div>'
    )
    return Node("title", html, css="af-art-titles")


def version_label(artifact: Artifact, texts: Texts, *, with_dates: bool = True) -> str:
    """`version 2 · changed by you · 2026-11-22 05:17 UTC`, as HTML."""
    date = f" · {time_html(artifact.created_at)}" if with_dates else ""
    return escape(f"{texts('version', number=artifact.version)} · {update_label(artifact, texts)}") + date


def update_label(artifact: Artifact, texts: Texts) -> str:
    """The kind of change and its author, such as `changed by you`; unescaped."""
    change = artifact.update_type if artifact.update_type in CHANGE_LABELS else "update"
    return texts(f"update_{change}", author=texts.agent(artifact.created_by))


def view_mode_buttons(shown: ArtifactSelection, texts: Texts, *, can_rename: bool = True) -> Node:
    """The buttons for the view modes, and those to edit, rename or restore the artifact."""
    views = [button(texts(mode), "look", pressed=shown.view_mode == mode, look=mode) for mode in VIEW_MODES]
    changes = [button(texts("edit"), "edit_ask", css="af-primary")]
    changes += [button(texts("rename"), "rename_ask")] if can_rename else []
    if shown.version.version != shown.current.version:  # only the current version can be edited
        name = texts("restore_version", number=shown.version.version)
        changes = [button(texts("restore"), "restore", css="af-primary", name=name, version=shown.version.version)]
    html = _group(texts("view"), views) + _group(texts("change"), changes)
    return Node("looks", html, "controls", "af-controls af-art-controls")


def download_buttons(texts: Texts, *, has_cells: bool = True) -> Node:
    """The buttons to copy the text, to download it in each export format and, in a notebook, to insert it as a cell."""
    copies = [button(texts("page_copy"), "copy", name=texts("copy_text"))]
    copies += [button(texts("copy_to_cell"), "cell", name=texts("copy_to_cell_below"))] if has_cells else []
    label = texts("download")
    downloads = [f"<span>{label}</span>", *format_buttons("download", texts)]
    html = _group(texts("page_copy"), copies) + _group(label, downloads)
    return Node("taking", html, "controls", "af-controls af-art-controls af-art-taking")


def _group(label: str, buttons: Sequence[str]) -> str:
    return f'<span class="af-art-group" role="group" aria-label="{label}">{"".join(buttons)}</span>'


def versions(
    history: Sequence[Artifact],
    shown: ArtifactSelection | None,
    texts: Texts,
    *,
    key: str = "versions",
    with_dates: bool = True,
) -> Node:
    """The versions of a history, in which the current one is the last; the newest first.

    With a selection there are buttons that show a version or compare it with the displayed one.
    """
    n_listed = len(history) if shown is None else shown.n_listed
    rows = []
    for version in reversed(history[-n_listed:]):
        number = version.version
        date = f"<td>{time_html(version.created_at)}</td>" if with_dates else ""
        buttons = ""
        if shown is not None:
            shown_number = shown.version.version
            is_shown = number == shown_number
            buttons = button(
                texts("page_show"), "show", pressed=is_shown, name=texts("show_version", number=number), version=number
            )
            if not is_shown:
                name = texts("compare_versions", before=number, after=shown_number)
                buttons += button(texts("compare"), "compare", name=name, before=number, after=shown_number)
            buttons = f"<td>{buttons}</td>"
        label = f'<th scope="row">{texts("short_version", number=number)}</th>'
        rows.append(f"<tr>{label}<td>{escape(update_label(version, texts))}</td>{date}{buttons}</tr>")
    hidden = len(history) - n_listed
    label = texts("show_earlier", n=min(hidden, PAGE_SIZE), versions=texts.count(hidden, "n_earlier_versions"))
    more = f'<p class="af-controls">{button(label, "older")}</p>' if hidden > 0 else ""
    table = f'<table class="af-table"><tbody>{"".join(rows)}</tbody></table>'
    content = Node(f"{key}-table", f"{table}{more}", css="af-art-table")
    if shown is None:  # without buttons, the box itself must be reachable by keyboard
        content = Node(f"{key}-table", scroll_box(table, "af-art-table", texts("versions")))
    label = texts.count(len(history), "n_versions")
    if len(history) < history[-1].version:  # the other versions are on other branches
        label = texts("on_this_branch", versions=label)
    return Node(key, label, "fold", "af-art-versions", children=(content,))


def comparison_controls(shown: ArtifactSelection, texts: Texts) -> tuple[Node, ...]:
    """The form to choose the two versions to compare, and the buttons for the layout of the changes."""
    if len(shown.history) < 2:  # noqa: PLR2004 - there is nothing to choose
        return (_layouts(shown, texts),)
    names = tuple(version_name(version, texts) for version in shown.history)
    first = texts("version_before")
    before, after = version_name(shown.before, texts) if shown.before else first, version_name(shown.version, texts)
    fields = [
        Field("before", "choice", before, label=texts("from"), choices=(first, *names), keep=True),
        Field("after", "choice", after, label=texts("to"), choices=names, keep=True),
    ]
    label = texts("versions_to_compare")
    form = form_node("comparing", "compare_form", texts("compare"), label, fields, css="af-art-comparing")
    return form, _layouts(shown, texts)


def version_name(version: Artifact, texts: Texts) -> str:
    """The name of a version in the comparison form; `act_compare_form` maps it back to the number."""
    return texts("version_name", number=version.version, update=update_label(version, texts))


def _layouts(shown: ArtifactSelection, texts: Texts) -> Node:
    buttons = [button(texts(name), "layout", pressed=shown.layout == name, layout=name) for name in LAYOUTS]
    return Node("layouts", _group(texts("layout_of_changes"), buttons), "controls", "af-controls af-art-controls")


def text_html(version: Artifact, view_mode: str, rendered: ArtifactTexts, texts: Texts) -> str:
    """The text of a version, rendered or raw."""
    if view_mode == "raw":
        text = shown_code(version.content)
        return f'<pre class="af-art-raw" tabindex="0" aria-label="{texts("raw_text")}">{text}</pre>'
    return rendered.html(version) or f'<p class="af-quiet">{texts("is_empty")}</p>'


def edit_form(base: Artifact, texts: Texts) -> Node:
    """The form to edit the whole text; the panel builds it once per edit, so that no input is lost."""
    label = texts("text_of_version", number=base.version)
    field = Field(
        "text", "multiline", base.content, label=label, rows=_EDIT_ROWS, autofocus=True, monospace=True, keep=True
    )
    return _form("edit", texts("save_version"), texts("edit_named", name=base.title), base, field, texts)


def rename_form(base: Artifact, texts: Texts) -> Node:
    """The form to change the title."""
    field = Field("title", "text", base.title, label=texts("title"), autofocus=True, keep=True)
    return _form("rename", texts("rename"), texts("rename_named", name=base.title), base, field, texts)


def _form(act: str, submit: str, label: str, base: Artifact, field: Field, texts: Texts) -> Node:
    args, cancel = {"artifact": base.artifact_id}, {"cancel": texts("cancel"), "cancelAct": "dismiss"}
    return form_node(f"{act}-{base.version}", act, submit, label, [field], css="af-art-form", args=args, cancel=cancel)


def inactive_branch_note(texts: Texts) -> Node:
    """The note that the branch on which the edit began is no longer the active one."""
    return Node("elsewhere", f'<p role="alert">{texts("other_branch")}</p>', css="af-art-between")


def conflict_note(base: Artifact, newest: Artifact, texts: Texts) -> Node:
    """The note that another version was written during the edit, with buttons to see it or to save on top of it."""
    author = texts.agent(newest.created_by)
    note = escape(texts("version_meanwhile", number=newest.version, author=author))
    buttons = button(texts("show_its_changes"), "compare", before=base.version, after=newest.version) + button(
        texts("save_on_top"), "rebase", version=newest.version
    )
    return Node(
        "between", f'<p role="alert">{note}</p><div class="af-controls">{buttons}</div>', "controls", "af-art-between"
    )
