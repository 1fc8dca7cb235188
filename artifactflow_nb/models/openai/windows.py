"""Context windows of language models, in tokens."""

import re
from collections.abc import Mapping

FAMILIES: Mapping[str, int] = {
    r"gpt-5": 400_000,
    r"gpt-4\.1": 1_000_000,
    r"gpt-4o|gpt-4-turbo|chatgpt-4o": 128_000,
    r"gpt-4": 8_192,
    r"gpt-3\.5": 16_385,
    r"gpt-oss": 131_072,
    r"o[134](-|$)": 200_000,
    r"claude": 200_000,
    r"gemini": 1_000_000,
    r"gemma-?3": 128_000,
    r"deepseek": 128_000,
    r"llama-?4": 1_000_000,
    r"llama-?3[.-][123]": 128_000,
    r"llama-?3": 8_192,
    r"mistral|ministral|magistral|devstral": 128_000,
    r"qwen-?3": 131_072,
    r"qwen-?2\.5": 32_768,
    r"kimi-k2": 128_000,
    r"glm-4": 128_000,
    r"phi-?4": 16_384,
    r"smollm2": 8_192,
}
"""Tokens by the beginning of a model's name, the most specific first: what their makers published by autumn 2026."""

_FIELDS = ("context_length", "max_model_len", "context_window", "max_context_length", "n_ctx", "n_ctx_train")
_PREFIXES = re.compile(r"^(?:[\w.-]+/)*")


def known_window(name: str) -> int | None:
    """The context window of the family that a model's name begins with; None for an unknown family."""
    plain = _PREFIXES.sub("", name.lower())
    return next((tokens for family, tokens in FAMILIES.items() if re.match(family, plain)), None)


def listed_window(model: Mapping[str, object]) -> int | None:
    """The context window in an entry of `/v1/models`, by the names that servers use for it; None if it has none."""
    nested = model.get("meta")  # of llama.cpp
    for fields in (model, nested if isinstance(nested, Mapping) else {}):
        for name in _FIELDS:
            if isinstance(tokens := fields.get(name), int) and tokens > 0:
                return tokens
    return None
