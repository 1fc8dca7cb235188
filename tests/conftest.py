"""Engines and workbenches with real stores in temporary folders, for all tests."""

import gc
import shutil
from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings as hypothesis_settings
from support.forked_python import fast_python, write_kernelspec
from support.replies import in_request_protocol

import artifactflow_nb as af
from artifactflow_nb.core.language import NAMES
from artifactflow_nb.engine.cited_sources import REFERENCE_EXPORTS
from artifactflow_nb.engine.engine import Engine
from artifactflow_nb.engine.folder_file import TRUST_VARIABLE
from artifactflow_nb.engine.settings import ENVIRONMENT_VARIABLES, Settings
from artifactflow_nb.models.scripted import ScriptedModel
from artifactflow_nb.sources.rows import RELATED_ADDRESSES
from artifactflow_nb.store.frames import PLUGIN_FRAMES
from artifactflow_nb.store.schema import KEYS, PLUGIN_TABLES, ROW_CHECKS
from artifactflow_nb.store.storage import KEPT_CONVERSATIONS

OpenEngine = Callable[..., Awaitable[Engine]]
OpenWorkbench = Callable[..., af.Workbench]

# The time of one example means nothing on a loaded machine.
hypothesis_settings.register_profile("unhurried", deadline=None)
hypothesis_settings.load_profile("unhurried")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Exempt the modules and items of the session from garbage collection, which visits them again and again."""
    gc.disable()
    result = yield
    gc.freeze()
    gc.enable()
    return result


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Browser tests come last: their driver holds the main thread's event loop until the session ends."""
    items.sort(key=lambda item: item.get_closest_marker("browser") is not None)


@pytest.fixture(scope="session")
def nowhere(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The shared working directory of tests without a folder; creating one for each test would slow down the suite."""
    return tmp_path_factory.mktemp("nowhere")


@pytest.fixture(autouse=True)
def plain_environment(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest, nowhere: Path) -> Iterator[None]:
    """Tests see no setting of the machine and write only into their own folders."""
    for variable in ENVIRONMENT_VARIABLES.values():
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv(TRUST_VARIABLE, "1")  # tests copy stores, and write no permission of the person
    is_writing = "tmp_path" in request.fixturenames or request.node.get_closest_marker("browser")
    monkeypatch.chdir(request.getfixturevalue("tmp_path") if is_writing else nowhere)
    yield
    if left := list(nowhere.iterdir()):
        shutil.rmtree(nowhere)
        nowhere.mkdir()
        pytest.fail(f"The test wrote {left} and did not ask for tmp_path.")


@pytest.fixture(scope="module")
def fast_kernels(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Kernels of notebooks are forked from a process that has already imported the libraries."""
    folder = tmp_path_factory.mktemp("jupyter")
    write_kernelspec(folder, fast_python())
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JUPYTER_PATH", str(folder))
        yield


@pytest.fixture
async def open_engine(tmp_path: Path) -> AsyncIterator[OpenEngine]:
    """Open engines on the test's own folder; `turns` are the replies of a scripted model."""
    opened: list[Engine] = []

    async def open_one(turns: Any = (), *, folder: Path | None = None, **options: Any) -> Engine:
        model = options.pop("model", None) or ScriptedModel(in_request_protocol(turns))
        settings = Settings.load(data_dir=folder or tmp_path / "data", **options.pop("settings", {}))
        engine = Engine(settings, model=model, **options)
        engine_open = await engine.open()
        opened.append(engine_open)
        return engine_open

    yield open_one
    for engine in opened:
        await engine.aclose()


@pytest.fixture
def workbench(tmp_path: Path) -> Iterator[OpenWorkbench]:
    """Open workbenches on the test's own folder; `turns` are the replies of a scripted model."""
    opened: list[af.Workbench] = []

    def open_one(turns: Any = (), **options: Any) -> af.Workbench:
        model = options.pop("model", None) or ScriptedModel(turns)
        wb = af.Workbench(model=model, data_dir=options.pop("data_dir", tmp_path / "data"), **options)
        opened.append(wb)
        return wb

    yield open_one
    for wb in opened:
        wb.close()


@pytest.fixture
def own_plugins() -> Iterator[Callable[[], None]]:
    """Remove what plugins of the test have declared in this process, after the test or when the function is called."""
    registries: tuple[dict[Any, Any], ...] = (
        *(PLUGIN_TABLES, PLUGIN_FRAMES, KEYS, ROW_CHECKS, KEPT_CONVERSATIONS, REFERENCE_EXPORTS, RELATED_ADDRESSES),
        NAMES,
    )
    before = [dict(registry) for registry in registries[:-1]] + [deepcopy(NAMES)]

    def restore() -> None:
        for registry, content in zip(registries, before, strict=True):
            registry.clear()
            registry.update(content)

    yield restore
    restore()


@pytest.fixture
def figures() -> Iterator[None]:
    """Draw plots without a display, and close them after the test."""
    from matplotlib import pyplot as plt

    plt.switch_backend("agg")
    yield
    plt.close("all")
