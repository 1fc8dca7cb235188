"""Addresses of endpoints, proxies of the environment, lists of models, and prompts that an endpoint has cut."""

from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import ClassVar

import pytest
from support.model_turns import KEY

from artifactflow_nb.core.messages import Message, Usage
from artifactflow_nb.errors import ModelError, ModelRejected, ModelUnavailable
from artifactflow_nb.models.base import ModelRequest
from artifactflow_nb.models.openai.client import OpenAIModel
from artifactflow_nb.models.openai.errors import environment_proxy, split_query
from artifactflow_nb.models.openai.usage import cut_prompt_notice

PROXY = "http://user:secret-word@proxy.example:3128"
REPLY = b'{"choices": [{"message": {"content": "Hello."}, "finish_reason": "stop"}]}'


class _Handler(BaseHTTPRequestHandler):
    """Answers every request with the server's body, and notes its path and key."""

    requests: ClassVar[list[tuple[str, str | None]]] = []
    answer: ClassVar[tuple[str, bytes]] = ("application/json", REPLY)

    def do_GET(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.requests.append((self.path, self.headers.get("api-key")))
        self.send_response(200)
        self.send_header("Content-Type", self.answer[0])
        self.send_header("Content-Length", str(len(self.answer[1])))
        self.end_headers()
        self.wfile.write(self.answer[1])

    def do_POST(self) -> None:
        self.do_GET()

    def log_message(self, *_args: object) -> None:
        """Print nothing."""


@pytest.fixture
def server() -> Iterator[str]:
    """The address of a server of `_Handler`."""
    _Handler.requests.clear()
    _Handler.answer = ("application/json", REPLY)
    listening = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    Thread(target=listening.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{listening.server_port}"
    listening.shutdown()
    listening.server_close()


async def ask(url: str) -> str:
    model = OpenAIModel(url, KEY, "m")
    events = [event async for event in model.stream(ModelRequest((Message("user", "q"),)))]
    await model.aclose()
    return events[-1].content


@pytest.mark.parametrize(
    ("address", "path", "key"),
    [
        ("/openai/deployments/a?api-version=1", "/openai/deployments/a/chat/completions?api-version=1", KEY),
        (
            "/openai/deployments/a/chat/completions?api-version=1",
            "/openai/deployments/a/chat/completions?api-version=1",
            KEY,
        ),
        ("/team/litellm/v1/", "/team/litellm/v1/chat/completions", None),
        ("/v1/chat/completions", "/v1/chat/completions", None),
    ],
)
async def test_path_and_query_of_an_address_are_kept(server, address, path, key):
    """An address may have Azure's version, a path below a proxy, or the copied path of a request."""
    assert await ask(server + address) == "Hello."
    assert _Handler.requests == [(path, key)]


def test_copy_has_no_key_of_the_query():
    """A version is no secret; any other field of a query may be a secret."""
    assert split_query("https://a.example/v1?key=s&x=") == ("https://a.example/v1", {"key": "s", "x": ""})
    assert OpenAIModel("https://a.example/v1?key=s", None, "m").__getstate__()["_query"] == {}
    assert OpenAIModel("https://a.example/v1?api-version=1", None, "m").__getstate__()["_query"] == {"api-version": "1"}


async def test_endpoint_on_this_machine_is_reached_without_the_proxy(server, monkeypatch):
    """The proxy of a company knows no Ollama on this machine."""
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.delenv("NO_PROXY", raising=False)
    monkeypatch.delenv("no_proxy", raising=False)
    assert await ask(f"{server}/v1") == "Hello."


async def test_error_behind_a_proxy_names_the_proxy_without_its_password(monkeypatch):
    """The error names the variable, the proxy, and how to avoid the proxy."""
    for name in ("http_proxy", "no_proxy", "NO_PROXY", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HTTP_PROXY", "http://user:secret-word@127.0.0.1:9")
    with pytest.raises(
        ModelUnavailable, match=r"proxy http://127.0.0.1:9, which HTTP_PROXY sets.*a.example in NO_PROXY"
    ) as caught:
        await ask("http://a.example/v1")
    assert "secret-word" not in str(caught.value)


def test_proxy_of_an_address_follows_the_environment(monkeypatch):
    """The scheme decides; hosts in NO_PROXY and this machine have no proxy."""
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HTTPS_PROXY", PROXY)
    monkeypatch.setenv("NO_PROXY", "b.example")
    assert environment_proxy("https://a.example/v1") == ("HTTPS_PROXY", PROXY)
    assert environment_proxy("https://b.example/v1") is None
    assert environment_proxy("http://a.example/v1") is None
    assert environment_proxy("https://localhost/v1") is None


@pytest.mark.parametrize("excluded", ["[::1]", "::1/128", "fd07:b51a:cc66:f0::/64,10.0.0.0/8", "::/0,.local"])
async def test_networks_in_no_proxy_stop_no_request(monkeypatch, excluded):
    """Docker and OrbStack write networks into NO_PROXY; the request goes through the proxy, which is dead here."""
    for name in ("http_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HTTP_PROXY", "127.0.0.1:9")
    monkeypatch.setenv("NO_PROXY", excluded)
    with pytest.raises(ModelUnavailable, match=r"through the proxy http://127.0.0.1:9, which HTTP_PROXY sets"):
        await ask("http://a.example/v1")


@pytest.mark.parametrize(
    "proxy", ["socks4://u:secret@127.0.0.1:9", "socks://u:secret@127.0.0.1:9", "http://u:secret@[::1"]
)
async def test_unusable_proxy_is_reported(monkeypatch, proxy):
    """The error names the proxy: its scheme is unknown, or its address is broken."""
    for name in ("http_proxy", "https_proxy", "HTTP_PROXY", "no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("ALL_PROXY", proxy)
    with pytest.raises(ModelRejected, match=r"The proxy .*, which ALL_PROXY sets, cannot be used: ") as caught:
        await ask("http://a.example/v1")
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    "body",
    [
        b'{"object": "list", "data": [{"id": "b"}, {"id": "a"}]}',
        b'[{"id": "b"}, {"id": "a"}]',
        b'{"models": [{"name": "b"}, {"name": "a"}]}',
        b'["b", "a"]',
    ],
)
async def test_models_are_listed_in_any_form(server, body):
    """OpenAI, Together and Ollama have different forms of lists."""
    _Handler.answer = ("application/json", body)
    assert await OpenAIModel(f"{server}/v1", KEY, "m").list_models() == ["a", "b"]


@pytest.mark.parametrize("media_type", ["application/json", "text/html"])
@pytest.mark.parametrize(
    "body", [b"", b"null", b"{}", b"[1]", b'{"data": [{}]}', b"<html></html>", b"{", b'{"data": 5}', b"[" * 9000]
)
async def test_invalid_list_of_models_is_an_error_of_the_endpoint(server, media_type, body):
    """Whatever the endpoint answers, the error quotes the answer."""
    _Handler.answer = (media_type, body)
    with pytest.raises(ModelError, match=r"/v1/models sent something that is not"):
        await OpenAIModel(f"{server}/v1", KEY, "m").list_models()


@pytest.mark.parametrize(
    ("usage", "sent", "is_cut"),
    [
        (Usage(2050, 5), 15_000, True),
        (Usage(9000, 5), 15_000, False),
        (Usage(100, 5), 1000, False),
        (Usage(100, 5, cache_read_tokens=14_000), 15_000, False),
        (Usage(2050, 5, estimated=True), 15_000, False),
    ],
)
def test_cut_of_a_prompt_by_the_endpoint_is_reported(usage, sent, is_cut):
    """The usage has far fewer tokens than were sent; cached tokens may be counted apart."""
    assert ("num_ctx" in cut_prompt_notice(usage, Usage(sent, 0))) is is_cut
