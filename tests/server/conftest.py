"""Servers over real engines with scripted models."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from typing import Any

import pytest
from support.http_server import Client, serving
from support.replies import in_request_protocol

from artifactflow_nb.models.scripted import ScriptedModel
from artifactflow_nb.server.access import Access
from artifactflow_nb.server.lifecycle import open_lifecycle

Serve = Callable[..., Client]


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Serve]:
    """Serve a data folder; `turns` are the replies of a scripted model."""
    with ExitStack() as stack:

        def serve_one(turns: Any = (), *, access: Access | None = None, **options: Any) -> Client:
            model = options.pop("model", None) or ScriptedModel(in_request_protocol(turns))
            folder = options.pop("data_dir", tmp_path / "data")
            lifecycle = open_lifecycle(model=model, data_dir=folder, **options)
            server: AbstractContextManager[Client] = serving(lifecycle, access)
            return stack.enter_context(server)

        yield serve_one
