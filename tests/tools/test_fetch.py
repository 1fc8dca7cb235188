"""Fetching from real servers on the loopback interface: allowed hosts, redirects, limits and errors."""

import asyncio
import gzip
import shutil
import ssl
import subprocess
import time
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import pytest
from support.proxy_server import ProxyServer
from support.web_server import Reply, WebRequest, WebServer, redirect

from artifactflow_nb.errors import ToolError, UsageError
from artifactflow_nb.tools.web.fetch import FetchedPage, Fetcher, FetchLimits
from artifactflow_nb.tools.web.guard import RequestGuard
from artifactflow_nb.tools.web.http import HttpClient, HttpLimits, HttpRequest, make_decoder

HTML = "text/html; charset=utf-8"
PAGE = b"<html><head><title>Ferry</title></head><body><h1>Ferry</h1><p>A ticket costs 4 crowns.</p></body></html>"


class Answers:
    """A resolver with these answers in order; the last answer is repeated."""

    def __init__(self, *answers: Sequence[str]) -> None:
        self.answers = answers
        self.queries: list[str] = []

    async def resolve(self, host: str, port: int) -> Sequence[str]:
        self.queries.append(host)
        return self.answers[min(len(self.queries), len(self.answers)) - 1]


async def fetch(server: WebServer, path: str, **limits: float) -> FetchedPage:
    """Fetch a page of the server, which is allowed, with other limits for one request."""
    http = HttpLimits(**limits)  # type: ignore[arg-type]  # integers for integer fields
    return await Fetcher([server.host], limits=FetchLimits(http=http)).fetch(server.url(path))


# --- the guard at work ---------------------------------------------------------------------------------------------


async def test_allowed_host_is_fetched():
    """The page has its title, text and address."""
    with WebServer({"/ferry": Reply(PAGE, content_type=HTML)}) as server:
        page = await Fetcher([server.host]).fetch(server.url("/ferry?lang=en#fares"))
    assert page.error is None
    assert (page.title, page.media_type, page.truncated) == ("Ferry", "text/html", False)
    assert "A ticket costs 4 crowns." in page.text
    assert (page.document.address, page.document.text) == (server.url("/ferry?lang=en#fares"), page.text)
    (request,) = server.requests
    assert (request.path, request.headers["host"]) == ("/ferry?lang=en", server.host)


async def test_host_that_is_not_allowed_is_not_connected_to():
    """A loopback server that is not allowed gets no connection."""
    with WebServer({"/": Reply(b"secret")}) as server:
        page = await Fetcher().fetch(server.url())
        by_name = await Fetcher(resolver=Answers(["127.0.0.1"])).fetch("http://www.iana.org/")
    assert page.error is not None
    assert "127.0.0.1 is this machine (loopback)" in page.error
    assert "allowed_hosts" in page.error
    assert by_name.error is not None
    assert "www.iana.org leads to 127.0.0.1" in by_name.error
    assert server.connections == 0


async def test_connection_uses_the_checked_address():
    """A later change of the name's address has no effect."""
    resolver = Answers(["127.0.0.1"], ["127.0.0.2"])
    with WebServer({"/": Reply(b"here")}) as server:
        fetcher = Fetcher([f"pages.iana.org:{server.port}"], resolver=resolver)
        page = await fetcher.fetch(server.url(host="pages.iana.org"))
    assert (page.text, resolver.queries) == ("here", ["pages.iana.org"])
    assert server.requests[0].headers["host"] == f"pages.iana.org:{server.port}"


async def test_next_address_is_tried_if_one_does_not_answer():
    """The checked addresses of a host are tried in order."""
    with WebServer({"/": Reply(b"here")}) as server:
        resolver = Answers(["127.0.0.9", "127.0.0.1"])
        page = await Fetcher([f"pages.iana.org:{server.port}"], resolver=resolver).fetch(
            server.url(host="pages.iana.org")
        )
    assert page.text == "here"


@pytest.mark.parametrize(
    "location",
    [
        "http://10.0.0.1/",
        "http://169.254.169.254/latest/meta-data/",
        "http://[::1]/",
        "//localhost/",
        "http://rebind.iana.org/",
        "http://127.0.0.1:1/",
        "file:///etc/passwd",
        "http://user:pw@www.iana.org/",
    ],
)
async def test_each_redirect_is_checked_by_the_guard(location: str):
    """A redirect to a refused address sends no request there."""
    with WebServer({"/": redirect(location)}) as server:
        fetcher = Fetcher([server.host], resolver=Answers(["192.168.0.1"]))
        page = await fetcher.fetch(server.url())
    assert page.error is not None
    assert page.text == ""
    assert len(server.requests) == 1


async def test_redirects_are_followed_and_the_final_url_is_returned():
    """All kinds of redirects lead to the page; the requested address is returned as well."""
    routes = {
        "/a": redirect("b?x=1", 301),
        "/b": redirect("/c d", 303),
        "/c%20d": redirect("//127.0.0.1:{port}/e", 307),
        "/e": redirect("?page=2", 308),
    }
    with WebServer({}) as server:
        for path, reply in routes.items():
            (name, value) = reply.headers[0]
            server.routes[path] = redirect(value.replace("{port}", str(server.port)), reply.status)
            assert name == "Location"
        last = server.routes["/e"]
        server.routes["/e"] = lambda request: Reply(b"done") if request.path.endswith("page=2") else last  # type: ignore[return-value]  # the last route is a reply
        page = await Fetcher([server.host]).fetch(server.url("/a"))
    assert (page.text, page.address, page.url) == ("done", server.url("/a"), server.url("/e?page=2"))


async def test_redirect_loop_is_an_error():
    """More than five redirects are an error."""
    with WebServer({"/": redirect("/")}) as server:
        page = await Fetcher([server.host]).fetch(server.url())
    assert page.error == f"{server.url()} has more than 5 redirects. Try another source."
    assert len(server.requests) == 6


async def test_proxy_settings_of_the_environment_are_not_read(monkeypatch: pytest.MonkeyPatch):
    """A proxy in the environment gets no request."""
    with WebServer({"/": Reply(b"direct")}) as server, WebServer({"/": Reply(b"proxy")}) as proxy:
        for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "HTTPS_PROXY"):
            monkeypatch.setenv(name, proxy.url())
        monkeypatch.setenv("NO_PROXY", "")
        page = await Fetcher([server.host]).fetch(server.url())
    assert (page.text, proxy.connections) == ("direct", 0)


# --- certificates --------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A self-signed certificate for pages.iana.org and its key."""
    if shutil.which("openssl") is None:
        pytest.skip("openssl is needed to make a certificate")
    folder = tmp_path_factory.mktemp("tls")
    chain, key = folder / "certificate.pem", folder / "key.pem"
    request = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=pages.iana.org"
    names = ["-addext", "subjectAltName=DNS:pages.iana.org"]
    command = ["openssl", *request.split(), *names, "-keyout", str(key), "-out", str(chain)]
    subprocess.run(command, check=True, capture_output=True)
    return chain, key


async def test_certificate_is_checked_against_the_name(certificate: tuple[Path, Path]):
    """Although the connection uses an address, the certificate must be trusted and match the name."""
    chain, key = certificate
    serving = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    serving.load_cert_chain(chain, key)
    trusting = ssl.create_default_context(cafile=chain)
    with WebServer({"/": Reply(b"secure")}, tls=serving) as server:
        allowed = [f"{name}.iana.org:{server.port}" for name in ("pages", "other")]
        resolver = Answers(["127.0.0.1"])
        fetcher = Fetcher(allowed, resolver=resolver, ssl_context=trusting)
        page, other = await fetcher.fetch_all([server.url(host="pages.iana.org"), server.url(host="other.iana.org")])
        stranger = await Fetcher(allowed, resolver=resolver).fetch(server.url(host="pages.iana.org"))
    assert (page.text, page.error) == ("secure", None)
    assert server.requests[0].headers["host"] == f"pages.iana.org:{server.port}"
    assert other.error is not None
    assert "certificate that is not trusted" in other.error
    assert stranger.error is not None
    assert "certificate that is not trusted" in stranger.error
    assert len(server.requests) == 1


async def test_redirect_from_https_to_http_is_not_followed(certificate: tuple[Path, Path]):
    """An https request is never repeated without encryption."""
    chain, key = certificate
    serving = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    serving.load_cert_chain(chain, key)
    with WebServer({"/": Reply(b"open")}) as plain, WebServer({"/": redirect(plain.url())}, tls=serving) as server:
        allowed = [f"pages.iana.org:{server.port}", plain.host]
        fetcher = Fetcher(
            allowed, resolver=Answers(["127.0.0.1"]), ssl_context=ssl.create_default_context(cafile=chain)
        )
        page = await fetcher.fetch(server.url(host="pages.iana.org"))
    assert page.error is not None
    assert "from https to http" in page.error
    assert plain.connections == 0


# --- limits --------------------------------------------------------------------------------------------------------


async def test_slow_server_times_out():
    """The limit for a whole response applies also while bytes arrive."""
    with WebServer({"/": Reply(b"x" * 1000, piece_bytes=1, pause_s=0.05)}) as server:
        async with asyncio.timeout(20):  # all of it would take 50 s
            page = await fetch(server, "/", total_timeout_s=0.4)
    assert page.error == f"{page.address} sent no complete answer within 0.4 s. Try another source."


async def test_silent_server_times_out():
    """A connection without a response ends at the time limit."""
    with WebServer({"/": Reply(delay_s=30)}) as server:
        page = await fetch(server, "/", total_timeout_s=0.3)
    assert page.error is not None
    assert "0.3 s" in page.error


async def test_slow_name_resolution_times_out():
    """A resolver that does not answer ends at the time limit."""

    class Silent:
        async def resolve(self, host: str, port: int) -> Sequence[str]:
            await asyncio.sleep(30)
            return []

    limits = FetchLimits(http=HttpLimits(total_timeout_s=0.2))
    page = await Fetcher(limits=limits, resolver=Silent()).fetch("http://www.iana.org/")
    assert page.error is not None
    assert "0.2 s" in page.error


async def test_endless_body_is_cut_at_the_limit_and_marked():
    """The connection is closed at the limit, and the text is marked as cut."""
    with WebServer({"/": Reply(b"word " * 2000, endless=True)}) as server:
        page = await fetch(server, "/", max_wire_bytes=50_000)
        await asyncio.sleep(0.05)
        sent = server.sent_bytes
        await asyncio.sleep(0.2)
        assert server.sent_bytes == sent
    assert page.truncated
    assert page.text.endswith("[Cut here: only the first 50,000 bytes were read.]")


@pytest.mark.parametrize("coding", ["gzip", "x-gzip"])
async def test_compressed_body_is_decoded(coding: str):
    """A body in the coding that requests accept is read, for any split into packets."""
    text = "A ticket costs 4 crowns. " * 400
    body = gzip.compress(text.encode())
    reply = Reply(body, headers=(("Content-Encoding", coding),), piece_bytes=1 if len(body) < 200 else 7)
    with WebServer({"/": reply}) as server:
        page = await fetch(server, "/")
    assert (page.text, page.truncated) == (text, False)
    assert server.requests[0].headers["accept-encoding"] == "gzip"


async def test_decompression_bomb_stops_at_the_size_limit():
    """A small body that would unpack to 60 MB is unpacked up to the limit only, without blocking the loop."""
    bomb = gzip.compress(b"a" * 60_000_000)
    beats = []

    async def beat() -> None:
        while True:
            beats.append(time.process_time())
            await asyncio.sleep(0.001)

    heart = asyncio.create_task(beat())
    with WebServer({"/": Reply(bomb, headers=(("Content-Encoding", "gzip"),))}) as server:
        client = HttpClient(RequestGuard([server.host]), HttpLimits(max_decoded_bytes=8_000_000))
        answer = await client.send(HttpRequest(server.url()))
    await asyncio.sleep(0.002)
    heart.cancel()
    assert (len(answer.body), answer.truncated) == (8_000_000, True)
    assert max(later - earlier for earlier, later in pairwise(beats)) < 0.5


def test_decoder_returns_at_most_the_requested_bytes():
    """A decoding step never exceeds the remaining limit."""
    packed = gzip.compress(b"a" * 5_000_000)
    assert len(make_decoder("gzip").feed(packed, 1000)) <= 1000


async def test_all_members_of_a_gzip_body_are_read():
    """Consecutive members are one body; other bytes after them are ignored."""
    body = gzip.compress(b"one ") + gzip.compress(b"two") + b"\0\0\0 padding"
    with WebServer({"/": Reply(body, headers=(("Content-Encoding", "gzip"),), piece_bytes=5)}) as server:
        page = await fetch(server, "/")
    assert page.text == "one two"


async def test_incomplete_compressed_body_is_marked_as_truncated():
    """A gzip body without its end returns its beginning."""
    body = gzip.compress(bytes(range(256)).hex().encode() * 100)[:-40]
    with WebServer({"/": Reply(body, headers=(("Content-Encoding", "gzip"),))}) as server:
        page = await fetch(server, "/")
    assert page.truncated
    assert page.text.startswith("000102")


@pytest.mark.parametrize(
    ("body", "coding", "message"),
    [
        (b"not packed", "gzip", "cannot be read"),
        (b"x", "zstd", "'zstd'"),
        (b"x", "br", "'br'"),
        (b"x", "gzip, br", "'gzip, br'"),
    ],
)
async def test_undecodable_body_is_an_error(body: bytes, coding: str, message: str):
    """A broken or unknown coding is an error."""
    with WebServer({"/": Reply(body, headers=(("Content-Encoding", coding),))}) as server:
        page = await fetch(server, "/")
    assert page.error is not None
    assert message in page.error


@pytest.mark.parametrize("media_type", ["image/png", "application/zip", "video/mp4"])
async def test_unreadable_media_type_is_refused_by_name(media_type: str):
    """The error names the type, and the body is not read."""
    with WebServer({"/": Reply(b"word " * 2000, endless=True, content_type=media_type)}) as server:
        page = await fetch(server, "/", total_timeout_s=5)
    assert page.error == f"{server.url()} is of the type '{media_type}', which cannot be read as text."


@pytest.mark.parametrize(
    "media_type",
    [
        "text/plain",
        "text/markdown",
        "application/json",
        "application/ld+json",
        "application/atom+xml",
        "text/xml",
        None,
    ],
)
async def test_plain_text_is_returned_unchanged(media_type: str | None):
    """Plain text, Markdown, JSON and XML, also without a declared type, are returned verbatim."""
    text = '{"a":  [1,\n 2], "b": "é 中"}\n'
    with WebServer({"/data/list.json": Reply(text.encode(), content_type=media_type)}) as server:
        page = await fetch(server, "/data/list.json")
    assert (page.text, page.title) == (text, "list.json")


async def test_bytes_without_a_type_are_not_read_as_text():
    """A binary body without a declared type is refused."""
    with WebServer({"/": Reply(b"\x89PNG\0\0\0", content_type=None)}) as server:
        page = await fetch(server, "/")
    assert page.error is not None
    assert "is binary, not text" in page.error


async def test_text_extraction_times_out():
    """A page whose extraction exceeds the time limit is an error."""
    page_bytes = b"<body>" + b"<p>words of the page" * 5000
    with WebServer({"/": Reply(page_bytes, content_type=HTML)}) as server:
        page = await Fetcher([server.host], limits=FetchLimits(extract_timeout_s=0.0001)).fetch(server.url())
    assert (
        page.error == f"{server.url()} was fetched, but its text was not extracted within 0.0001 s. Try another source."
    )


async def test_long_text_is_cut_and_marked():
    """A text above the limit of characters is cut and marked."""
    with WebServer({"/": Reply(b"0123456789" * 50)}) as server:
        page = await Fetcher([server.host], limits=FetchLimits(max_text_chars=100)).fetch(server.url())
    assert page.text == "0123456789" * 10 + "\n\n[Cut here: only the first 100 of 500 characters are given.]"


@pytest.mark.parametrize(
    ("status", "advice"), [(404, "Not Found). Check the address"), (403, "not let programs"), (500, "another source")]
)
async def test_error_status_is_an_error(status: int, advice: str):
    """The page of an error response is not returned as the requested page."""
    with WebServer({"/": Reply(PAGE, status=status, content_type=HTML)}) as server:
        page = await fetch(server, "/")
    assert page.error is not None
    assert f"status {status}" in page.error
    assert advice in page.error
    assert page.text == ""


async def test_broken_connection_is_an_error():
    """A body that is shorter than announced is not returned as complete."""
    with WebServer({"/": Reply(b"half", claimed_bytes=1000)}) as server:
        page = await fetch(server, "/")
    assert page.error is not None
    assert "failed" in page.error


async def test_refused_connection_is_an_error():
    """The error has the address."""
    with WebServer({}) as server:
        pass
    page = await fetch(server, "/")
    assert page.error is not None
    assert page.error.startswith(f"The connection to {server.url()} failed")


# --- many at once --------------------------------------------------------------------------------------------------


async def test_addresses_are_fetched_concurrently_within_the_limit():
    """Results have the order of the request, and concurrent requests do not exceed the limit."""

    def numbered(request: WebRequest) -> Reply:
        return Reply(request.path.encode(), delay_s=0.05)

    with WebServer({f"/{n}": numbered for n in range(12)}) as server:
        fetcher = Fetcher([server.host], limits=FetchLimits(max_concurrent=3))
        pages = await fetcher.fetch_all([server.url(f"/{n}") for n in range(12)])
    assert [page.text for page in pages] == [f"/{n}" for n in range(12)]
    assert server.most_at_once == 3


async def test_failure_of_an_address_does_not_affect_other_addresses():
    """Each address has its own result."""
    with WebServer({"/good": Reply(b"good"), "/picture": Reply(b"x", content_type="image/png")}) as server:
        urls = [server.url("/picture"), server.url("/good"), "http://10.0.0.1/", "nonsense", server.url("/missing")]
        pages = await Fetcher([server.host]).fetch_all(urls)
    assert [page.address for page in pages] == urls
    assert [page.error is None for page in pages] == [False, True, False, False, False]
    assert pages[1].text == "good"


async def test_pages_fetched_before_the_time_limit_are_returned():
    """The other addresses have an error with the reason."""
    with WebServer({"/fast": Reply(b"fast"), "/slow": Reply(delay_s=30)}) as server:
        fetcher = Fetcher([server.host], limits=FetchLimits(batch_timeout_s=0.5))
        fast, slow = await fetcher.fetch_all([server.url("/fast"), server.url("/slow")])
    assert fast.text == "fast"
    assert slow.error is not None
    assert "within the 0.5 s for all addresses" in slow.error


async def test_cancelling_closes_the_connections():
    """A cancelled fetch leaves no request running."""
    with WebServer({"/": Reply(b"word " * 2000, endless=True)}) as server:
        task = asyncio.create_task(Fetcher([server.host]).fetch_all([server.url()] * 2))
        while server.sent_bytes < 100_000:  # noqa: ASYNC110 - the server is in another thread
            await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await asyncio.sleep(0.1)
        sent = server.sent_bytes
        await asyncio.sleep(0.2)
        assert server.sent_bytes == sent


async def test_empty_list_of_addresses_returns_no_pages():
    """An empty list returns an empty list."""
    assert await Fetcher().fetch_all([]) == []


# --- the client alone ----------------------------------------------------------------------------------------------


async def test_redirect_of_a_post_is_not_followed():
    """Body and headers of a request are not sent to another address."""
    with WebServer({"/": redirect("/other"), "/other": Reply(b"x")}) as server:
        client = HttpClient(RequestGuard([server.host]))
        with pytest.raises(ToolError, match="redirects POST requests to /other"):
            await client.send(HttpRequest(server.url(), "POST", {"Authorization": "Bearer k"}, b"{}"))
    assert [request.path for request in server.requests] == ["/"]


def test_invalid_allowed_host_is_a_usage_error():
    """The fetcher rejects an entry that is not a host."""
    with pytest.raises(UsageError, match="allowed_hosts"):
        Fetcher(["http://wiki"])


# --- behind a proxy --------------------------------------------------------------------------------------------------


async def test_proxy_resolves_names_that_this_machine_cannot_resolve(certificate: tuple[Path, Path]):
    """Http and https go through the proxy, by name, with its login; the certificate is checked against the name."""
    chain, key = certificate
    serving = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    serving.load_cert_chain(chain, key)
    trusting = ssl.create_default_context(cafile=chain)
    with (
        WebServer({"/a": Reply(PAGE, content_type=HTML)}) as plain,
        WebServer({"/": Reply(b"safe")}, tls=serving) as tls,
    ):
        ports = {"papers.iana.org": plain.port, "pages.iana.org": tls.port}
        with ProxyServer(ports, login="me:s3cret-word") as proxy:
            address = proxy.url.replace("://", "://me:s3cret-word@")
            fetcher = Fetcher(resolver=Answers([]), ssl_context=trusting, proxy=address)
            pages = await fetcher.fetch_all(["http://papers.iana.org/a?q=1", "https://pages.iana.org/"])
    assert [page.error for page in pages] == [None, None]
    assert "A ticket costs 4 crowns." in pages[0].text
    assert pages[1].text == "safe"
    assert sorted(proxy.heads) == ["CONNECT pages.iana.org:443", "GET http://papers.iana.org:80/a?q=1"]
    assert plain.requests[0].headers["host"] == "papers.iana.org"


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1/",
        "http://10.0.0.7/",
        "http://[::1]/",
        "http://169.254.169.254/latest/meta-data",
        "http://0x7f000001/",
        "http://localhost/",
        "http://router.local/",
        "http://papers.iana.org:8080/",
        "http://me:pw@papers.iana.org/",
    ],
)
async def test_guard_comes_before_the_proxy(url: str):
    """An address that is not public is refused, and the proxy gets no request."""
    with ProxyServer({}) as proxy:
        page = await Fetcher(resolver=Answers([]), proxy=proxy.url).fetch(url)
    assert page.error
    assert proxy.connections == 0


async def test_private_answer_and_redirect_are_refused_before_the_proxy():
    """A name that leads to a local network here is refused, and so is a redirect through the proxy."""
    with WebServer({"/": redirect("http://192.168.0.1/")}) as server, ProxyServer({"a.iana.org": server.port}) as proxy:
        inside = await Fetcher(resolver=Answers(["10.1.2.3"]), proxy=proxy.url).fetch("http://a.iana.org/")
        assert (proxy.connections, "a private network" in (inside.error or "")) == (0, True)
        onward = await Fetcher(resolver=Answers([]), proxy=proxy.url).fetch("http://a.iana.org/")
    assert "192.168.0.1 is a private network" in (onward.error or "")
    assert proxy.heads == ["GET http://a.iana.org:80/"]


async def test_allowed_local_host_is_reached_without_the_proxy():
    """An allowed host of a local network is reached directly."""
    with WebServer({"/": Reply(b"wiki")}) as server, ProxyServer({}) as proxy:
        page = await Fetcher([server.host], proxy=proxy.url).fetch(server.url("/"))
    assert (page.text, proxy.connections) == ("wiki", 0)


@pytest.mark.parametrize("scheme", ["http", "https"])
async def test_error_behind_a_proxy_names_the_proxy_without_its_password(scheme: str):
    """The error names the proxy after a refused login, an unknown name, and if no proxy is running."""
    with ProxyServer({}, login="me:right") as proxy:
        address = proxy.url.replace("://", "://me:wrong-word@")
        refused = await Fetcher(resolver=Answers([]), proxy=address).fetch(f"{scheme}://papers.iana.org/")
    with ProxyServer({}) as open_proxy:
        unknown = await Fetcher(resolver=Answers([]), proxy=open_proxy.url).fetch(f"{scheme}://papers.iana.org/")
    gone = await Fetcher(resolver=Answers([]), proxy=address).fetch(f"{scheme}://papers.iana.org/")
    for page, server, reason in ((refused, proxy, "407"), (unknown, open_proxy, "502"), (gone, proxy, "connect")):
        error = page.error or ""
        assert f"The proxy {server.url} " in error or f"through the proxy {server.url}" in error
        assert reason in error
        assert "wrong-word" not in error
