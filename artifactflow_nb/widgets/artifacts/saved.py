"""Saved output of the artifact panel: a collapsible section per artifact with its versions; the chosen one is open."""

from collections.abc import Mapping, Sequence

from artifactflow_nb.core.language import Texts
from artifactflow_nb.core.text.markdown import escape, escape_with_language
from artifactflow_nb.store.artifact_versions import Artifact
from artifactflow_nb.widgets.artifacts.nodes import ArtifactSelection, ArtifactTexts, text_html, version_label, versions
from artifactflow_nb.widgets.page.nodes import Node


def saved_artifacts(
    title: str,
    histories: Mapping[str, Sequence[Artifact]],
    chosen: ArtifactSelection | None,
    changes: str,
    rendered: ArtifactTexts,
    texts: Texts,
    *,
    with_dates: bool,
) -> tuple[Node, ...]:
    """Build the nodes of the saved output; without dates the output of equal runs is equal.

    `histories` are the versions of each artifact, the current one last, and `changes` the displayed difference as HTML.
    """
    lines, folds = [], []
    for artifact_id, history in histories.items():
        is_chosen = chosen is not None and chosen.version.artifact_id == artifact_id
        version = chosen.version if chosen is not None and is_chosen else history[-1]
        lines.append(f"  {artifact_id} v{version.version}: {version.title}")
        text = artifact_text(f"of-{artifact_id}", version, rendered, texts, with_dates=with_dates)
        difference = [Node(f"of-{artifact_id}-changes", changes)] if changes and is_chosen else []
        table = versions(history, None, texts, key=f"of-{artifact_id}-versions", with_dates=with_dates)
        html = (
            f'<span class="af-title">{escape_with_language(version.title)}</span> '
            f'<span class="af-out"><code>{escape(artifact_id)}</code> v{version.version}</span>'
        )
        children = (*text, *difference, table)
        folds.append(Node(f"of-{artifact_id}", html, "fold", "af-artifact", is_chosen, children=children))
    first = texts("artifacts_of", title=title) if title else texts("page_artifacts")
    plain = "\n".join([first, *(lines or [f"  {texts('no_artifacts')}"])])
    head = f"<strong>{texts('page_artifacts')}</strong> {escape_with_language(title)}"
    nothing = [] if folds else [Node("nothing", f"<p>{texts('no_artifacts')}</p>", css="af-quiet")]
    return (Node("head", head, css="af-art-head", text=plain), *folds, *nothing)


def artifact_text(
    key: str, version: Artifact, rendered: ArtifactTexts, texts: Texts, *, with_dates: bool
) -> tuple[Node, Node]:
    """The origin of a version and its rendered text."""
    return (
        Node(f"{key}-origin", version_label(version, texts, with_dates=with_dates), css="af-quiet"),
        Node(f"{key}-text", text_html(version, "rendered", rendered, texts), css="af-md af-page"),
    )
