"""The parts of the artifact panel: the list, the head of the chosen one, its versions, its text, its forms."""

from collections.abc import Sequence
from dataclasses import dataclass

from artifactflow_nb.artifact import DONE
from artifactflow_nb.export import FORMS
from artifactflow_nb.store.artifact_versions import Artifact
from artifactflow_nb.text.diff_html import Layout
from artifactflow_nb.text.figures import count, moment
from artifactflow_nb.text.markdown import escape, speak
from artifactflow_nb.tools.forms import Field
from artifactflow_nb.widgets.artifact_texts import ArtifactTexts
from artifactflow_nb.widgets.controls import acting, button
from artifactflow_nb.widgets.pieces import mark
from artifactflow_nb.widgets.tree import Node

LOOKS = {"rendered": "Rendered", "raw": "Raw", "changes": "Changes"}
LAYOUTS: dict[Layout, str] = {"inline": "Inline", "side_by_side": "Side by side"}
BEFORE_IT = "the version before it"
PAGE_SIZE = 50
"""How many versions are listed at first, and how many more each time."""
_EDIT_ROWS = 14


@dataclass(frozen=True, slots=True)
class Shown:
    """What of an artifact is shown.

    Attributes:
        history: The versions that the branch sees, its present one last.
        version: The one that is shown.
        look: `rendered`, `raw` or `changes`.
        before: The version that changes are shown since; None for nothing, before there was a first one.
        layout: How changes are shown.
        n_listed: How many of the versions are listed, the newest.
    """

    history: Sequence[Artifact]
    version: Artifact
    look: str
    before: Artifact | None
    layout: Layout
    n_listed: int = PAGE_SIZE

    @property
    def present(self) -> Artifact:
        """The version that the branch has."""
        return self.history[-1]


def heading(title: str, status: str) -> Node:
    """Whose artifacts these are, and whether somebody is at work on them."""
    state = f"{mark(status)} <span>The run is {status}.</span>" if status in {"running", "waiting"} else ""
    return Node(
        "head", f"<strong>Artifacts</strong> <span class='af-arg'>{speak(title)}</span> {state}", css="af-art-head"
    )


def artifact_list(present: Sequence[Artifact], chosen: str) -> Node:
    """The artifacts, each a button that shows it."""
    items = "".join(_item(artifact, is_chosen=artifact.artifact_id == chosen) for artifact in present)
    return Node("list", f'<ul class="af-art-items">{items}</ul>', "controls", "af-art-list")


def _item(artifact: Artifact, *, is_chosen: bool) -> str:
    current = ' aria-current="true"' if is_chosen else ""
    return (
        f'<li><button type="button" class="af-art-item"{current} {acting("choose", artifact=artifact.artifact_id)}>'
        f'<span class="af-art-title">{speak(artifact.title)}</span>'
        f'<span class="af-art-id">{escape(artifact.artifact_id)} · v{artifact.version}</span></button></li>'
    )


def title(shown: Shown) -> Node:
    """What is shown, in which version, by whom and when."""
    one = shown.version
    older = "" if one.version == shown.present.version else ' <span class="af-art-old">an earlier version</span>'
    html = (
        f'<div class="af-art-name">{speak(one.title)}</div>'
        f'<div class="af-quiet"><code>{escape(one.artifact_id)}</code> · {escape(origin(one))}{older}</div>'
    )
    return Node("title", html, css="af-art-titles")


def origin(one: Artifact, *, dated: bool = True) -> str:
    """`version 2 · changed by user · 2026-11-22 05:17 UTC`, unescaped."""
    when = f" · {moment(one.created_at)}" if dated else ""
    return f"version {one.version} · {done(one)}{when}"


def done(one: Artifact) -> str:
    """What was done to make a version, and by whom; unescaped."""
    return f"{DONE.get(one.update_type, one.update_type)} by {one.created_by}"


def looks(shown: Shown, *, is_renamed: bool = True) -> Node:
    """The ways to look at it, and what can be done with the whole: rename it, unless that is done elsewhere."""
    views = [button(label, "look", pressed=shown.look == look, look=look) for look, label in LOOKS.items()]
    doing = [button("Edit", "edit_ask", css="af-primary")]
    doing += [button("Rename", "rename_ask")] if is_renamed else []
    if shown.version.version != shown.present.version:
        name = f"Restore version {shown.version.version} as the newest"
        doing = [button("Restore", "restore", css="af-primary", name=name, version=shown.version.version)]
    html = _group("How it is shown", views) + _group("Change it", doing)
    return Node("looks", html, "controls", "af-controls af-art-controls")


def taking() -> Node:
    """The ways to take it along."""
    copying = [
        button("Copy", "copy", name="Copy the text"),
        button("Copy to a cell", "cell", name="Copy to a cell below this one"),
    ]
    downloads = [
        button(form, "download", name=f"Download {form}: {kind.label}", form=form) for form, kind in FORMS.items()
    ]
    html = _group("Copy", copying) + _group("Download", ["<span>Download</span>", *downloads])
    return Node("taking", html, "controls", "af-controls af-art-controls af-art-taking")


def _group(label: str, buttons: Sequence[str]) -> str:
    return f'<span class="af-art-group" role="group" aria-label="{label}">{"".join(buttons)}</span>'


def versions(shown: Shown) -> Node:
    """The versions, the newest first, each to show or to compare with the one that is shown."""
    rows = "".join(_version(one, shown) for one in reversed(shown.history[-shown.n_listed :]))
    hidden = len(shown.history) - shown.n_listed
    label = f"Show {min(hidden, PAGE_SIZE)} of {count(hidden, 'earlier version')}"
    more = f'<p class="af-controls">{button(label, "older")}</p>' if hidden > 0 else ""
    table = Node("version-table", f"<table><tbody>{rows}</tbody></table>{more}", css="af-art-table")
    summary = count(len(shown.history), "version")
    return Node("versions", summary, "fold", "af-art-versions", children=(table,))


def _version(one: Artifact, shown: Shown) -> str:
    is_shown = one.version == shown.version.version
    show = button("Show", "show", pressed=is_shown, name=f"Show version {one.version}", version=one.version)
    name = f"Compare version {one.version} with version {shown.version.version}"
    compare = button("Compare", "compare", name=name, before=one.version, after=shown.version.version)
    return (
        f'<tr><th scope="row">v{one.version}</th><td>{escape(done(one))}</td>'
        f"<td>{moment(one.created_at)}</td><td>{show}{'' if is_shown else compare}</td></tr>"
    )


def comparing(shown: Shown) -> tuple[Node, ...]:
    """What chooses the two versions that are compared, and how their difference is shown."""
    if len(shown.history) < 2:  # noqa: PLR2004 - there is nothing to choose
        return (_layouts(shown),)
    names = tuple(version_name(one) for one in shown.history)
    before = version_name(shown.before) if shown.before else BEFORE_IT
    fields = [
        Field("before", "choice", before, label="From", choices=(BEFORE_IT, *names), keep=True),
        Field("after", "choice", version_name(shown.version), label="To", choices=names, keep=True),
    ]
    data = {
        "act": "compare_form",
        "submit": "Compare",
        "label": "Which versions are compared",
        "fields": [field.as_json() for field in fields],
    }
    return Node("comparing", kind="form", css="af-art-comparing", data=data), _layouts(shown)


def version_name(one: Artifact) -> str:
    """What a version is called where one is chosen."""
    return f"v{one.version}, {done(one)}"


def _layouts(shown: Shown) -> Node:
    buttons = [button(label, "layout", pressed=shown.layout == name, layout=name) for name, label in LAYOUTS.items()]
    return Node("layouts", _group("Layout of the changes", buttons), "controls", "af-controls af-art-controls")


def text_html(one: Artifact, look: str, texts: ArtifactTexts) -> str:
    """The text of a version, rendered or raw."""
    if look == "raw":
        return f'<pre class="af-art-raw" tabindex="0" aria-label="The text as it is stored">{escape(one.content)}</pre>'
    return texts.of(one).html or '<p class="af-quiet">It is empty.</p>'


def edit_form(base: Artifact) -> Node:
    """The whole text, to be changed by hand; made once, so that nothing that is typed is lost."""
    label = f"Text of version {base.version}"
    field = Field(
        "text", "multiline", base.content, label=label, rows=_EDIT_ROWS, autofocus=True, monospace=True, keep=True
    )
    return _form("edit", "Save as a new version", f"Edit {base.artifact_id}", base, field)


def rename_form(base: Artifact) -> Node:
    """The title, to be changed."""
    field = Field("title", "text", base.title, label="Title", autofocus=True, keep=True)
    return _form("rename", "Rename", f"Rename {base.artifact_id}", base, field)


def _form(act: str, submit: str, label: str, base: Artifact, field: Field) -> Node:
    data = {
        "act": act,
        "args": {"artifact": base.artifact_id},
        "submit": submit,
        "cancel": "Cancel",
        "cancelAct": "dismiss",
        "label": label,
        "fields": [field.as_json()],
    }
    return Node(f"{act}-{base.version}", kind="form", css="af-art-form", data=data)


def elsewhere() -> Node:
    """That the branch on which one edits is not the active one any more."""
    said = (
        "Another branch of the conversation is active by now. What you save goes to the branch on which you began; "
        "the other one is shown then."
    )
    return Node("elsewhere", f'<p role="alert">{said}</p>', css="af-art-between")


def between(base: Artifact, newest: Artifact) -> Node:
    """That somebody else wrote a version while this one was being edited, and what can be done about it."""
    said = (
        f"Version {newest.version} by {escape(newest.created_by)} came in between: what you save would undo it. "
        "See what it changed, or let yours go on top of it."
    )
    buttons = button("Show what it changed", "compare", before=base.version, after=newest.version) + button(
        "Let mine go on top", "rebase", version=newest.version
    )
    return Node(
        "between", f'<p role="alert">{said}</p><div class="af-controls">{buttons}</div>', "controls", "af-art-between"
    )
