"""Fields of replies that only their provider understands: joined from the stream, stored, and sent back."""

from pathlib import Path
from typing import Any

import pytest
from support.chat_endpoint import Answer, ChatServer, sse
from support.model_turns import KEY, chunk, take

import artifactflow_nb as af
from artifactflow_nb.core.messages import Message, ToolCall, ToolSpec
from artifactflow_nb.models.openai.native_calls import NativeCallReader, ProviderFields, wire_messages

SIGNATURE = {"google": {"thought_signature": "SIG/abc+="}}
LOOK: Any = {"tools": (ToolSpec("look", "Looks.", {"type": "object", "properties": {}}),), "tool_protocol": "native"}
DONE = b"data: [DONE]\n\n"


def joined(*pieces: dict[str, Any]) -> dict[str, Any]:
    fields = ProviderFields()
    for piece in pieces:
        fields.add(piece)
    return fields.values


@pytest.mark.parametrize(
    ("pieces", "values"),
    [
        ([{"role": "assistant", "content": "x", "refusal": None}, {"content": "y", "annotations": [1]}], {}),
        (
            [{"reasoning_content": "I "}, {"reasoning_content": None}, {"reasoning_content": "see."}],
            {"reasoning_content": "I see."},
        ),
        (
            [
                {"reasoning_details": [{"type": "reasoning.text", "text": "a", "index": 0, "id": "r1"}]},
                {"reasoning_details": [{"type": "reasoning.text", "text": "b", "index": 0, "signature": "S"}]},
                {"reasoning_details": [{"type": "reasoning.encrypted", "data": "D", "index": 1}]},
            ],
            {
                "reasoning_details": [
                    {"type": "reasoning.text", "text": "ab", "index": 0, "id": "r1", "signature": "S"},
                    {"type": "reasoning.encrypted", "data": "D", "index": 1},
                ]
            },
        ),
        (
            [{"provider_specific_fields": {"thought_signatures": ["a"]}}, {"provider_specific_fields": {"x": 1}}],
            {"provider_specific_fields": {"thought_signatures": ["a"], "x": 1}},
        ),
    ],
)
def test_pieces_of_a_field_are_joined(pieces: list[dict[str, Any]], values: dict[str, Any]) -> None:
    """Texts grow, items with an index are one item, mappings are merged; empty values are left out."""
    assert joined(*pieces) == values


def test_fields_of_parallel_calls_stay_with_their_calls() -> None:
    """Fields may lack an index or be inside of `function`; a call that becomes two calls keeps the fields once."""
    reader = NativeCallReader()
    pieces: list[dict[str, Any]] = [
        {"function": {"name": "look", "arguments": {"at": "a"}}, "extra_content": SIGNATURE},
        {"function": {"name": "look", "arguments": '{"at": "b"}', "thought_signature": "T"}},
        {"function": {"name": "look", "arguments": '{"at": "c"}{"at": "d"}'}},
    ]
    for number, piece in enumerate(pieces):
        reader.add({"tool_calls": [{"id": f"call-{number}", **piece}]})
    assert reader.calls_with_fields("stop") == [
        (ToolCall("look", {"at": "a"}), {"extra_content": SIGNATURE}),
        (ToolCall("look", {"at": "b"}), {"function": {"thought_signature": "T"}}),
        (ToolCall("look", {"at": "c"}), {}),
        (ToolCall("look", {"at": "d"}), {}),
    ]


async def test_fields_go_back_to_the_same_model_only() -> None:
    """Another model, another endpoint and the text protocol do not get the fields; a plain answer has no fields."""
    call = {"index": 0, "id": "c", "function": {"name": "look", "arguments": "{}"}, "extra_content": SIGNATURE}
    body = sse(chunk({"reasoning_content": "Hm."})) + sse(chunk({"tool_calls": [call]}, "tool_calls")) + DONE
    found, server = await take([Answer(raw=body)], **LOOK)
    reply = found[-1]
    assert reply.reasoning == "Hm."
    message = Message("assistant", "", reply.calls, reply.provider_fields)
    (entry,) = wire_messages([message], f"{server.base_url} loopback")
    assert (entry["reasoning_content"], entry["tool_calls"][0]["extra_content"]) == ("Hm.", SIGNATURE)
    for origin in (f"{server.base_url} other", "https://elsewhere/v1 loopback", ""):
        (entry,) = wire_messages([message], origin)
        assert entry.keys() == {"role", "content", "tool_calls"}
        assert entry["tool_calls"][0].keys() == {"id", "type", "function"}
    found, _ = await take([Answer("An answer.", reasoning="Hm.")])
    assert found[-1].provider_fields is None


def test_signature_survives_a_pause_another_process_and_a_recording(tmp_path: Path) -> None:
    """The run waits for an approval, is continued by another workbench, replayed and verified."""
    arguments = '{"id": "note", "title": "Note", "content": "Text"}'
    call = {"id": "c", "function": {"name": "create_artifact", "arguments": arguments}, "extra_content": SIGNATURE}
    first = Answer(raw=sse(chunk({"tool_calls": [call], "reasoning_content": KEY}, "tool_calls")) + DONE)
    options: Any = {"data_dir": tmp_path / "data", "interactive": False, "tool_protocol": "native"}
    with ChatServer([first, Answer("Written.")]) as server:
        where: Any = {"base_url": server.base_url, "api_key": KEY, "model": "m"}
        with af.Workbench(**where, **options, approvals={"create_artifact": "ask"}) as wb:
            run_id = wb.ask("Write a note.").wait().run_id
        with af.Workbench(**where, **options, record=tmp_path / "runs.jsonl") as wb:
            run = wb.run(run_id).approve().wait()
            assert (run.status, run.response) == ("completed", "Written.")
            assert run.verify().differences == ()
    (turn,) = (message for message in server.requests[1].body["messages"] if message["role"] == "assistant")
    assert turn["tool_calls"][0]["extra_content"] == SIGNATURE
    assert KEY not in turn["reasoning_content"]
