"""Parts of the artifact panel: the list, and the title, controls, versions, text and forms of the chosen artifact."""

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from artifactflow_nb.core.language import EnglishText, agent_label, translate
from artifactflow_nb.core.text.diff import Layout
from artifactflow_nb.core.text.format import translate_count
from artifactflow_nb.core.text.markdown import MarkdownRenderer, escape, escape_with_language
from artifactflow_nb.core.text.panels import scroll_box
from artifactflow_nb.core.text.shortened import shown_html, shown_plain
from artifactflow_nb.sources.citation_marks import Citations
from artifactflow_nb.store.artifact_versions import Artifact
from artifactflow_nb.widgets.forms.form import Field, form_node
from artifactflow_nb.widgets.page.elements import action_attributes, button, format_buttons, status_mark, time_html
from artifactflow_nb.widgets.page.nodes import Node

VIEW_MODES: Mapping[str, EnglishText] = {"rendered": "Rendered", "raw": "Raw", "changes": "Changes"}
LAYOUTS: Mapping[Layout, EnglishText] = {"inline": "Inline", "side_by_side": "Side by side"}
_CHANGES: Mapping[str, EnglishText] = {
    "create": "created by {author}",
    "update": "changed by {author}",
    "rewrite": "rewritten by {author}",
    "restore": "restored by {author}",
    "rename": "renamed by {author}",
    "arrange": "arranged by {author}",
    "delete": "deleted by {author}",
}
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
        """Render the versions that are not in the cache, and drop all other versions from the cache."""
        versions = {(artifact.artifact_id, artifact.version): artifact for artifact in artifacts}
        missing = {key: artifact for key, artifact in versions.items() if key not in self._rendered}

        def render_missing() -> dict[tuple[str, int], str]:
            return {key: self._render(artifact) for key, artifact in missing.items()}

        new = await asyncio.to_thread(render_missing) if missing else {}
        self._rendered = {key: text for key, text in self._rendered.items() if key in versions} | new

    def html(self, artifact: Artifact) -> str:
        """Return the rendered text of a version; a version that was not prepared is rendered in the calling thread."""
        text = self._rendered.get((artifact.artifact_id, artifact.version))
        return self._render(artifact) if text is None else text

    def _render(self, artifact: Artifact) -> str:
        citations = self._citations(artifact)
        return citations.evidence.marks.head() + shown_html(artifact.markdown, self._renderer, cite=citations.apply)


@dataclass(frozen=True, slots=True)
class ArtifactSelection:
    """The chosen artifact, and how it is displayed.

    Attributes:
        history: The versions that the branch sees, the current version last.
        version: The displayed version.
        view_mode: `rendered`, `raw` or `changes`.
        before: The version to compare the displayed version with; None to compare with an empty text.
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
    """Build the title of the conversation, and the status of an unfinished run."""
    state = ""
    if status in {"running", "waiting"}:
        note = translate("The run is running." if status == "running" else "The run is waiting.")
        state = f"{status_mark(status)} <span>{note}</span>"
    return Node(
        "head",
        f"<strong>{translate('Artifacts')}</strong> <span class='af-arg'>{escape_with_language(title)}</span> {state}",
        css="af-art-head",
    )


def artifact_list(present: Sequence[Artifact], chosen: str) -> Node:
    """Build the list of artifacts; each artifact is a button that shows the artifact."""
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


def title(shown: ArtifactSelection, *, with_id: bool = True) -> Node:
    """Build the title and id of the artifact, and the number, author and time of the displayed version."""
    version, earlier = shown.version, ""
    if version.version != shown.current.version:
        earlier = f' <span class="af-art-old">{translate("an earlier version")}</span>'
    label = version_label(version)
    name = f"<code>{escape(version.artifact_id)}</code> · " if with_id else ""
    html = (
        f'<div class="af-art-name">{escape_with_language(version.title)}</div>'
        f'<div class="af-quiet">{name}{label}{earlier}</div>'
    )
    return Node("title", html, css="af-art-titles")


def version_label(artifact: Artifact, *, with_dates: bool = True) -> str:
    """Describe a version as HTML: `version 2 · changed by you · 2026-11-22 05:17 UTC`."""
    date = f" · {time_html(artifact.created_at)}" if with_dates else ""
    return escape(f"{translate('version {number}', number=artifact.version)} · {update_label(artifact)}") + date


def update_label(artifact: Artifact) -> str:
    """Return the kind of change and its author, unescaped, such as `changed by you`."""
    change = _CHANGES.get(artifact.update_type, _CHANGES["update"])
    return translate(change, author=artifact.author_label)


def view_mode_buttons(shown: ArtifactSelection, *, can_rename: bool = True) -> Node:
    """Build the buttons for the view modes, and to edit, rename or restore the artifact."""
    views = [
        button(translate(label), "look", pressed=shown.view_mode == mode, look=mode)
        for mode, label in VIEW_MODES.items()
    ]
    changes = [button(translate("Edit"), "edit_ask", css="af-primary")]
    changes += [button(translate("Rename"), "rename_ask")] if can_rename else []
    if shown.version.version != shown.current.version:  # only the current version can be edited
        name = translate("Restore version {number} as the newest", number=shown.version.version)
        changes = [button(translate("Restore"), "restore", css="af-primary", name=name, version=shown.version.version)]
    html = _group(translate("View"), views) + _group(translate("Change"), changes)
    return Node("looks", html, "controls", "af-controls af-art-controls")


def download_buttons(*, has_cells: bool = True) -> Node:
    """Build the buttons to copy or download the text and, in a notebook, to insert the text as a cell."""
    copies = [button(translate("Copy"), "copy", name=translate("Copy the text"))]
    copies += (
        [button(translate("Copy to a cell"), "cell", name=translate("Copy to a cell below this cell"))]
        if has_cells
        else []
    )
    label = translate("Download")
    downloads = [f"<span>{label}</span>", *format_buttons("download")]
    html = _group(translate("Copy"), copies) + _group(label, downloads)
    return Node("taking", html, "controls", "af-controls af-art-controls af-art-taking")


def _group(label: str, buttons: Sequence[str]) -> str:
    return f'<span class="af-art-group" role="group" aria-label="{label}">{"".join(buttons)}</span>'


def versions(
    history: Sequence[Artifact], shown: ArtifactSelection | None, *, key: str = "versions", with_dates: bool = True
) -> Node:
    """List the versions of a history, the newest first; in `history` the current version is the last.

    With a selection (`shown`), buttons show a version or compare the version with the displayed version.
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
            name = translate("Show version {number}", number=number)
            buttons = button(translate("Show"), "show", pressed=is_shown, name=name, version=number)
            if not is_shown:
                name = translate("Compare version {before} with version {after}", before=number, after=shown_number)
                buttons += button(translate("Compare"), "compare", name=name, before=number, after=shown_number)
            buttons = f"<td>{buttons}</td>"
        label = f'<th scope="row">{translate("v{number}", number=number)}</th>'
        rows.append(f"<tr>{label}<td>{escape(update_label(version))}</td>{date}{buttons}</tr>")
    hidden = len(history) - n_listed
    earlier = translate_count(hidden, "earlier version")
    label = translate("Show {n} of {versions}", n=min(hidden, PAGE_SIZE), versions=earlier)
    more = f'<p class="af-controls">{button(label, "older")}</p>' if hidden > 0 else ""
    table = f'<table class="af-table"><tbody>{"".join(rows)}</tbody></table>'
    content = Node(f"{key}-table", f"{table}{more}", css="af-art-table")
    if shown is None:  # without buttons, the box itself must be reachable by keyboard
        content = Node(f"{key}-table", scroll_box(table, "af-art-table", translate("Versions")))
    label = translate_count(len(history), "version")
    if len(history) < history[-1].version:  # the missing versions are on other branches
        label = translate("{versions} on this branch", versions=label)
    return Node(key, label, "fold", "af-art-versions", children=(content,))


def comparison_controls(shown: ArtifactSelection) -> tuple[Node, ...]:
    """Build the form that chooses the versions to compare, and the buttons for the layout of the changes."""
    if len(shown.history) < 2:  # noqa: PLR2004 - there is nothing to choose
        return (_layouts(shown),)
    names = tuple(version_name(version) for version in shown.history)
    first = translate("the version before")
    before, after = version_name(shown.before) if shown.before else first, version_name(shown.version)
    fields = [
        Field("before", "choice", before, label=translate("From"), choices=(first, *names), keep=True),
        Field("after", "choice", after, label=translate("To"), choices=names, keep=True),
    ]
    label = translate("Versions to compare")
    form = form_node("comparing", "compare_form", translate("Compare"), label, fields, css="af-art-comparing")
    return form, _layouts(shown)


def version_name(version: Artifact) -> str:
    """Name a version in the comparison form; `act_compare_form` maps the name back to the number."""
    return translate("v{number}, {update}", number=version.version, update=update_label(version))


def _layouts(shown: ArtifactSelection) -> Node:
    buttons = [
        button(translate(label), "layout", pressed=shown.layout == name, layout=name) for name, label in LAYOUTS.items()
    ]
    html = _group(translate("Layout of the changes"), buttons)
    return Node("layouts", html, "controls", "af-controls af-art-controls")


def text_html(version: Artifact, view_mode: str, rendered: ArtifactTexts) -> str:
    """Return the text of a version, rendered or raw."""
    if view_mode == "raw":
        text = escape(shown_plain(version.content))
        return f'<pre class="af-art-raw" tabindex="0" aria-label="{translate("The text as it is stored")}">{text}</pre>'
    return rendered.html(version) or f'<p class="af-quiet">{translate("The text is empty.")}</p>'


def edit_form(base: Artifact) -> Node:
    """Build the form that edits the whole text; the panel builds the form once per edit, so that no input is lost."""
    label = translate("Text of version {number}", number=base.version)
    field = Field(
        "text", "multiline", base.content, label=label, rows=_EDIT_ROWS, autofocus=True, monospace=True, keep=True
    )
    return _form("edit", translate("Save as a new version"), translate("Edit {name}", name=base.title), base, field)


def rename_form(base: Artifact) -> Node:
    """Build the form that changes the title."""
    field = Field("title", "text", base.title, label=translate("Title"), autofocus=True, keep=True)
    return _form("rename", translate("Rename"), translate("Rename {name}", name=base.title), base, field)


def _form(act: str, submit: str, label: str, base: Artifact, field: Field) -> Node:
    args, cancel = {"artifact": base.artifact_id}, {"cancel": translate("Cancel"), "cancelAct": "dismiss"}
    return form_node(f"{act}-{base.version}", act, submit, label, [field], css="af-art-form", args=args, cancel=cancel)


def inactive_branch_note() -> Node:
    """Build the note that the branch on which the edit began is no longer active."""
    note = translate(
        "Another branch of the conversation was activated meanwhile. Your edit will be saved on its own branch; "
        "then the active branch is shown."
    )
    return Node("elsewhere", f'<p role="alert">{note}</p>', css="af-art-between")


def conflict_note(base: Artifact, newest: Artifact) -> Node:
    """Build the note that another version was written during the edit, with buttons to see or replace that version."""
    note = translate(
        "Version {number} by {author} was written meanwhile: your edit would undo it. "
        "Look at the other changes, or save your text on top.",
        number=newest.version,
        author=agent_label(newest.created_by),
    )
    buttons = button(translate("Show the other changes"), "compare", before=base.version, after=newest.version)
    buttons += button(translate("Save my text on top"), "rebase", version=newest.version)
    html = f'<p role="alert">{escape(note)}</p><div class="af-controls">{buttons}</div>'
    return Node("between", html, "controls", "af-art-between")


def saved_artifacts(
    title: str,
    histories: Mapping[str, Sequence[Artifact]],
    chosen: ArtifactSelection | None,
    changes: str,
    rendered: ArtifactTexts,
    *,
    with_dates: bool,
) -> tuple[Node, ...]:
    """Build the nodes of the saved output; without dates the output of equal runs is equal.

    `histories` are the versions of each artifact, the current version last; `changes` is the difference as HTML.
    """
    lines, folds = [], []
    for artifact_id, history in histories.items():
        is_chosen = chosen is not None and chosen.version.artifact_id == artifact_id
        version = chosen.version if chosen is not None and is_chosen else history[-1]
        lines.append(f"  {artifact_id} v{version.version}: {version.title}")
        text = artifact_text(f"of-{artifact_id}", version, rendered, with_dates=with_dates)
        difference = [Node(f"of-{artifact_id}-changes", changes)] if changes and is_chosen else []
        table = versions(history, None, key=f"of-{artifact_id}-versions", with_dates=with_dates)
        html = (
            f'<span class="af-title">{escape_with_language(version.title)}</span> '
            f'<span class="af-out"><code>{escape(artifact_id)}</code> v{version.version}</span>'
        )
        children = (*text, *difference, table)
        folds.append(Node(f"of-{artifact_id}", html, "fold", "af-artifact", is_chosen, children=children))
    first = translate("Artifacts: {title}", title=title) if title else translate("Artifacts")
    plain = "\n".join([first, *(lines or [f"  {translate('No artifacts yet.')}"])])
    heading = f"<strong>{translate('Artifacts')}</strong> {escape_with_language(title)}"
    nothing = [] if folds else [Node("nothing", f"<p>{translate('No artifacts yet.')}</p>", css="af-quiet")]
    return (Node("head", heading, css="af-art-head", text=plain), *folds, *nothing)


def artifact_text(key: str, version: Artifact, rendered: ArtifactTexts, *, with_dates: bool) -> tuple[Node, Node]:
    """Build the description of a version and its rendered text."""
    return (
        Node(f"{key}-origin", version_label(version, with_dates=with_dates), css="af-quiet"),
        Node(f"{key}-text", text_html(version, "rendered", rendered), css="af-md af-page"),
    )
