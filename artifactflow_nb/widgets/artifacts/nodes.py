"""Parts of the artifact panel: the list, and the title, controls, versions, text and forms of the chosen artifact."""

from collections.abc import Sequence
from dataclasses import dataclass

from artifactflow_nb.core.text.diff import Layout
from artifactflow_nb.core.text.format import count, format_time
from artifactflow_nb.core.text.markdown import escape, escape_with_language
from artifactflow_nb.core.text.shortened import shown_code
from artifactflow_nb.export import EXPORT_FORMATS
from artifactflow_nb.store.artifact_versions import CHANGE_LABELS, Artifact
from artifactflow_nb.widgets.artifacts.texts import ArtifactTexts
from artifactflow_nb.widgets.forms.form import Field, form_node
from artifactflow_nb.widgets.page.elements import action_attributes, button, scroll_box, status_mark
from artifactflow_nb.widgets.page.nodes import Node

VIEW_MODES = {"rendered": "Rendered", "raw": "Raw", "changes": "Changes"}
LAYOUTS: dict[Layout, str] = {"inline": "Inline", "side_by_side": "Side by side"}
PREVIOUS_VERSION = "the version before it"
PAGE_SIZE = 50
"""Number of versions that are listed at first, and that each press of the button adds."""
_EDIT_ROWS = 14


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


def heading(title: str, status: str) -> Node:
    """The title of the conversation, and the status of its run while that is unfinished."""
    state = f"{status_mark(status)} <span>The run is {status}.</span>" if status in {"running", "waiting"} else ""
    return Node(
        "head",
        f"<strong>Artifacts</strong> <span class='af-arg'>{escape_with_language(title)}</span> {state}",
        css="af-art-head",
    )


def artifact_list(present: Sequence[Artifact], chosen: str) -> Node:
    """The artifacts as buttons that show them."""
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


def title(shown: ArtifactSelection) -> Node:
    """The title and id of the artifact, and the number, author and time of the displayed version."""
    version = shown.version
    earlier = "" if version.version == shown.current.version else ' <span class="af-art-old">an earlier version</span>'
    label = escape(version_label(version))
    html = (
        f'<div class="af-art-name">{escape_with_language(version.title)}</div>'
        f'<div class="af-quiet"><code>{escape(version.artifact_id)}</code> · {label}{earlier}</div>'
    )
    return Node("title", html, css="af-art-titles")


def version_label(artifact: Artifact, *, with_dates: bool = True) -> str:
    """`version 2 · changed by user · 2026-11-22 05:17 UTC`, unescaped."""
    date = f" · {format_time(artifact.created_at)}" if with_dates else ""
    return f"version {artifact.version} · {update_label(artifact)}{date}"


def update_label(artifact: Artifact) -> str:
    """The kind of change and its author, such as `changed by user`; unescaped."""
    return f"{CHANGE_LABELS.get(artifact.update_type, artifact.update_type)} by {artifact.created_by}"


def view_mode_buttons(shown: ArtifactSelection, *, can_rename: bool = True) -> Node:
    """The buttons for the view modes, and those to edit, rename or restore the artifact.

    Args:
        shown: The selection.
        can_rename: Offer to rename the artifact; the board renames blocks in their settings instead.
    """
    views = [button(label, "look", pressed=shown.view_mode == mode, look=mode) for mode, label in VIEW_MODES.items()]
    changes = [button("Edit", "edit_ask", css="af-primary")]
    changes += [button("Rename", "rename_ask")] if can_rename else []
    if shown.version.version != shown.current.version:  # only the current version can be edited
        name = f"Restore version {shown.version.version} as the newest"
        changes = [button("Restore", "restore", css="af-primary", name=name, version=shown.version.version)]
    html = _group("View", views) + _group("Change", changes)
    return Node("looks", html, "controls", "af-controls af-art-controls")


def download_buttons(*, has_cells: bool = True) -> Node:
    """The buttons to copy the text, where there are cells also into one, and to download it in each export format."""
    copies = [button("Copy", "copy", name="Copy the text")]
    copies += [button("Copy to a cell", "cell", name="Copy to a cell below this one")] if has_cells else []
    downloads = [
        button(form, "download", name=f"Download {form}: {kind.label}", form=form)
        for form, kind in EXPORT_FORMATS.items()
    ]
    html = _group("Copy", copies) + _group("Download", ["<span>Download</span>", *downloads])
    return Node("taking", html, "controls", "af-controls af-art-controls af-art-taking")


def _group(label: str, buttons: Sequence[str]) -> str:
    return f'<span class="af-art-group" role="group" aria-label="{label}">{"".join(buttons)}</span>'


def versions(
    history: Sequence[Artifact], shown: ArtifactSelection | None, *, key: str = "versions", with_dates: bool = True
) -> Node:
    """The versions, the newest first.

    Args:
        history: The versions, the current one last.
        shown: The selection, for buttons that show a version or compare it with the displayed one; None to list all
            versions without buttons.
        key: Key of the node.
        with_dates: Show when the versions were written.
    """
    n_listed = len(history) if shown is None else shown.n_listed
    rows = []
    for version in reversed(history[-n_listed:]):
        number = version.version
        date = f"<td>{format_time(version.created_at)}</td>" if with_dates else ""
        buttons = ""
        if shown is not None:
            shown_number = shown.version.version
            is_shown = number == shown_number
            buttons = button("Show", "show", pressed=is_shown, name=f"Show version {number}", version=number)
            if not is_shown:
                name = f"Compare version {number} with version {shown_number}"
                buttons += button("Compare", "compare", name=name, before=number, after=shown_number)
            buttons = f"<td>{buttons}</td>"
        rows.append(f'<tr><th scope="row">v{number}</th><td>{escape(update_label(version))}</td>{date}{buttons}</tr>')
    hidden = len(history) - n_listed
    label = f"Show {min(hidden, PAGE_SIZE)} of {count(hidden, 'earlier version')}"
    more = f'<p class="af-controls">{button(label, "older")}</p>' if hidden > 0 else ""
    table = f"<table><tbody>{''.join(rows)}</tbody></table>"
    content = Node(f"{key}-table", f"{table}{more}", css="af-art-table")
    if shown is None:  # without buttons, the keyboard has to reach the box itself
        content = Node(f"{key}-table", scroll_box(table, "af-art-table", "Versions"))
    return Node(key, count(len(history), "version"), "fold", "af-art-versions", children=(content,))


def comparison_controls(shown: ArtifactSelection) -> tuple[Node, ...]:
    """The form to choose the two versions to compare, and the buttons for the layout of the changes."""
    if len(shown.history) < 2:  # noqa: PLR2004 - there is nothing to choose
        return (_layouts(shown),)
    names = tuple(version_name(version) for version in shown.history)
    before = version_name(shown.before) if shown.before else PREVIOUS_VERSION
    fields = [
        Field("before", "choice", before, label="From", choices=(PREVIOUS_VERSION, *names), keep=True),
        Field("after", "choice", version_name(shown.version), label="To", choices=names, keep=True),
    ]
    label = "Versions to compare"
    form = form_node("comparing", "compare_form", "Compare", label, fields, css="af-art-comparing")
    return form, _layouts(shown)


def version_name(version: Artifact) -> str:
    """The name of a version in the comparison form; `act_compare_form` maps it back to the number."""
    return f"v{version.version}, {update_label(version)}"


def _layouts(shown: ArtifactSelection) -> Node:
    buttons = [button(label, "layout", pressed=shown.layout == name, layout=name) for name, label in LAYOUTS.items()]
    return Node("layouts", _group("Layout of the changes", buttons), "controls", "af-controls af-art-controls")


def text_html(version: Artifact, view_mode: str, texts: ArtifactTexts) -> str:
    """The text of a version, rendered or raw."""
    if view_mode == "raw":
        text = shown_code(version.content)
        return f'<pre class="af-art-raw" tabindex="0" aria-label="The text as it is stored">{text}</pre>'
    return texts.html(version) or '<p class="af-quiet">It is empty.</p>'


def edit_form(base: Artifact) -> Node:
    """The form to edit the whole text; the panel builds it once per edit, so that no input is lost."""
    label = f"Text of version {base.version}"
    field = Field(
        "text", "multiline", base.content, label=label, rows=_EDIT_ROWS, autofocus=True, monospace=True, keep=True
    )
    return _form("edit", "Save as a new version", f"Edit {base.artifact_id}", base, field)


def rename_form(base: Artifact) -> Node:
    """The form to change the title."""
    field = Field("title", "text", base.title, label="Title", autofocus=True, keep=True)
    return _form("rename", "Rename", f"Rename {base.artifact_id}", base, field)


def _form(act: str, submit: str, label: str, base: Artifact, field: Field) -> Node:
    args, cancel = {"artifact": base.artifact_id}, {"cancel": "Cancel", "cancelAct": "dismiss"}
    return form_node(f"{act}-{base.version}", act, submit, label, [field], css="af-art-form", args=args, cancel=cancel)


def inactive_branch_note() -> Node:
    """The note that the branch on which the edit began is no longer the active one."""
    note = (
        "Another branch of the conversation was activated meanwhile. Your edit will be saved on its own branch; "
        "then the active branch is shown."
    )
    return Node("elsewhere", f'<p role="alert">{note}</p>', css="af-art-between")


def conflict_note(base: Artifact, newest: Artifact) -> Node:
    """The note that another version was written during the edit, with buttons to see it or to save on top of it."""
    note = (
        f"Version {newest.version} by {escape(newest.created_by)} was written meanwhile: your edit would undo it. "
        "See its changes, or save your edit on top of it."
    )
    buttons = button("Show its changes", "compare", before=base.version, after=newest.version) + button(
        "Save mine on top", "rebase", version=newest.version
    )
    return Node(
        "between", f'<p role="alert">{note}</p><div class="af-controls">{buttons}</div>', "controls", "af-art-between"
    )
