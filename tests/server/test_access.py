"""Access to a stand-alone server: its users, and the host names by which it is reached."""

import socket
from http import HTTPStatus

import httpx
import pytest
from server.conftest import Serve
from support.http_server import Client

from artifactflow_nb.server.access import Access

TOKENS = {"ana": "token-of-ana", "ben": "token-of-ben"}


def test_server_for_this_machine_only_needs_no_token() -> None:
    assert Access.of_users([], "127.0.0.1", [], None).tokens == {}
    assert Access.of_users([], "::1", [], None).tokens == {}


@pytest.mark.parametrize("host", ["0.0.0.0", "192.168.1.5", "::", "lab.example"])  # noqa: S104 - the addresses in question
def test_server_for_others_needs_a_token(host: str) -> None:
    [token] = Access.of_users([], host, [], None).tokens.values()
    assert len(token) >= 32
    names = Access.of_users(["ana", "ben"], host, [], None).tokens
    assert set(names) == {"ana", "ben"}
    assert names["ana"] != names["ben"]
    assert Access.of_users(["ana"], host, [], "chosen").tokens == {"ana": "chosen"}


def test_token_is_not_in_a_repr() -> None:
    assert "token-of" not in repr(Access(TOKENS))


def test_request_needs_the_token_of_a_user(serve: Serve) -> None:
    server = serve(["One."], access=Access(TOKENS))
    for headers in (
        {},
        {"Authorization": "Bearer wrong"},
        {"Authorization": "Bearer"},
        {"Authorization": "token-of-ana"},
    ):
        with Client(server.base_url, headers) as stranger:
            for answer in (
                stranger.get("/chat"),
                stranger.post("/chat", content="Why?"),
                stranger.get("/stream/thd-x"),
                stranger.get("/openapi.json"),
                stranger.get("/views/chat"),
                stranger.http.delete("/chat/conv-x"),
                httpx.get(f"{server.base_url}/artifactflow/"),
            ):
                assert answer.status_code == HTTPStatus.UNAUTHORIZED
    assert server.get("/health").json()["status"] == "ok"
    with Client(server.base_url, {"Authorization": "Bearer token-of-ben"}) as client:
        assert client.get("/chat").json() == {"conversations": []}


def test_page_takes_the_token_from_the_address_once(serve: Serve) -> None:
    """The token becomes a cookie that no script and no other site can use, and leaves the address."""
    server = serve(access=Access(TOKENS))
    with httpx.Client(base_url=server.base_url) as browser:
        answer = browser.get("/artifactflow/?token=token-of-ana")
        assert answer.status_code == HTTPStatus.SEE_OTHER
        assert "token" not in answer.headers["location"]
        cookie = answer.headers["set-cookie"].lower()
        assert "httponly" in cookie
        assert "samesite=strict" in cookie
        assert browser.get("/artifactflow/").status_code == HTTPStatus.OK
        assert browser.get("/artifactflow/?token=wrong").status_code == HTTPStatus.UNAUTHORIZED
        assert browser.post("/artifactflow/api/v1/chat", json={"content": " "}).status_code == HTTPStatus.BAD_REQUEST


def test_names_and_addresses_of_the_server_are_accepted() -> None:
    access = Access(host_names=frozenset({"lab.example"}))
    for host in ("127.0.0.1:8765", "localhost:8765", "[::1]:8765", "192.168.1.5", "lab.example", "LAB.example:80"):
        assert access.problem(host, None) is None, host
        assert access.problem(host, f"http://{host}") is None, host
    assert access.problem(socket.gethostname(), None) is None


def test_names_of_other_sites_are_refused() -> None:
    """A page of another site may let its own name lead to this machine."""
    access = Access()
    for host in ("rebound.example:8765", "localhost.example", "", "127.0.0.1.example", "lab.example"):
        assert access.problem(host, None) is not None, host
    for origin in ("https://other.example", "null", "http://127.0.0.1:9999", "http://localhost:8765", "127.0.0.1:8765"):
        assert access.problem("127.0.0.1:8765", origin) is not None, origin
