import pytest
from support.chat_endpoint import Answer, ChatServer
from support.model_turns import KEY, take, text_of

from artifactflow_nb.core.messages import Message
from artifactflow_nb.models.base import ModelRequest
from artifactflow_nb.models.openai.client import OpenAIModel
from artifactflow_nb.models.openai.reasoning import split_delta


@pytest.mark.parametrize("field", ["reasoning_content", "reasoning"])
async def test_reasoning_fields_become_reasoning_and_not_content(field):
    """Either field is streamed as reasoning and is not part of the answer."""
    events, _ = await take([Answer("The answer", reasoning="Let me see", reasoning_field=field, chunk_chars=3)])
    assert text_of(events, "reasoning") == events[-1].reasoning == "Let me see"
    assert text_of(events) == events[-1].content == "The answer"


@pytest.mark.parametrize("chunk_chars", [1, 3, 100])
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
        ("\ufeff\n<thinking>a</thinking>\nb", "a", "b"),
        ("[THINK]a[/THINK]b", "a", "b"),
        ("◁think▷a ◁ b◁/think▷c", "a ◁ b", "c"),
        ("<seed:think>a</seed:think>b", "a", "b"),
        ("<|channel>thought\na<channel|>b", "\na", "b"),
        ("<think>a</think>\n<think>b</think>c", "ab", "c"),
        ("a\n[/THINK]b", "a\n", "b"),
        ("<thoughtful> people", "", "<thoughtful> people"),
        ("Write <reasoning>a</reasoning>.", "", "Write <reasoning>a</reasoning>."),
        ("```html\n<think>a</think>\n```", "", "```html\n<think>a</think>\n```"),
        ("<|channel|>analysis<|message|>a<|end|><|start|>assistant<|channel|>final<|message|>b", "a", "b"),
        ("<|channel|>final <|constrain|>json<|message|>{}", "", "{}"),
        (
            "<|channel|>analysis<|message|>a<|end|><|start|>assistant<|channel|>commentary to=functions.t<|message|>{}",
            "a",
            "<|start|>assistant<|channel|>commentary to=functions.t<|message|>{}",
        ),
        ("analysisWe add.assistantfinalfour", "We add.", "four"),
        ("analysisWe add.assistantcommentary to=functions.t json{}", "We add.", "commentary to=functions.t json{}"),
        ("analysis is a branch of mathematics", "", "analysis is a branch of mathematics"),
    ],
)
async def test_think_tags_are_recognised_at_any_cut(text, reasoning, content, chunk_chars):
    """Text within tags, or before a lone closing tag, is reasoning; a quoted tag is not."""
    with ChatServer([Answer(text, chunk_chars=chunk_chars, finish_reason="length")]) as server:
        model = OpenAIModel(server.base_url, KEY, "m")
        events = [event async for event in model.stream(ModelRequest((Message("user", "q"),)))]
        await model.aclose()
    assert (events[-1].reasoning, events[-1].content) == (reasoning, content)
    if not text.startswith(
        ("no opening tag", "a\n[/")
    ):  # this text is known to be reasoning only once it has been shown
        assert (text_of(events, "reasoning"), text_of(events)) == (reasoning, content)


THOUGHT = {"type": "reasoning.text", "text": "hm"}


@pytest.mark.parametrize(
    ("delta", "expected"),
    [
        ({"content": "x", "reasoning_details": [THOUGHT]}, ("hm", "x")),
        ({"content": "x", "reasoning": "hm", "reasoning_details": [THOUGHT]}, ("hm", "x")),
        ({"content": "x", "reasoning": "hm", "reasoning_content": "hm"}, ("hm", "x")),
        ({"content": None, "reasoning_details": [{"type": "reasoning.encrypted", "data": "eA=="}]}, ("", "")),
        ({"content": None, "reasoning_details": [{"type": "reasoning.summary", "summary": "hm"}]}, ("hm", "")),
        ({"content": "x", "reasoning_text": "hm"}, ("hm", "x")),
        (
            {
                "content": [
                    {"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]},
                    {"type": "text", "text": "x"},
                ]
            },
            ("hm", "x"),
        ),
        ({"refusal": "No."}, ("", "No.")),
    ],
)
def test_delta_has_reasoning_in_one_place(delta, expected):
    """Endpoints send reasoning in fields or in content parts; text that comes in two fields counts once."""
    assert split_delta(delta) == expected
