"""Prompts that fit the context window of the model, which the endpoint, the model's name or a setting gives."""

from pathlib import Path
from typing import Annotated

import pytest
from support.chat_endpoint import Answer, ChatServer

import artifactflow_nb as af
from artifactflow_nb.core.messages import Message
from artifactflow_nb.flows.compression import COMPRESSION_LEVELS, compress_messages, message_chars, window_scale
from artifactflow_nb.models.openai.client import known_window, listed_window


@pytest.mark.parametrize(
    ("name", "window"),
    [
        ("gpt-4o-mini-2024-07-18", 128_000),
        ("gpt-4.1-nano", 1_000_000),
        ("gpt-4-0613", 8_192),
        ("anthropic/claude-sonnet-4-5", 200_000),
        ("models/Qwen/Qwen3-8B-Instruct", 131_072),
        ("o3-mini", 200_000),
        ("my-own-model", None),
    ],
)
def test_window_of_a_family_is_known_by_the_name(name: str, window: int | None) -> None:
    """The names of a router and of folders may precede the model's name; the most specific family applies."""
    assert known_window(name) == window


@pytest.mark.parametrize(
    ("entry", "window"),
    [
        ({"id": "m", "max_model_len": 32_768}, 32_768),
        ({"id": "m", "context_length": 200_000}, 200_000),
        ({"id": "m", "meta": {"n_ctx_train": 8_192}}, 8_192),
        ({"id": "m", "context_length": "many"}, None),
        ({"id": "m", "meta": None}, None),
    ],
)
def test_window_is_read_from_the_list_of_models(entry: dict[str, object], window: int | None) -> None:
    """Servers use different fields for the window; without a valid field the window is unknown."""
    assert listed_window(entry) == window


def test_prompt_is_compressed_to_the_window() -> None:
    """A prompt fills three quarters of the window: in English at four characters a token, in Chinese at one."""
    for text, tokens_per_char in (("word " * 400, 0.25), ("数据科学家" * 400, 1.0)):
        messages = [Message("system", "You are brief."), *[Message("user", text), Message("assistant", text)] * 200]
        scale = window_scale(30_000, messages)
        fitted = compress_messages(messages, "normal", scale=scale)
        assert 0.6 * 30_000 <= message_chars(fitted) * tokens_per_char <= 0.76 * 30_000


@af.tool(idempotent=True)
def read_page(ctx: af.ToolContext, page: Annotated[int, "The page."]) -> str:
    """Read a page."""
    del ctx
    return f"Page {page}. " + "Ships keep to the east of the skerries. " * 600


def ask(folder: Path, base_url: str, **settings: object) -> list[int]:
    """Read twelve pages, 24,000 characters each; return the lengths of the prompts."""
    rounds = {"lead_agent": {"max_tool_rounds": 20}}
    options = {"base_url": base_url, "api_key": "k", "graph_config": rounds, "interactive": False}
    wb = af.Workbench(data_dir=folder, **options, **settings)  # type: ignore[arg-type]
    wb.tool(read_page)
    run = wb.ask("Read on.").wait()
    assert run.status == "completed", run.error
    lengths = wb.llm_calls_df(run)["context_chars"].tolist()
    wb.close()
    return lengths


def test_window_of_the_model_decides_how_much_of_a_run_it_sees(tmp_path: Path) -> None:
    """Twelve pages fit a large window whole; a smaller window, or an unknown model, gets less."""
    turns = [
        Answer(f"<tool_call><name>read_page</name><params><page>{n}</page></params></tool_call>") for n in range(12)
    ]
    script = [*turns, Answer("Done.")]
    with ChatServer([*script, *script, *script]) as server:
        large = ask(tmp_path / "a", server.base_url, model="gpt-4.1")
        usual = ask(tmp_path / "b", server.base_url, model="unknown")
        small = ask(tmp_path / "c", server.base_url, model="unknown", context_tokens=10_000)
    assert large[-1] > 12 * 15_000
    assert max(usual) <= COMPRESSION_LEVELS["normal"]
    assert max(small) <= 0.75 * 10_000 * 4
