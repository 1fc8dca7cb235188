"""The composer of a chat: the form of the next question, commands, references, attached files and example questions."""

import base64
import binascii
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import unquote, urlsplit

from artifactflow_nb.core.language import EnglishText, translate, translate_list
from artifactflow_nb.core.runs import DEPTHS
from artifactflow_nb.core.text.chinese import CJK_RUN
from artifactflow_nb.core.text.format import clip, translate_count
from artifactflow_nb.core.text.markdown import escape_with_language
from artifactflow_nb.engine.engine import Engine
from artifactflow_nb.errors import NotFound, UsageError
from artifactflow_nb.sources.formats.sections import title_from_path
from artifactflow_nb.sources.rows import SCHEME, main_sections, sources_in_scope
from artifactflow_nb.widgets.forms.form import Field
from artifactflow_nb.widgets.page.elements import button
from artifactflow_nb.widgets.page.nodes import Node

COMMANDS: Mapping[str, EnglishText] = {
    "new": "Begin a new conversation",
    "retry": "Ask the last question again",
    "stop": "Stop the running answer",
    "conversations": "List the conversations",
    "export": "Download this branch",
}
"""The commands that a question may consist of, after a slash; each is an action of the view."""
_DEPTHS: Mapping[str, EnglishText] = {"quick": "quick", "standard": "standard", "deep": "deep"}

MAX_FILE_BYTES = 20_000_000
ATTACHED_FOLDER = "attached"
_MAX_COMPLETIONS = 8
_N_EXAMPLES = 3
_N_SAMPLED = 60
_MAX_WORDS = 7
_NUMBERING = re.compile(r"(?:第?[\d.]+[.)、章节]?|[一二三四五六七八九十]+、)\s+|[一二三四五六七八九十]+、")
_NO_SUBJECT = re.compile(
    r"(?i:(?:page|slide|sheet|part|section|chapter|figure|table|appendix)\b.{0,8}|(?:abstract|introduction|overview|"
    r"background|summary|conclusions?|discussion|results?|methods?|references|bibliography|acknowledge?ments?|contents|"
    r"table of contents|notes?|appendices|sources|further reading)\b[^A-Za-z]*)"
    r"|(?i:how|why|when|what|where|who)\b.*|.*[:.!;。！；：`=(){}<>].*|[\W\d_]*|第.{1,4}[页章节]"
    r"|摘要|引言|前言|概述|简介|背景|总结|小结|结论|讨论|结果|方法|参考文献|致谢|目录|附录"
)
"""Headings that name no subject: places in a document, parts that every document has, sentences and code."""
_LABEL_COLUMNS = 60


@dataclass(frozen=True, slots=True)
class Completion:
    """A proposal for the word before the cursor.

    Attributes:
        insert: The text that replaces the word.
        label: The visible text.
        detail: The kind or description of the proposal.
    """

    insert: str
    label: str
    detail: str


@dataclass(frozen=True, slots=True)
class QueuedQuestion:
    """A question that is sent once the running answer has ended.

    Attributes:
        text: The question.
        model: The name of the model; None for the model of the chat.
        depth: Thoroughness of the run.
        error: The reason why the question could not be sent; empty while the question waits.
    """

    text: str
    model: str | None
    depth: str
    error: str = ""


@dataclass(frozen=True)
class Composer:
    """The choices of the form and the example questions; loaded once, so that the form is never rebuilt.

    Attributes:
        model: The name of the model if a person cannot choose a model.
        models: The models to choose from, the configured model first; may be empty.
        depths: The depths to choose from; empty for a flow without depths.
        examples: Questions about the person's own sources.
        can_attach: Whether files can be attached.
    """

    model: str = ""
    models: Sequence[str] = ()
    depths: Sequence[str] = ()
    examples: Sequence[str] = ()
    can_attach: bool = False

    @classmethod
    async def load(cls, engine: Engine, flow: str, model: str | None, *, is_served: bool) -> "Composer":
        """Load the choices; `model` is None for the configured model.

        On the page of a server (`is_served`) nobody can choose a model or attach files.
        """
        spec = engine.flows.specs.get(flow)
        first = model or engine.lead.model_name
        models = [first]
        if not is_served and spec is not None:
            known_models = await engine.database.read(engine.known_models)
            models = list(dict.fromkeys([first, *known_models, *await engine.offered_models()]))
        depths = DEPTHS if spec is not None and spec.depths else ()
        examples = await cls.load_examples(engine)
        return cls(first, models if len(models) > 1 else (), depths, examples, not is_served)

    @staticmethod
    async def load_examples(engine: Engine) -> list[str]:
        """Load questions about the sources that runs search, each question in the language of the source."""
        await engine.load_sources()
        scope = engine.source_scope
        sections = await engine.database.read(lambda db: main_sections(db, scope, _N_SAMPLED)) if scope else []
        questions = (
            example_question(source.title, section)
            for source, section in sections
            if source.title != title_from_path(PurePosixPath(unquote(urlsplit(source.uri).path)))
        )
        return list(dict.fromkeys(filter(None, questions)))[:_N_EXAMPLES]

    @cached_property
    def node(self) -> Node:
        """The form of the next question."""
        label, hint = translate("Question"), translate("Ask. @ refers to a source, / lists commands.")
        fields = [Field("text", "multiline", label=label, placeholder=hint, rows=1, hide_label=True)]
        depths = tuple(translate(_DEPTHS[depth]) for depth in self.depths)
        for name, choices, names in (("model", self.models, ()), ("depth", self.depths, depths)):
            if choices:
                value = "standard" if name == "depth" else choices[0]
                label = translate("Model" if name == "model" else "Depth")
                fields.append(Field(name, "choice", value, label, tuple(choices), names, hide_label=True, keep=True))
        data = {
            "act": "send",
            "args": {},
            "submit": translate("Ask"),
            "label": translate("The next question"),
            "draft": True,
            "enter": True,
            "completes": True,
            "fields": [field.as_json() for field in fields],
            **({"attach": MAX_FILE_BYTES} if self.can_attach else {}),
        }
        return Node("composer", kind="form", css="af-composer", data=data)

    @property
    def fixed_model(self) -> str:
        """The name of the model if a person cannot choose a model, or an empty string."""
        return "" if self.models else self.model

    def choices(self, values: Mapping[str, Any]) -> tuple[str | None, str]:
        """Return the chosen model (None: the first model) and the chosen depth."""
        model, depth = values.get("model"), values.get("depth")
        return (model if model in self.models[1:] else None), str(depth) if depth in self.depths else "standard"

    def empty_state(self) -> Iterator[Node]:
        """Yield the example questions as buttons; a click writes the question into the form."""
        if self.examples:
            buttons = [button(question, "example", css="af-example", text=question) for question in self.examples]
            html = f'<p class="af-quiet">{translate("Questions about your sources:")}</p>{"".join(buttons)}'
            yield Node("examples", html, "controls", "af-examples")
        elif self.can_attach:
            hint = translate("Attach your files with the paper clip, or drop them here, and ask about them.")
            yield Node("examples", f"<p>{hint}</p>", "controls", "af-empty af-quiet")


def example_question(title: str, heading: str) -> str:
    """Write a question about a heading; empty without a heading, or if the title has another language."""
    subject = _NUMBERING.sub("", heading).strip()
    if subject.endswith(("?", "？")):
        return subject
    is_chinese = [bool(CJK_RUN.search(text)) for text in (title, subject)]
    if _NO_SUBJECT.fullmatch(subject) or len(subject.split()) > _MAX_WORDS or is_chinese[0] != is_chinese[1]:
        return ""
    return f"《{title}》关于“{subject}”说了什么？" if is_chinese[0] else f"What does “{title}” say about {subject}?"


def queue_nodes(queue: Sequence[QueuedQuestion]) -> Iterator[Node]:
    """Yield the waiting questions, each with a button that removes the question."""
    for index, queued in enumerate(queue):
        note = queued.error or translate("Asked when the answer above has ended")
        html = f'<p>{escape_with_language(queued.text)}</p><p class="af-quiet">{escape_with_language(note)}</p>'
        name = translate("Remove: {name}", name=clip(queued.text, _LABEL_COLUMNS))
        remove = button(translate("Remove"), "unqueue", css="af-small", name=name, index=index)
        text = translate("Queued: {question}", question=queued.text)
        children = (
            Node(f"queued-{index}-text", html, css="af-chat-question", text=text),
            Node(f"queued-{index}-remove", remove, "controls", "af-controls af-on-question"),
        )
        yield Node(f"queued-{index}", kind="box", css="af-mine af-queued", children=children)


async def completions(engine: Engine, mark: str, words: str, conversation_id: str | None) -> list[Mapping[str, str]]:
    """Return the completions of a mark and the words after the mark, as JSON values.

    `/` is the mark of commands, `@` the mark of references to sources and to the artifacts of the conversation.
    """
    if mark == "/":
        completions = [Completion(f"/{name}", f"/{name}", translate(text)) for name, text in COMMANDS.items()]
    else:
        completions = [completion async for completion in _references(engine, conversation_id)]
    folded = words.casefold()
    matches = [entry for entry in completions if folded in f"{entry.label} {entry.insert}".casefold()]
    matches.sort(key=lambda entry: not entry.label.lstrip("/").casefold().startswith(folded))
    return [asdict(entry) for entry in matches[:_MAX_COMPLETIONS]]


async def _references(engine: Engine, conversation_id: str | None) -> Any:
    """Yield the possible references of a question, in the form that agents' tools accept."""
    if conversation_id is not None:
        message_id = (await engine.conversations.get(conversation_id)).active_message_id
        artifacts = await engine.artifacts.list_artifacts(conversation_id, message_id=message_id)
        for plugin in engine.plugins.values():
            if plugin.references is not None:
                for insert, label, kind in await plugin.references(engine, conversation_id, message_id):
                    yield Completion(insert, label, kind)
        for artifact in artifacts:
            if artifact.metadata_json is None:
                yield Completion(artifact.artifact_id, clip(artifact.title, _LABEL_COLUMNS), translate("artifact"))
    for source in await engine.database.read(lambda db: sources_in_scope(db, engine.source_scope)):
        yield Completion(f"{SCHEME}{source.source_id}", clip(source.title, _LABEL_COLUMNS), source.source_id)


async def attach_files(engine: Engine, files: Any) -> str:
    """Write files from the page, each with `name` and `base64`, into the data folder, and add the files to the sources.

    Returns: A message about the result.

    Errors: `UsageError` for a file that is too large, or of a kind that cannot be read.
    """
    folder = engine.folder / ATTACHED_FOLDER
    added = []
    for file in files if isinstance(files, list) else []:
        name = Path(str(file.get("name"))).name
        try:
            content = base64.b64decode(str(file.get("base64")), validate=True)
        except binascii.Error as error:
            raise UsageError(f"{name} did not arrive completely ({error}). Attach it again.") from None
        if len(content) > MAX_FILE_BYTES or not name:
            raise UsageError(f"{name} has {len(content):,} bytes; files up to {MAX_FILE_BYTES:,} can be attached.")
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / name
        path.write_bytes(content)
        try:
            await engine.attach_source(path)
        except UsageError:
            path.unlink()
            raise
        added.append(name)
    if not added:
        raise NotFound("No file was attached.")
    return translate(
        "Added {names}; the next question searches {files}.",
        names=translate_list(added),
        files=translate_count(len(added), "new file"),
    )
