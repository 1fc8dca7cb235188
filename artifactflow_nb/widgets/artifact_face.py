"""What the artifact panel leaves in a saved notebook: the artifacts as folds, the chosen one open, with versions."""

from collections.abc import Mapping, Sequence

from artifactflow_nb.store.artifact_versions import Artifact
from artifactflow_nb.text.cards import markdown_text
from artifactflow_nb.text.figures import count, moment
from artifactflow_nb.text.markdown import escape, speak
from artifactflow_nb.widgets.artifact_nodes import Shown, done, origin, text_html
from artifactflow_nb.widgets.artifact_texts import ArtifactTexts
from artifactflow_nb.widgets.frozen import framed
from artifactflow_nb.widgets.pieces import scrolling
from artifactflow_nb.widgets.tree import Node, static_html
from artifactflow_nb.widgets.view import Face

NOTHING = "No artifacts yet."
CSS = "af-artifacts"


class ArtifactFace:
    """Makes the face.

    Args:
        title: Whose artifacts they are.
        histories: The versions of each artifact, by id; the present one last.
        shown: What the reader looked at; None if there is nothing.
        changes: The difference that the reader looked at, as HTML; empty if none.
        texts: The texts, rendered.
        dated: Say when versions were written; without, the face is the same each time.
    """

    def __init__(
        self,
        title: str,
        histories: Mapping[str, Sequence[Artifact]],
        shown: Shown | None,
        changes: str,
        texts: ArtifactTexts,
        *,
        dated: bool,
    ) -> None:
        self._title = title
        self._histories = histories
        self._shown = shown
        self._changes = changes
        self._texts = texts
        self._dated = dated

    def face(self) -> Face:
        """All three forms."""
        return {"text/plain": self._plain(), "text/markdown": self._markdown(), "text/html": self._html()}

    def _seen(self) -> list[Artifact]:
        """Of each artifact the version that is shown."""
        chosen = self._shown.version if self._shown else None
        present = [history[-1] for history in self._histories.values()]
        return [chosen if chosen and chosen.artifact_id == one.artifact_id else one for one in present]

    def _is_chosen(self, one: Artifact) -> bool:
        return self._shown is not None and self._shown.version.artifact_id == one.artifact_id

    def _plain(self) -> str:
        lines = [f"  {one.artifact_id} v{one.version}: {one.title}" for one in self._seen()]
        return "\n".join([f"Artifacts: {self._title}" if self._title else "Artifacts", *(lines or [f"  {NOTHING}"])])

    def _markdown(self) -> str:
        head = f"**Artifacts** {markdown_text(self._title)}".rstrip()
        return "\n\n".join([head, *(map(self._markdown_of, self._seen()) if self._histories else [NOTHING])])

    def _markdown_of(self, one: Artifact) -> str:
        state = " open" if self._is_chosen(one) else ""
        said = escape(origin(one, dated=self._dated))
        name = f"{escape(one.title)} (<code>{escape(one.artifact_id)}</code>, {said})"  # Markdown is not read here
        history = reversed(self._histories[one.artifact_id])
        listed = "\n".join(f"- {markdown_text(origin(version, dated=self._dated))}" for version in history)
        return f"<details{state}><summary>{name}</summary>\n\n{self._texts.of(one).markdown}\n\n{listed}\n\n</details>"

    def _html(self) -> str:
        head = Node("head", f"<strong>Artifacts</strong> {speak(self._title)}", css="af-art-head")
        nothing = Node("nothing", f"<p>{NOTHING}</p>", css="af-quiet")
        nodes = (head, *(map(self._fold, self._seen()) if self._histories else [nothing]))
        return framed(static_html(nodes), "diff.css", "artifact_panel.css", css=CSS)

    def _fold(self, one: Artifact) -> Node:
        key = f"of-{one.artifact_id}"
        summary = (
            f'<span class="af-title">{speak(one.title)}</span> '
            f'<span class="af-out"><code>{escape(one.artifact_id)}</code> v{one.version}</span>'
        )
        inside = [
            Node(f"{key}-origin", escape(origin(one, dated=self._dated)), css="af-quiet"),
            Node(f"{key}-text", text_html(one, "rendered", self._texts), css="af-md af-page"),
        ]
        if self._changes and self._is_chosen(one):
            inside.append(Node(f"{key}-changes", self._changes))
        inside.append(self._versions(key, self._histories[one.artifact_id]))
        return Node(key, summary, "fold", "af-artifact", self._is_chosen(one), children=tuple(inside))

    def _versions(self, key: str, history: Sequence[Artifact]) -> Node:
        rows = "".join(
            f'<tr><th scope="row">v{one.version}</th><td>{escape(done(one))}</td>'
            + (f"<td>{moment(one.created_at)}</td>" if self._dated else "")
            + "</tr>"
            for one in reversed(history)
        )
        table = Node(f"{key}-rows", scrolling(f"<table><tbody>{rows}</tbody></table>", "af-art-table", "Versions"))
        return Node(f"{key}-versions", count(len(history), "version"), "fold", "af-art-versions", children=(table,))
