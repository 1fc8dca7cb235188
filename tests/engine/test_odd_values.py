"""Deeply nested values, large numbers, damaged stores, no file descriptors: each gives an error of this package."""

import os
import random
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from conftest import OpenWorkbench

import artifactflow_nb as af
from artifactflow_nb.core.messages import ToolCall
from artifactflow_nb.engine.settings import Settings
from artifactflow_nb.errors import ArtifactFlowError, StoreError, UsageError
from artifactflow_nb.models.scripted import ScriptedModel
from artifactflow_nb.plugins.projects.named_texts import Dimension, read_named_texts
from artifactflow_nb.plugins.projects.project import ProjectTemplate
from artifactflow_nb.store.encoding import MAX_DEPTH, is_too_deep, storable_json, to_json
from artifactflow_nb.widgets.run.saved import saved_run

DEPTH = 100_000
DEEP_JSON = "[" * DEPTH + "]" * DEPTH
BIG = 10**23 + 7


def nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


# --- deep JSON ------------------------------------------------------------------------------------------------------


def test_deep_json_in_settings_is_a_usage_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Deep JSON is refused in MCP servers, prices and budgets, as arguments, in the environment and in files."""
    path = tmp_path / "mcp.json"
    path.write_text(f'{{"key": "sk-secret-123456", "a": {DEEP_JSON}}}')
    for mcp in (path, path.read_text()):
        with pytest.raises(UsageError, match="it is nested too deeply") as error:
            Settings.load(mcp=str(mcp))
        assert "secret" not in str(error.value)
    with pytest.raises(UsageError, match="prices"):
        Settings.load(prices=f'{{"a": {DEEP_JSON}}}')
    with pytest.raises(UsageError, match=r"budget\.tokens .* is \[\["):
        Settings.load(budget={"tokens": nested(DEPTH)})
    with pytest.raises(UsageError, match=r"executor\.max_steps is \[\["):
        af.Workbench(data_dir=tmp_path / "data", graph_config={"executor": {"max_steps": nested(DEPTH)}})
    for variable in ("AF_MCP", "AF_PRICES", "AF_BUDGET"):
        monkeypatch.setenv(variable, f'{{"a": {DEEP_JSON[DEPTH - 3000 : DEPTH + 3000]}}}')
        with pytest.raises(UsageError):
            Settings.load()
        monkeypatch.delenv(variable)
    (tmp_path / "artifactflow.toml").write_text(f"mcp = {DEEP_JSON}")
    with pytest.raises(UsageError, match=r"artifactflow\.toml cannot be read: it is nested too deeply"):
        Settings.load()


def test_deep_json_in_a_cassette_is_a_cassette_error(tmp_path: Path, workbench: OpenWorkbench) -> None:
    path = tmp_path / "c.jsonl"
    with workbench(["Hi."], record=path) as wb:
        wb.ask("Hi?").wait()
    lines = path.read_text().splitlines(keepends=True)
    at = next(number for number, line in enumerate(lines) if line.startswith('{"runs"'))
    lines[at] = lines[at].replace('"settings_json":{', f'"settings_json":{{"x": {DEEP_JSON}, ')
    path.write_text("".join(lines))
    for read in (af.cassette_df, af.accept_cassette, lambda cassette: workbench(replay=cassette)):
        with pytest.raises(af.errors.CassetteError, match="c.jsonl"):
            read(path)


def test_model_gets_an_error_for_deeply_nested_arguments(workbench: OpenWorkbench) -> None:
    """The run can be sealed and opened again."""
    arguments = []

    @af.tool()
    async def take(_ctx: af.ToolContext, value: object = None) -> af.ToolResult:
        """Take a value."""
        arguments.append(value)
        return af.ToolResult(success=True, data="taken", metadata={"deep": nested(DEPTH), "big": BIG})

    calls = [ToolCall("take", {"value": nested(depth)}) for depth in (300, 50)]
    wb = workbench([calls, "Done."], tool_protocol="native")
    wb.tool(take)
    run = wb.ask("Take!").wait()
    errors = list(wb.tool_calls_df().error_message)
    assert (run.response, len(arguments)) == ("Done.", 1)
    assert errors[0] == f"Its arguments are nested deeper than {MAX_DEPTH} levels; it was not run."
    with af.open_run(run.seal("run.afrun")) as opened:
        assert opened.response == "Done."


def test_edited_parameters_are_checked(workbench: OpenWorkbench) -> None:
    """Deeply nested parameters are refused and decide nothing; a large number is passed on."""
    arguments = []

    @af.tool(permission="confirm")
    async def take(_ctx: af.ToolContext, value: object = None) -> str:
        """Take a value."""
        arguments.append(value)
        return "taken"

    wb = workbench([[ToolCall("take", {"value": 1})], "Done."], tool_protocol="native", interactive=False)
    wb.tool(take)
    run = wb.ask("Take!").wait()
    with pytest.raises(UsageError, match="nothing was decided"):
        run.approve(params={"value": nested(DEPTH)})
    assert run.approve(params={"value": BIG}).wait().response == "Done."
    assert arguments == [str(BIG)]


def test_stored_json_is_never_too_deep() -> None:
    """Parts that are too deep, also of a value that contains itself, are replaced by a note."""
    own: list[Any] = []
    own.append(own)
    for value in (nested(DEPTH), nested(300), own, {"a": nested(MAX_DEPTH + 1)}):
        assert is_too_deep(value)
        assert not is_too_deep(storable_json(value))
        assert "left out" in to_json(storable_json(value))
    for value in (1, "x", nested(MAX_DEPTH - 1), {"a": [1, None]}):
        assert not is_too_deep(value)
        assert storable_json(value) == value


# --- large numbers --------------------------------------------------------------------------------------------------


def test_numbers_beyond_64_bits_are_usage_errors(tmp_path: Path, workbench: OpenWorkbench) -> None:
    """Budgets and limits of the graph configuration refuse such numbers; a time-out may have any length."""
    wb = workbench(["Hi."])
    with pytest.raises(UsageError, match="tokens"):
        wb.ask("Hi?", budget={"tokens": BIG})
    assert wb.ask("Hi?").wait(timeout_s=BIG).response == "Hi."
    for name in ("max_steps", "max_tool_rounds"):
        with pytest.raises(UsageError, match=rf"executor\.{name} is {BIG}; it must be a whole number from 1 to 9,223"):
            workbench(graph_config={"executor": {name: BIG}})
    (tmp_path / "artifactflow.toml").write_text(f"[budget]\ntokens = {BIG}\n")
    with pytest.raises(UsageError, match="budget"):
        Settings.load()


# --- damaged stores -------------------------------------------------------------------------------------------------


def damage(path: Path, kind: str, seed: int) -> None:
    """Cut a store, or overwrite its header, pages, bytes, JSON or log."""
    chance, data = random.Random(seed), bytearray(path.read_bytes())  # noqa: S311 - a seed repeats the same numbers
    pages = len(data) // 4096
    if kind == "cut":
        data = data[: int(len(data) * chance.random())]
    elif kind == "header":
        data[:100] = chance.randbytes(100)
    elif kind == "pages":
        for start in [4096 * chance.randrange(1, pages) for _ in range(6)]:
            data[start : start + 4096] = chance.randbytes(4096)
    elif kind == "bytes":
        for _ in range(3000):
            data[chance.randrange(100, len(data))] = chance.randrange(256)
    elif kind == "json":
        data = bytearray(data.replace(b'{"', b"[["))
    elif kind == "log":
        path.with_name(f"{path.name}-wal").write_bytes(chance.randbytes(50_000))
    path.write_bytes(data)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    folder = tmp_path_factory.mktemp("whole") / "data"
    with af.Workbench(model=ScriptedModel(["Hi."] * 3), data_dir=folder, interactive=False) as wb:
        runs = [wb.ask("Hi? " * 2000).wait() for _ in range(3)]
    return folder, runs[0].run_id


def use_all(wb: af.Workbench, run_id: str, file: Path) -> None:
    """Read, ask, seal and close; any error but a `StoreError` fails the test."""
    for use in (
        lambda: [getattr(wb, name)() for name in ("runs_df", "llm_calls_df", "tool_calls_df", "artifacts_df")],
        wb._repr_html_,
        lambda: (wb.run(run_id).response, wb.run(run_id).events, saved_run(wb.run(run_id)._client)),
        lambda: saved_run(wb.ask("Anew?").wait(20)._client),
        lambda: wb.run(run_id).seal(file, replace=True),
        wb.close,
    ):
        with suppress(StoreError):
            use()


@pytest.mark.parametrize("moment", ["before", "open"])
@pytest.mark.parametrize("kind", ["cut", "header", "pages", "bytes", "json", "log"])
def test_damaged_store_raises_only_store_errors(
    tmp_path: Path, whole: tuple[Path, str], kind: str, moment: str
) -> None:
    """Opening, reading frames and a run, asking and sealing succeed or raise a `StoreError` with advice."""
    folder, run_id = whole
    for seed in range(4):
        data = tmp_path / f"{kind}{seed}"
        shutil.copytree(folder, data)
        if moment == "before":
            damage(data / "store.db", kind, seed)
        with suppress(StoreError):
            wb = af.Workbench(model=ScriptedModel(lambda _request: "Hi."), data_dir=data, interactive=False)
            if moment == "open":
                damage(data / "store.db", kind, seed)
            use_all(wb, run_id, tmp_path / "run.afrun")


# --- no file descriptors --------------------------------------------------------------------------------------------


@contextmanager
def descriptors(free: int) -> Iterator[None]:
    """Limit this process to a number of file descriptors."""
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (512, hard))
    opened_files: list[int] = []
    try:
        while True:
            try:
                opened_files.append(os.open(os.devnull, os.O_RDONLY))
            except OSError:
                break
        for _ in range(min(free, len(opened_files))):
            os.close(opened_files.pop())
        yield
    finally:
        for handle in opened_files:
            os.close(handle)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.skipif(sys.platform == "win32", reason="Limits of descriptors are those of POSIX.")
def test_lack_of_file_descriptors_is_an_error(tmp_path: Path) -> None:
    """Opening, asking, adding sources, sealing and opening a sealed run raise the error, and work afterwards."""
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "a.md").write_text("# Cats\n\nCats purr.")

    def open_one(name: str = "data") -> af.Workbench:
        return af.Workbench(model=ScriptedModel(lambda _request: "Hi."), data_dir=tmp_path / name, interactive=False)

    with open_one("warm") as wb:  # what is imported at the first use is there then
        wb.sources.add(tmp_path / "notes")
        sealed = wb.ask("Hi?").wait().seal(tmp_path / "warm.afrun")
    af.open_run(sealed).close()
    messages = set()
    with open_one() as wb:
        run = wb.ask("Hi?").wait()
        uses = (
            lambda: open_one("other").close(),
            lambda: af.Workbench(replay=tmp_path / "none.jsonl"),
            lambda: wb.ask("Again?").wait(20),
            lambda: wb.sources.add(tmp_path / "notes"),
            lambda: run.seal(tmp_path / "run.afrun", replace=True),
            lambda: af.open_run(sealed).close(),
            wb.runs_df,
        )
        for free in (0, 1, 2, 3, 5, 7, 9):
            for use in uses:
                try:
                    with descriptors(free):
                        use()
                except ArtifactFlowError as error:
                    messages.add(str(error))
        assert wb.ask("And now?").wait(20).response == "Hi."
        assert wb.sources.add(tmp_path / "notes").sources
    assert any("too many files are open" in message and "ulimit" in message for message in messages)
    assert not any("folder is there" in message for message in messages)


# --- hostile arguments -----------------------------------------------------------------------------------------------


class Unprintable:
    def __repr__(self) -> str:
        raise RuntimeError("no repr")

    def __eq__(self, _other: object) -> bool:
        raise RuntimeError("not comparable")

    __hash__ = object.__hash__


ITSELF: list[Any] = []
ITSELF.append(ITSELF)
HOSTILE = {
    "unprintable": Unprintable(),
    "itself": ITSELF,
    "deep": nested(20_000),
    "nan": float("nan"),
    "infinite": float("inf"),
    "huge": 10**6000,
    "long": "x" * 10_000_000,
    "surrogate": "\ud800x",
    "null": "a\0b",
    "nobody": "~nobody-here/x",
    "bytes": b"\xff",
    "key": {Unprintable(): 1},
    "item": {"tokens": Unprintable()},
    "many": {str(number): number for number in range(10_000)},
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_argument_gives_a_short_error_of_this_package(workbench: OpenWorkbench, name: str) -> None:
    """Whatever a value does, and however long the value is, the error is ours and no longer than a page."""
    value, wb = HOSTILE[name], workbench()
    calls = {
        "Budget": lambda: af.Budget(tokens=value),
        "Budget(value)": lambda: af.Budget(value),
        "from_limits": lambda: af.Budget.from_limits(value),
        "Price": lambda: af.Price(input=value, output=1),
        "OpenAIModel": lambda: af.OpenAIModel(value, None, "m"),
        "DebugMiddleware": lambda: af.DebugMiddleware(value),
        "tool": lambda: af.tool(value),
        "ask": lambda: wb.ask("q", budget=value),
        "model": lambda: wb.ask("q", model=value),
        "depth": lambda: wb.ask("q", depth=value),
        "clarify": lambda: wb.ask("q", clarify=value),
        "flow": lambda: wb.ask("q", flow=value),
        "conversation": lambda: wb.ask("q", conversation_id=value),
        "run": lambda: wb.run(value),
        "add_sources": lambda: wb.sources.add(value),
        "columns": lambda: wb.runs_df(columns=value),
        "since": lambda: wb.runs_df(since=value),
        "filter": lambda: wb.runs_df(conversation=value),
        "timeout": lambda: wb.query("SELECT 1", timeout_s=value),
        "open_run": lambda: af.open_run(value),
        "cassette_df": lambda: af.cassette_df(value),
        **{
            f"setting {setting}": lambda setting=setting: af.Workbench(**{setting: value})
            for setting in ("approvals", "flows", "middleware", "model", "agent_models", "prices", "mcp")
        },
    }
    for label, call in calls.items():
        message = ""
        try:
            call()
        except ArtifactFlowError as error:
            message = str(error)
        assert len(message) < 5_000, label


def test_every_path_refuses_an_unknown_user(workbench: OpenWorkbench) -> None:
    """A path that begins with `~` and an unknown user name is an error of this package, wherever a path is passed."""
    path, wb = "~nobody-here/x.yaml", workbench()
    calls = [
        wb.sources.add,
        wb.store.backup,
        wb.store.import_run,
        af.open_run,
        af.cassette_df,
        af.accept_cassette,
        af.trust_folder,
        ProjectTemplate.load,
        lambda path: read_named_texts(path, Dimension),
        *(
            (lambda _path, name=name: Settings.load(**{name: path}))
            for name in ("data_dir", "record", "replay", "graph_config", "mcp")
        ),
        lambda _path: af.Workbench(prompts=path),
        lambda _path: af.Workbench(graph_config=path),
    ]
    for call in calls:
        with pytest.raises(ArtifactFlowError, match="nobody-here"):
            call(path)
