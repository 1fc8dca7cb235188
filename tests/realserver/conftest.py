"""One real language-model server for all tests of this folder."""

from collections.abc import AsyncIterator, Iterator

import pytest
from realserver.server import MODEL, RealServer, real_server, skip_reason

from artifactflow_nb.models.openai.client import OpenAIModel


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealServer]:
    """The server; where it must be there (`AF_REALSERVER=required`) its absence is a failure, elsewhere a skip."""
    if reason := skip_reason():
        pytest.fail(reason)
    with real_server(tmp_path_factory.mktemp("server") / "server.log") as running:
        yield running


@pytest.fixture
async def model(server: RealServer) -> AsyncIterator[OpenAIModel]:
    """The server as the package's own model."""
    endpoint = OpenAIModel(server.base_url, None, MODEL)
    yield endpoint
    await endpoint.aclose()
