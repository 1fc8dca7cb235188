"""The display of every public value in a cell: as text, and as HTML if the value has a card."""

import enum
import inspect
import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from IPython.core.formatters import PlainTextFormatter
from support.graphs import react_agent
from support.replies import call

import artifactflow_nb as af
from artifactflow_nb.core.local_files import shown_path
from artifactflow_nb.core.text.cards import MAX_ROWS, Card, CardTable, Code, Details, DisplayList, MarkdownText
from artifactflow_nb.core.text.formulas import CLEANER_TAGS as FORMULA_TAGS
from artifactflow_nb.models.scripted import ScriptedModel
from artifactflow_nb.plugins.projects.project import ProjectTemplate

IMG = '<img src=x onerror="window.__xss=1">'
BREAK = "</td></table></details><script>window.__xss=1</script>"
HOSTILE = f"{IMG}{BREAK} **bold** ![i](https://hostile.invalid/p.png) | `tick` $x$ \x1b[31m \u202e __init__"
SECRETS = ("sk-very-secret-key-0123456789", "tvly-very-secret-9876543210", "hunter2-in-the-address")

TAGS = {"style", "rp", "div", "p", "strong", "em", "s", "table", "thead", "tbody", "tr", "th", "td", "code", "pre"} | {
    "details", "summary", "span", "a", "ul", "ol", "li", "blockquote", "hr", "br", "h1", "h2", "h3", "h4", "h5", "h6",
}  # fmt: skip
TAGS |= FORMULA_TAGS
ATTRIBUTES = {"class", "scope", "open", "lang", "href", "title", "rel", "target", "tabindex"} | {
    "hidden", "aria-hidden", "encoding", "display", "alttext",
}  # fmt: skip
VOID = {"br", "hr"}


class Page(HTMLParser):
    """Collects forbidden elements and attributes and unclosed elements of a page."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.wrong: list[str] = []
        self._open: list[str] = []
        self.feed(page)
        self.wrong += self._open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.wrong += [f"<{tag}>"] * (tag not in TAGS) + [name for name, _ in attrs if name not in ATTRIBUTES]
        if tag not in VOID:
            self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag not in VOID and (not self._open or self._open.pop() != tag):
            self.wrong.append(f"</{tag}>")


def display_forms(value: Any) -> dict[str, str]:
    """The forms of a value; the HTML of a run is its saved view, which has tests of its own."""
    forms = {"repr": repr(value), "plain": PlainTextFormatter()(value)}
    return forms | (
        {"html": value._repr_html_()} if hasattr(value, "_repr_html_") and not isinstance(value, af.Run) else {}
    )


def check(value: Any) -> None:
    """Check that all forms exist and contain no object address, no secret and no active element."""
    shown = display_forms(value)
    for form, text in shown.items():
        assert text.strip(), form
        assert " at 0x" not in text, form
        assert not [secret for secret in SECRETS if secret in text], form
    assert Page(shown.get("html", "")).wrong == []
    assert "\x1b" not in "".join(shown.values())


class Unnamed:
    """A model of a user, without a display of its own."""

    provider = HOSTILE
    tool_protocols = ("xml",)
    default_model = HOSTILE


@af.tool(permission="confirm", category=HOSTILE)
def publish(ctx: af.ToolContext, text: str, times: int = 1, where: list[str] | None = None) -> str:
    """Publish <img src=x onerror="window.__xss=1"> a text."""
    return text * times


class Recorder(af.extend.Middleware):
    """Stores one value of each class that it receives, by the name of the class."""

    def __init__(self) -> None:
        self.received: dict[str, Any] = {}

    async def after_model(self, *arguments: Any) -> None:
        self.received |= {type(value).__name__: value for value in arguments}

    async def after_tool(self, *arguments: Any) -> None:
        self.received |= {type(value).__name__: value for value in arguments}


@pytest.fixture
def values(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, Any]]:
    """All values after a completed and a waiting run, by their expressions."""
    monkeypatch.setenv("AF_MODEL", "my-model")
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "a.md").write_text(f"# {HOSTILE}\n\nShoes are taken off in the hall of the library.\n")
    turns = [
        call("create_artifact", id="research_report", title=HOSTILE, content=f"# {HOSTILE}"),
        HOSTILE,
        call("publish", text=HOSTILE, times="2"),
    ]
    key, tavily_key, password = SECRETS
    wb = af.Workbench(
        model=ScriptedModel(turns),
        base_url=f"http://user:{password}@127.0.0.1:9/v1",
        api_key=key,
        tavily_key=tavily_key,
        search="tavily",
        data_dir=tmp_path / "data",
        budget={"tokens": 1_000_000},
        prices={"my-model": {"input": 1, "output": 2}},
        middleware=[recorder := Recorder(), debug := af.DebugMiddleware()],
    )
    with wb:
        wb.tool(publish)
        added = wb.sources.add(tmp_path / "notes")
        done, waits = wb.ask(HOSTILE).wait(10), wb.ask(HOSTILE).wait(10)
        engine = wb._thread.engine
        messages = [wb._thread.call(engine.conversations.message(run.message_id)) for run in (done, waits)]
        results = [wb._thread.call(engine.controller.result(run.run_id)) for run in (done, waits)]
        project = wb.projects.start(HOSTILE[:80], template={"name": "x", "phases": ["one", "two"]})
        project.add("A", HOSTILE, need_review=True, prompt=HOSTILE)
        project.add("B", HOSTILE, depends_on=["A"], reason=HOSTILE)
        project["A"].write("Other.")
        yield {
            "wb": wb,
            "wb.projects.start(name)": project,
            "wb.projects": wb.projects,
            "project.blocks": project.blocks,
            "project.stale": project.stale,
            "project.deleted": project.deleted,
            "project['B']": project["B"],
            "project.advance_to_phase()": project.advance_to_phase(),
            "ProjectTemplate.load()": ProjectTemplate.load(
                {"name": HOSTILE[:100].replace("\x1b", ""), "phases": ["a"]}
            ),
            "wb.graph_config": wb.graph_config,
            "recorder": recorder,
            "debug": debug,
            "wb.repro()": wb.repro(),
            "af.adapt(graph)": af.adapt(react_agent([]), name=HOSTILE),
            "run.steps": done.steps,
            "wb.settings": wb.settings,
            "wb.settings.budget": wb.settings.budget,
            "wb.settings.prices": wb.settings.prices["my-model"],
            "wb.runs()": wb.runs(),
            "wb.runs(unfinished=True)": wb.runs(unfinished=True),
            "wb.pending()": wb.pending(),
            "wb.pending()[0]": wb.pending()[0],
            "wb.conversations()": wb.conversations(),
            "wb.conversations()[0]": wb.conversations()[0],
            "wb.conversations(search)": wb.conversations("bold"),
            "wb.conversations(search)[0]": wb.conversations("bold")[0],
            "run": done,
            "run that waits": waits,
            "run.events": done.events,
            "run.metrics": done.metrics,
            "run.pending": waits.pending,
            **{f"run.events[{event.seq}]": event for event in [*done.events, *waits.events]},
            "added": added,
            "added.sources[0]": added.sources[0],
            "engine": engine,
            "model": engine.model,
            **{f"tool {entry.name}": entry for entry in engine.tools},
            **{f"agent {agent.config.name}": agent.config for agent in engine.agents.values()},
            **{f"message {i}": message for i, message in enumerate(messages)},
            **{f"result {i}": result for i, result in enumerate(results)},
        }


def test_every_value_has_a_safe_display(values: dict[str, Any]) -> None:
    """Each value has all forms of display, without memory addresses, secrets and active elements."""
    assert len(values) > 40
    for name, value in values.items():
        try:
            check(value)
        except AssertionError as error:
            error.add_note(name)
            raise


def example(name: str, values: dict[str, Any]) -> Any:
    """A value of a public class."""
    key, _, password = SECRETS
    return {
        "Workbench": values["wb"],
        "Run": values["run"],
        "Engine": values["engine"],
        "Settings": values["wb.settings"],
        "AgentConfig": af.AgentConfig(HOSTILE, HOSTILE, (HOSTILE,), model=Unnamed()),
        "ToolContext": af.ToolContext("run-1", "conv-1", "msg-1", HOSTILE, "tool-1", {Path: object()}),
        "ToolCall": af.ToolCall(HOSTILE, {HOSTILE: [HOSTILE]}, HOSTILE),
        "ToolResult": af.ToolResult(False, HOSTILE, HOSTILE, {"told": object}),
        "ApprovalRequest": values["wb.pending()[0]"],
        "Reviewer": af.Reviewer(rules=HOSTILE),
        "Decision": af.Decision(approved=True, instruction=HOSTILE, params={HOSTILE: HOSTILE}),
        "Budget": af.Budget(tokens=5, usd=0.5, seconds=60, when_spent="ask"),
        "Price": af.Price(input=1, output=2.5, cache_read=0.1),
        "BaseAgent": af.extend.BaseAgent(af.AgentConfig(HOSTILE, HOSTILE, (HOSTILE,), prompt=HOSTILE)),
        "ContextManager": af.engine.ContextManager(),
        "ConversationManager": values["engine"].conversations,
        "ArtifactManager": values["engine"].artifacts,
        "ExecutionController": values["engine"].controller,
        "ExecutionMetrics": values["run.metrics"],
        "ExtendableGraph": af.engine.ExtendableGraph(),
        "NoAnswer": af.NoAnswer(HOSTILE, HOSTILE),
        "AgentModel": af.AgentModel([HOSTILE, password], env={"KEY": key}),
        "Rate": af.Rate(requests=5),
        "Library": af.Library("s3://lab/research", by=HOSTILE, secret=password),
        "OfflineModel": af.OfflineModel(),
        "OpenAIModel": af.OpenAIModel(f"https://user:{password}@host/v1", key, HOSTILE),
        "ScriptedModel": af.ScriptedModel(["Hello."]),
        "DebugMiddleware": values["debug"],
        "Middleware": values["recorder"],
        "CallError": af.extend.CallError(HOSTILE, HOSTILE, 5.0, partial=HOSTILE, metadata={HOSTILE: HOSTILE}),
        **values["recorder"].received,
        "StreamEvent": af.engine.StreamEvent(
            af.engine.StreamEventType.ERROR, datetime.now(UTC), 1, "r", data={"message": HOSTILE}
        ),
    }[name]


def test_every_public_class_has_a_safe_display(values: dict[str, Any]) -> None:
    """Instances of public classes have all forms of display; enumerations and errors have a plain repr."""
    classes = [name for name in af.__all__ if inspect.isclass(getattr(af, name))]
    assert "Workbench" in classes
    for name in classes:
        public = getattr(af, name)
        if issubclass(public, enum.Enum):
            assert not [member for member in public if " at 0x" in repr(member)]
        elif issubclass(public, Exception):
            assert " at 0x" not in repr(public({"name": HOSTILE}) if name == "FormError" else public(HOSTILE))
        else:
            check(example(name, values))


def test_model_error_keeps_partial_text() -> None:
    """The text of a model before its failure is an attribute of the error."""
    error = af.errors.ModelUnavailable("The connection broke.", partial="It is forty")
    assert (str(error), error.partial) == ("The connection broke.", "It is forty")


def test_workbench_card_lists_settings_and_runs(values: dict[str, Any]) -> None:
    """The card has model, tools, approvals, budget, data, sources, conversations, requests and the newest runs."""
    wb = values["wb"]
    text = display_forms(wb)["plain"]
    for line in (
        "Workbench: scripted (scripted)",
        "tools called by   xml",
        "approvals         you are asked",
        "budget of a run   1,000,000 tokens",
        "web_search asks   tavily",
        f"data              {shown_path(wb.data_dir)}",
        "sources           1 indexed; runs search ",
        "conversations     3",
        "runs now          1 waiting",
        "waits             1 request for your decision: see wb.pending()",
        "Newest runs:",
    ):
        assert line in text
    newest = text.split("Newest runs:")[1]
    assert newest.index("waiting") < newest.index("completed")
    assert "Newest runs</summary>" in display_forms(wb)["html"]
    assert repr(wb) == f"Workbench(model='scripted (scripted)', data_dir={shown_path(wb.data_dir)!r})"


def test_workbench_card_names_the_approval_policy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A verdict for each tool, a function and a policy object are described."""

    def by_size(_request: af.extend.ApprovalRequest) -> str:
        return "approve"

    for approvals, stand_in, description in [
        ({"web_fetch": "approve", "publish": "ask"}, "ask", "web_fetch: approve, publish: ask"),
        (by_size, "ask", "the function by_size decides"),
        ("ask", "deny", "you are asked; in your place: deny"),
    ]:
        monkeypatch.setenv("AF_APPROVALS", stand_in)
        with af.Workbench(model=ScriptedModel([]), approvals=approvals, data_dir=tmp_path / "data") as wb:
            assert f"approvals         {description}\n" in display_forms(wb)["plain"]


def test_workbench_without_its_store_has_a_card(tmp_path: Path) -> None:
    """The card says that the store cannot be read, without a traceback."""
    with af.Workbench(model=ScriptedModel([]), data_dir=tmp_path / "data") as wb:
        wb._thread.engine.database.path = tmp_path / "nowhere" / "store.db"
        assert "There is no store" in display_forms(wb)["plain"]


def test_endpoint_is_displayed_without_its_secrets(tmp_path: Path) -> None:
    """The card has the host, but neither the key nor the user and password of the address."""
    key, _, password = SECRETS
    with af.Workbench(
        model="m", base_url=f"http://u:{password}@127.0.0.1:9/v1", api_key=key, data_dir=tmp_path / "data"
    ) as wb:
        check(wb)
        assert "127.0.0.1:9/v1" in display_forms(wb)["plain"]
        assert "Workbench: m (openai)" in display_forms(wb)["plain"]


def test_requests_name_the_calls_that_decide(values: dict[str, Any]) -> None:
    """The list and each request name the code that decides and the parameters; an empty list says so."""
    request = values["wb.pending()[0]"]
    code = f'wb.run("{request.run_id}").approve("{request.id}")'
    assert code in repr(values["wb.pending()"])
    assert f"<code>{request.id}</code>" in values["wb.pending()"]._repr_html_()
    shown = display_forms(request)["plain"]
    assert code in shown
    assert "times  " in shown
    assert repr(values["run"].pending) == "Nothing waits for a decision."
    assert values["run"].pending == []


def test_tool_shows_its_signature_and_permission() -> None:
    """The permission of a tool with a rule depends on the call."""
    signature = "publish(text: str, times: int = 1, where: list[str] | None = None)"
    assert publish.signature == signature
    assert repr(publish).startswith(f"Tool({signature}, permission='confirm'")
    assert "depends on the call" in repr(af.tool(permission=rule)(publish.handler))


async def rule(_ctx: af.ToolContext, _args: Any) -> af.extend.ToolPermission:
    return af.extend.ToolPermission.AUTO


def test_value_within_a_list_is_one_line(values: dict[str, Any]) -> None:
    """Values within a list or dict have their short form instead of a card."""
    shown = PlainTextFormatter()([values["run"]])
    assert "status='completed'" in shown
    assert "Answer" not in shown


class Numbers(DisplayList[int]):
    def _columns(self) -> list[str]:
        return ["n", "square"]

    def _cells(self, value: int, /) -> list[int]:
        return [value, value * value]


def test_long_list_displays_its_first_rows_and_the_number_of_others() -> None:
    """The list behaves like other sequences, equals a list, and its slices are display lists."""
    listed = Numbers(range(50))
    assert len(listed) == 50
    assert listed[-1] == 49
    assert isinstance(listed[:3], Numbers)
    assert listed[:3] == [0, 1, 2]
    assert listed[:3] != [0, 1]
    assert (listed == 7) is False
    for form in (repr(listed), listed._repr_html_()):
        assert "… and 30 more" in form
    assert listed._repr_html_().count("<tr>") == MAX_ROWS + 1
    assert repr(Numbers([])) == "Nothing."
    assert "Nothing." in Numbers([])._repr_html_()


def test_text_table_is_aligned_by_display_width() -> None:
    """A Chinese character takes two columns."""
    lines = CardTable(("name", "n"), [("茶", 1), ("milk", 1200)]).plain().splitlines()
    assert lines == ["name  n", "茶    1", "milk  1,200"]


def test_long_texts_are_marked_as_cut() -> None:
    """A cell of a card contains one line, a detail some pages."""
    card = Card("Big", "x" * 10_000, [("a", "y" * 10_000)], [Details("all", Code("z" * 100_000))])
    assert len(card.html()) < 25_000
    assert "… and 80,000 more characters" in card.html()
    assert len(card.plain()) < 400


def test_prose_in_a_card_is_rendered_and_harmless() -> None:
    """Markdown of a model becomes HTML without images and scripts."""
    page = Card("Answer", folds=[Details("It", MarkdownText(f"# Title\n\n{HOSTILE}"), is_open=True)]).html()
    assert "<details open><summary>It</summary><div><h1>Title</h1>" in page
    assert Page(page).wrong == []


def test_empty_rows_are_omitted() -> None:
    """Rows with None or an empty text are omitted; zero and False stay."""
    assert Card("K", rows=[("a", None), ("b", ""), ("c", 0), ("d", False)]).plain().split() == [
        "K",
        "c",
        "0",
        "d",
        "no",
    ]


def test_workbench_card_does_not_wait_for_the_engine(values: dict[str, Any]) -> None:
    """The card is read in the caller's thread, also while the engine's loop is busy."""
    wb, started = values["wb"], threading.Event()

    async def busy() -> None:
        started.set()
        time.sleep(1.0)  # noqa: ASYNC251 - the loop is to be busy

    working = wb._thread.submit(busy())
    assert started.wait(5)
    assert "Newest runs" in display_forms(wb)["plain"]
    assert wb.pending()
    assert not working.done()
    working.result(5)


def test_wide_table_scrolls_within_its_card(values: dict[str, Any]) -> None:
    """A table of several columns is in a scrolling box that the keyboard can focus."""
    for name in ("wb", "wb.runs()", "wb.pending()"):
        assert '<div class="af-card-table" tabindex="0"><table>' in display_forms(values[name])["html"], name
