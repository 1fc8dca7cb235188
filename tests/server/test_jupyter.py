"""The extension of Jupyter Server: enabled by the installation, behind Jupyter's authentication."""

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from support.http_server import Client

import artifactflow_nb as af

TOKEN = "a-secret-of-the-test"  # noqa: S105 - of a server that the test starts


@pytest.fixture(scope="module")
def jupyter(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A Jupyter server without any configuration of its own; yields its address."""
    home = tmp_path_factory.mktemp("jupyter")
    (home / "root").mkdir()
    variables = ("JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR", "IPYTHONDIR", "HOME")
    environment = {**os.environ, **{name: str(home) for name in variables}, "JUPYTER_TOKEN": TOKEN}
    command = [sys.executable, "-m", "jupyter_server", "--port=0", "--ServerApp.port_retries=0", "--allow-root"]
    with (home / "log").open("wb") as log:
        process = subprocess.Popen(
            [*command, f"--ServerApp.root_dir={home / 'root'}"], env=environment, stdout=log, stderr=log, cwd=home
        )
    try:
        deadline = time.monotonic() + 60
        while not (found := re.search(r"http://127\.0\.0\.1:\d+", (home / "log").read_text())):
            assert process.poll() is None, (home / "log").read_text()
            assert time.monotonic() < deadline, (home / "log").read_text()
            time.sleep(0.1)
        yield found[0]
    finally:
        process.terminate()
        process.wait(20)
    assert "Traceback" not in (home / "log").read_text()


@pytest.fixture
def client(jupyter: str) -> Iterator[Client]:
    with Client(jupyter, {"Authorization": f"token {TOKEN}"}) as client:
        yield client


def test_question_is_answered_by_the_engine_of_the_server(client: Client) -> None:
    """The offline model answers; the store is below the root folder of the server."""
    run = client.ask("How does a context manager handle exceptions?")
    events = list(client.events(run["thread_id"]))
    assert events[0].event == "metadata"
    assert events[-1].data["success"] is True
    assert run["stream_url"] == f"/artifactflow/api/v1/stream/{run['thread_id']}"


def test_stream_continues_after_the_last_event_id(client: Client) -> None:
    run = client.ask("What does a generator return?")
    events = list(client.events(run["thread_id"]))
    rest = list(client.events(run["thread_id"], last=events[2].id))
    assert [event.id for event in rest if event.event != "llm_chunk"] == [
        event.id for event in events if event.id > events[2].id and event.event != "llm_chunk"
    ]
    assert client.get(f"/stream/{run['thread_id']}", params={"from": events[-1].id}).status_code == 204


def test_request_without_the_token_is_refused(jupyter: str) -> None:
    with Client(jupyter) as stranger:
        assert stranger.get("/chat").status_code in {302, 403}
        assert stranger.post("/chat", content="Why?").status_code == 403


def test_request_of_another_site_is_refused(client: Client) -> None:
    """A request needs Jupyter's XSRF token beside the login cookie, and is refused from another origin."""
    with httpx.Client(base_url=client.base_url) as browser:
        browser.get(f"/lab?token={TOKEN}")
        answer = browser.post("/artifactflow/api/v1/chat", json={"content": "Why?"})
        assert answer.status_code == 403, answer.text
        xsrf = browser.cookies.get("_xsrf")
        own = browser.post("/artifactflow/api/v1/chat", json={"content": "Why?"}, headers={"X-XSRFToken": xsrf or ""})
        assert own.status_code == 202, own.text
        other = {"X-XSRFToken": xsrf or "", "Origin": "https://other.example"}
        assert browser.post("/artifactflow/api/v1/chat", json={"content": "Why?"}, headers=other).status_code in {
            403,
            404,
        }


def test_large_or_invalid_bodies_are_refused(client: Client) -> None:
    assert client.post("/chat", content="x" * 1_000_001).status_code == 413
    assert client.http.post("/chat", content=b"{").status_code == 400
    answer = client.post("/chat", content="Why?", depht=3)
    assert (answer.status_code, answer.json()["error"]) == (400, "UsageError")


def test_page_without_a_login_leads_to_the_login_page(jupyter: str) -> None:
    """After the login the page works: the browser gets the cookie that the requests of the page must repeat."""
    with httpx.Client(base_url=jupyter, follow_redirects=True) as browser:
        login = browser.get("/artifactflow/")
        assert login.url.path == "/login"
        assert login.url.params["next"] == "/artifactflow/"
        form = {"password": TOKEN, "_xsrf": browser.cookies["_xsrf"]}
        page = browser.post(str(login.url), data=form)
        assert (page.status_code, page.url.path) == (200, "/artifactflow/")
        assert "<title>ArtifactFlow</title>" in page.text


def test_page_opened_by_a_link_with_the_token_can_ask(jupyter: str) -> None:
    with httpx.Client(base_url=jupyter) as browser:
        assert "<title>ArtifactFlow</title>" in browser.get("/artifactflow/", params={"token": TOKEN}).text
        assert browser.get("/artifactflow/page.js").status_code == 200
        headers = {"X-XSRFToken": browser.cookies["_xsrf"]}
        question = browser.post("/artifactflow/api/v1/chat", json={"content": "What is del?"}, headers=headers)
        assert question.status_code == 202, question.text


def test_page_and_description_are_served(client: Client) -> None:
    with httpx.Client(base_url=client.base_url, headers=client.http.headers, follow_redirects=True) as browser:
        page = browser.get("/artifactflow")
        assert "<title>ArtifactFlow</title>" in page.text
        assert "script-src 'self'" in page.headers["Content-Security-Policy"]
        assert "RemoteModel" in browser.get("/artifactflow/page.js").text
    assert client.get("/openapi.json").json()["servers"] == [{"url": "/artifactflow/api/v1"}]


def test_extension_is_enabled_by_a_file_of_the_package() -> None:
    config = Path(af.__file__).parent / "server" / "jupyter_server_config.json"
    assert json.loads(config.read_text()) == {"ServerApp": {"jpserver_extensions": {"artifactflow_nb": True}}}
