"""Access to a stand-alone server: its users, and the host names by which it is reached."""

import logging
import socket
from http import HTTPStatus

import httpx
import pytest
from server.conftest import Serve
from support.http_server import Client

from artifactflow_nb.server.access import Access
from artifactflow_nb.server.api import _page_answers

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
                stranger.get("/views"),
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


@pytest.mark.parametrize("allowed", ["Lab.Example", "lab.example", "LAB.EXAMPLE"])
@pytest.mark.parametrize("sent", ["lab.example", "LAB.example:8765", "lab.example.:8765"])
def test_case_of_a_host_name_means_nothing(allowed: str, sent: str) -> None:
    access = Access.of_users([], "192.0.2.1", [allowed], None)
    assert access.problem(sent, f"http://{sent}") is None
    assert access.problem(f"x{sent}", None) is not None


def test_names_of_other_sites_are_refused() -> None:
    """A page of another site may let its own name lead to this machine."""
    access = Access()
    for host in ("rebound.example:8765", "localhost.example", "", "127.0.0.1.example", "lab.example"):
        assert access.problem(host, None) is not None, host
    for origin in ("https://other.example", "null", "http://127.0.0.1:9999", "http://localhost:8765", "127.0.0.1:8765"):
        assert access.problem("127.0.0.1:8765", origin) is not None, origin


@pytest.mark.parametrize("path", ["/artifactflow/api/v1/health", "/artifactflow/api/v1/chat"])
def test_wrong_token_in_an_address_becomes_no_cookie(serve: Serve, path: str) -> None:
    for server in (serve(access=Access(TOKENS)), serve()):
        assert "set-cookie" not in httpx.get(server.base_url + path, params={"token": "junk"}).headers


@pytest.mark.parametrize(
    "headers",
    [{"Host": "[::1"}, {"Host": "[v1.a"}, {"Host": "a]:80"}, {"Origin": "http://["}, {"Origin": "http://[::1"}],
    ids=str,
)
def test_header_that_is_no_address_is_refused(serve: Serve, headers: dict[str, str]) -> None:
    answer = serve().get("/chat", headers=headers)
    assert (answer.status_code, answer.json()["error"]) == (HTTPStatus.FORBIDDEN, "Forbidden")


def exchange(server: Client, request: bytes) -> bytes:
    """Send bytes to a server, and return all that it answers until it closes the connection."""
    url = httpx.URL(server.base_url)
    with socket.create_connection((url.host, url.port), 30) as connection:
        connection.sendall(request)
        return b"".join(iter(lambda: connection.recv(65536), b""))


def test_body_with_two_lengths_is_refused_and_the_connection_closed(serve: Serve) -> None:
    """A proxy may see one request where the server sees two."""
    server = serve()
    hidden = b"GET /artifactflow/api/v1/health HTTP/1.1\r\nHost: localhost\r\n\r\n"
    request = (
        b"POST /artifactflow/api/v1/chat HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + hidden
    )
    answer = exchange(server, request)
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert answer.count(b"HTTP/1.1 ") == 1


def test_body_that_never_ends_is_given_up(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("artifactflow_nb.server.app._BODY_TIMEOUT_S", 0.2)
    request = (
        b"POST /artifactflow/api/v1/chat HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        b'Content-Length: 100\r\n\r\n{"content": '
    )
    answer = exchange(serve(), request)
    assert answer.startswith(b"HTTP/1.1 408 ")
    assert b"RequestTimeout" in answer


def test_client_that_leaves_during_its_body_is_no_error_of_the_server(
    serve: Serve, caplog: pytest.LogCaptureFixture
) -> None:
    """A broken chunk ends the request, too."""
    server = serve()
    logging.getLogger("uvicorn.error").addHandler(caplog.handler)
    request = (
        b"POST /artifactflow/api/v1/chat HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        b"Transfer-Encoding: chunked\r\n\r\nzz\r\n"
    )
    assert exchange(server, request).startswith(b"HTTP/1.1 400 ")
    assert exchange(server, b"GET /artifactflow/api/v1/health HTTP/1.0\r\nHost: localhost\r\n\r\n").endswith(b"}")
    logging.getLogger("uvicorn.error").removeHandler(caplog.handler)
    assert "ClientDisconnect" not in caplog.text


def test_unknown_addresses_are_not_kept(serve: Serve) -> None:
    """Strangers choose the names, so a cache of answers by name would grow without a limit."""
    server = serve()
    size = len(_page_answers)
    for number in range(20):
        assert httpx.get(f"{server.base_url}/artifactflow/x{number}.js").status_code == HTTPStatus.NOT_FOUND
    assert len(_page_answers) == size
