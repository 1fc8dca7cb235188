import pytest
from support.chat_endpoint import Answer, ChatServer
from support.model_turns import KEY, take, text_of

from artifactflow_nb.core.messages import Message
from artifactflow_nb.models.base import ModelRequest
from artifactflow_nb.models.openai.client import OpenAIModel


@pytest.mark.parametrize("field", ["reasoning_content", "reasoning"])
async def test_reasoning_fields_become_reasoning_and_not_content(field):
    """Either field is streamed as reasoning and is not part of the answer."""
    found, _ = await take([Answer("The answer", reasoning="Let me see", reasoning_field=field, chunk_chars=3)])
    assert text_of(found, "reasoning") == found[-1].reasoning == "Let me see"
    assert text_of(found) == found[-1].content == "The answer"


@pytest.mark.parametrize("chunk_chars", [1, 2, 3, 5, 8, 100])
@pytest.mark.parametrize(
    ("text", "reasoning", "content"),
    [
        ("<think>hm < 3</think>\n\nIt is < 4.", "hm < 3", "It is < 4."),
        ("\n <think>\nhm\n</think>yes", "\nhm\n", "yes"),
        ("<think>cut short", "cut short", ""),
        ("<think></think>only the answer", "", "only the answer"),
        ("<think>a</think>b <think>c</think> d", "a", "b <think>c</think> d"),
        ("no opening tag\n</think>\n\nanswer", "no opening tag\n", "answer"),
        ("plain <thin air> and </thing>", "", "plain <thin air> and </thing>"),
        ("It ends a block with `</think>` as a rule.", "", "It ends a block with `</think>` as a rule."),
        ("Two tags: <think> and </think>.", "", "Two tags: <think> and </think>."),
        ("<tool_call><p>x </think> y</p></tool_call>", "", "<tool_call><p>x </think> y</p></tool_call>"),
        ("ends with <", "", "ends with <"),
        ("<", "", "<"),
        (" \n", "", ""),
    ],
)
async def test_think_tags_are_recognised_at_any_cut(text, reasoning, content, chunk_chars):
    """Text within tags, or before a lone closing tag, is reasoning; a quoted tag is not."""
    with ChatServer([Answer(text, chunk_chars=chunk_chars)]) as server:
        model = OpenAIModel(server.base_url, KEY, "m")
        found = [event async for event in model.stream(ModelRequest((Message("user", "q"),)))]
        await model.aclose()
    assert (found[-1].reasoning, found[-1].content) == (reasoning, content)
    if "no opening tag" not in text:  # that one is known to be reasoning only once it has been shown
        assert (text_of(found, "reasoning"), text_of(found)) == (reasoning, content)
