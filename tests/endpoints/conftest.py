"""One server of each dialect for a test."""

from collections.abc import Iterator

import pytest
from endpoints.dialect import DialectServer, load, names


@pytest.fixture(params=names())
def endpoint(request: pytest.FixtureRequest) -> Iterator[DialectServer]:
    """The endpoint of each dialect in turn."""
    with DialectServer(load(request.param)) as server:
        yield server
