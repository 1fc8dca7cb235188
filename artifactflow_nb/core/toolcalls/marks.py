"""The marks of thinking and of tool calls in replies of all model families: one table, for the readers and the streams.

One reader (`parser.py`) reads the text between the marks of a call, for all families of models::

    <tool_call>{"name": "n", "arguments": {"p": "v"}}</tool_call>                        Hermes, Qwen, Granite
    <tool_call>n<arg_key>p</arg_key><arg_value>v</arg_value></tool_call>                 GLM
    <tool_call><function=n><parameter=p>v</parameter></function></tool_call>             Qwen-Coder, Seed
    <invoke name="n"><parameter name="p">v</parameter></invoke>                          MiniMax; DSML of DeepSeek
    <|python_tag|>{"name": "n", "parameters": {"p": "v"}}                                Llama
    [TOOL_CALLS]n[ARGS]{"p": "v"}                                                        Mistral
    <|channel|>commentary to=functions.n <|constrain|>json<|message|>{"p": "v"}<|call|>  gpt-oss
    <｜tool▁call▁begin｜>n<｜tool▁sep｜>{"p": "v"}<｜tool▁call▁end｜>                          DeepSeek; Kimi
    <|tool_call>call:n{p:<|"|>v<|"|>}<tool_call|>                                        Gemma
    <|tool_call_start|>[n(p="v")]<|tool_call_end|>                                       Liquid; calls in Python
"""

import re
from collections.abc import Mapping

THINKING: Mapping[str, str] = {
    **{f"<{tag}>": f"</{tag}>" for tag in ("think", "thinking", "thought", "thoughts", "reasoning", "seed:think")},
    **{f"<{tag}>": f"</{tag}>" for tag in ("longcat_think", "mm:think", "internal_thinking")},
    "[THINK]": "[/THINK]",
    "◁think▷": "◁/think▷",
    "<|START_THINKING|>": "<|END_THINKING|>",
    "<|begin_of_thought|>": "<|end_of_thought|>",
    "<|channel>thought": "<channel|>",
}
"""Opening and closing marks of thinking, which stands at the beginning of a reply."""

_OPENINGS = (
    "tool_call tool_calls tool_call_begin tool_calls_begin tool_calls_section_begin tool_call_start python_tag "
    "START_ACTION action_start tools_prefix start_function_call channel start"
)
_CLOSINGS = (
    "/tool_call /tool_calls tool_call_end tool_calls_end tool_calls_section_end END_ACTION action_end tools_suffix "
    "end_function_call call end return eom_id eot_id im_end endoftext end_of_turn"
)
_SEPARATORS = "tool_sep tool_call_argument_begin constrain message plugin args call_id"


def _any(names: str) -> str:
    return "|".join(sorted((name.replace("_", "[_▁]") for name in names.split()), key=len, reverse=True))


DSML = "(?:[|｜‖]{1,2}DSML[|｜‖]{1,2})?+"
"""The prefix of DeepSeek's tag names."""
TOKEN = (
    rf"<[|｜‖]{{1,2}}(?:(?P<opening>{_any(_OPENINGS)})|(?P<closing>{_any(_CLOSINGS)})|(?:{_any(_SEPARATORS)}))[|｜‖]{{0,2}}>"
    r"|(?P<bracket>(?-i:\[TOOL_CALLS\])|<start_function_call>)"
    r"|(?P<end>(?-i:\[/TOOL_CALLS\])|<(?:end_function_call|tool_call\|)>)|(?-i:\[(?:ARGS|CALL_ID)\])"
)
"""A special token that takes part in a call."""
UNMARKED = r"(?:assistant)?+(?:commentary\s++)?+to=functions\.(?=\w)|functools(?=\[\s*+\{)"
"""The beginning of a call whose special tokens the endpoint has removed: as in replies of gpt-oss and Phi."""

CALL_BEGINNING = re.compile(
    rf"<{DSML}(?:[\w-]{{1,20}}:)?+(?:tool[_-]?call|function_call|function=|invoke\s)|{TOKEN}|{UNMARKED}"
    r"|(?:^|(?<=\n))[ ]{0,3}`{3,}(?:tool_code|tool_call)\b"
    r"""|(?:\A|(?<=\n)[ ]{0,3}`{3}(?:json)?\s)\s*+\[?\s*+\{\s*+["'](?:name|tool|tool_name|function)["']""",
    re.IGNORECASE,
)
"""A mark that begins a call in a stream; all text from the mark on is shown as a call."""
