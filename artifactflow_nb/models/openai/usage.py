"""Usage of a reply as endpoints report it: tokens, and what the call cost."""

import math
from collections.abc import Mapping
from typing import Any

from artifactflow_nb.core.messages import Usage

_MIN_TOKENS = 2_000
_FEWER = 2  # a token has about four characters; more than eight only in a text that repeats itself
LITELLM_COST = "x-litellm-response-cost"
"""Response header of LiteLLM with the cost of a call."""


def read_usage(reported: Mapping[str, Any], headers: Mapping[str, str]) -> Usage | None:
    """Return the usage in a reply, or None if the number of prompt or reply tokens is missing.

    Some endpoints, such as those of Gemini and xAI, bill thinking that they count in the total only.
    """
    prompt, completion = reported.get("prompt_tokens"), reported.get("completion_tokens")
    if not isinstance(prompt, int) or not isinstance(completion, int):  # some endpoints send null
        return None
    total = reported.get("total_tokens")
    cached = _details(reported, "prompt_tokens_details").get("cached_tokens")
    if cached is None:  # DeepSeek and Moonshot have fields of their own
        cached = reported.get("prompt_cache_hit_tokens", reported.get("cached_tokens"))
    cost: Any = reported.get("cost")  # a number at OpenRouter, an object at Perplexity
    cost = cost.get("total_cost") if isinstance(cost, Mapping) else cost
    if cost is not None and reported.get("is_byok"):  # with the person's own key, the provider bills as well
        cost += _details(reported, "cost_details").get("upstream_inference_cost") or 0
    try:
        usd = float(headers.get(LITELLM_COST, "") or math.nan if cost is None else cost)
    except (TypeError, ValueError):
        usd = math.nan
    return Usage(
        prompt,
        max(completion, total - prompt if isinstance(total, int) else 0),
        reasoning_tokens=_details(reported, "completion_tokens_details").get("reasoning_tokens"),
        cache_read_tokens=cached,
        reported_usd=usd if math.isfinite(usd) and usd >= 0 else None,
    )


def cut_prompt_notice(usage: Usage, estimated: Usage) -> str:
    """Return a sentence if the endpoint has read far fewer tokens than were sent, or an empty string."""
    if usage.estimated or estimated.input_tokens < _MIN_TOKENS or usage.input_tokens * _FEWER > estimated.input_tokens:
        return ""
    if (usage.cache_read_tokens or 0) > usage.input_tokens:  # cached tokens are counted apart from the prompt
        return ""
    return (
        f"The endpoint read {usage.input_tokens:,} tokens of a prompt of about {estimated.input_tokens:,}: it has cut "
        "the prompt to its context window. With Ollama, raise num_ctx (OLLAMA_CONTEXT_LENGTH); with other servers, "
        "start the model with a longer context."
    )


def _details(reported: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    details = reported.get(name)
    return details if isinstance(details, Mapping) else {}
