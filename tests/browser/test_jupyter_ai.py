"""The persona in Jupyter AI's own server and chat: a question, an approval in the chat, and the run in the frames."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from browser.conftest import missing
from browser.lab import LabServer, watch
from browser.servers import JUPYTER_AI, lab_server
from playwright.sync_api import BrowserContext, expect
from support.chat_endpoint import Answer, ChatServer
from support.overlays import overlay_python
from support.replies import call

import artifactflow_nb as af

pytestmark = pytest.mark.browser

START_MS = 60_000
TEXT = "Otters sleep in kelp. " * 40
KEEP_LENGTHS = """() => {
    window.lengths = new Set();
    const texts = document.getElementsByClassName("jp-chat-rendered-message");
    const keep = () => lengths.add(texts[texts.length - 1].textContent.length);
    new MutationObserver(keep).observe(document.body, {subtree: true, childList: true, characterData: true});
}"""
"""Keeps the lengths that the last text of the chat has had."""
ANSWERS = [
    Answer(call("create_artifact", id="note", title="Note", content="Otters sleep.")),
    Answer("The note is written."),
    Answer(call("rewrite_artifact", id="note", content="Otters sleep in kelp.")),
    Answer(TEXT, delay_s=0.03),
]


@pytest.fixture
def jupyter_ai(tmp_path: Path) -> Iterator[LabServer]:
    """JupyterLab with Jupyter AI, whose persona asks a scripted endpoint."""
    if not overlay_python("jupyter_ai").exists():
        missing("The environment 'jupyter_ai' is missing: `make front-ends` creates it.")
    with ChatServer(ANSWERS) as endpoint:
        settings = {"OPENAI_BASE_URL": endpoint.base_url, "OPENAI_API_KEY": "k", "AF_MODEL": "loopback-1"}
        with lab_server(tmp_path, {**settings, "AF_TOOL_PROTOCOL": "xml", "AF_APPROVALS": "ask"}, JUPYTER_AI) as server:
            yield server


def test_chat_asks_approves_and_streams(jupyter_ai: LabServer, context: BrowserContext) -> None:
    """A notebook in the folder of the server sees the run; the second question continues the conversation."""
    page = context.new_page()
    watched = watch(page, jupyter_ai, "")
    page.goto(jupyter_ai.url(""))
    page.locator(".jp-LauncherCard", has_text="Chat").first.click(timeout=START_MS)
    composer = page.get_by_placeholder("Type a chat message")
    expect(page.locator(".jp-jai-personaControls-persona-btn")).to_have_text("ArtifactFlow NB", timeout=START_MS)
    last_text = page.locator(".jp-chat-rendered-message").last
    composer.fill("Write a note.")
    composer.press("Enter")
    expect(last_text).to_have_text("The note is written.", timeout=START_MS)
    composer.fill("Say in the note where otters sleep.")
    composer.press("Enter")
    request = page.locator(".jp-jupyter-ai-acp-client-tool-call", has_text="wants to run rewrite_artifact")
    expect(request).to_contain_text("Otters sleep in kelp.", timeout=START_MS)
    if folder := os.environ.get("AF_PICTURES"):
        page.screenshot(path=Path(folder) / "jupyter-ai.png")
    page.evaluate(KEEP_LENGTHS)
    request.get_by_role("button", name="Approve", exact=True).click()
    expect(last_text).to_have_text(TEXT.strip(), timeout=START_MS)
    assert page.evaluate("lengths.size") > 3
    assert watched.errors == []
    assert watched.foreign_requests() == []
    with af.Workbench(data_dir=jupyter_ai.root / ".artifactflow", interactive=False) as wb:
        runs, approvals = wb.runs_df(), wb.approvals_df()
        assert runs["question"].tolist() == ["Write a note.", "Say in the note where otters sleep."]
        assert runs["status"].tolist() == ["completed", "completed"]
        assert len(wb.conversations()) == 1
        assert approvals["decided_by"].tolist() == ["acp:Jupyter AI"]
        assert wb.runs()[0].artifacts["note"].content == "Otters sleep in kelp."
