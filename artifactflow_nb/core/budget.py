"""Run budgets and model prices: values that are validated on construction."""

from collections.abc import Iterable, Mapping
from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from artifactflow_nb.core.messages import Usage
from artifactflow_nb.core.text.format import MAX_LISTED_LINES, count, usd
from artifactflow_nb.errors import UsageError, brief

TOKENS_PER_PRICE = 1_000_000

_DIGITS = 6
"""Decimal places of a remaining cost or time."""


class _Checked(BaseModel):
    """A frozen value; its constructor raises `UsageError` in place of pydantic's error."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    def __init__(self, *values: Any, **fields: Any) -> None:
        if values:
            names = ", ".join(type(self).model_fields)
            raise UsageError(f"{type(self).__name__} takes values by name ({names}), not {brief(values[0])}.")
        try:
            super().__init__(**fields)
        except ValidationError as error:
            raise UsageError(_problems(type(self), fields, error)) from None

    __init__.__pydantic_base_init__ = True  # type: ignore[attr-defined]  # settings report the place of an inner value


class Price(_Checked):
    """Token prices of a model, in US dollars per million tokens.

    Attributes:
        input: Price of prompt tokens.
        output: Price of reply tokens, including reasoning.
        cache_read: Price of prompt tokens read from the endpoint's cache; None for the input price.
    """

    input: float = Field(ge=0, allow_inf_nan=False)
    output: float = Field(ge=0, allow_inf_nan=False)
    cache_read: float | None = Field(default=None, ge=0, allow_inf_nan=False)

    def cost_usd(self, usage: Usage) -> float:
        """Compute the cost of this usage in US dollars."""
        # Some endpoints do not include cached tokens in the input tokens, which would make the difference negative.
        cached = min(usage.cache_read_tokens or 0, usage.input_tokens)
        cached_price = self.input if self.cache_read is None else self.cache_read
        cost = (usage.input_tokens - cached) * self.input + cached * cached_price + usage.output_tokens * self.output
        return cost / TOKENS_PER_PRICE


def cost_usd(prices: Mapping[str, Price], models: Iterable[str | None], usage: Usage | None) -> float | None:
    """Return the cost of a call in US dollars: the reported cost, or the cost by the first price of `models`.

    Returns:
        None if no cost is reported and no model has a price.
    """
    if usage is not None and usage.reported_usd is not None:
        return usage.reported_usd
    price = next((prices[name] for name in models if name is not None and name in prices), None)
    return None if price is None or usage is None else price.cost_usd(usage)


class BudgetUsage(BaseModel):
    """Budget used by a run so far, with or without its subruns.

    Attributes:
        tokens: Input and output tokens of all model calls.
        usd: Cost of the tokens in US dollars.
        seconds: Active time, excluding waits for a person and interruptions.
    """

    model_config = ConfigDict(frozen=True)

    tokens: int = 0
    usd: float = 0.0
    seconds: float = 0.0

    def add(self, other: "BudgetUsage") -> "BudgetUsage":
        """Return the sum of both usages."""
        return BudgetUsage(
            tokens=self.tokens + other.tokens, usd=self.usd + other.usd, seconds=self.seconds + other.seconds
        )

    def maximum(self, other: "BudgetUsage") -> "BudgetUsage":
        """Return the field-wise maximum."""
        return BudgetUsage(
            **{name: max(getattr(self, name), getattr(other, name)) for name in BudgetUsage.model_fields}
        )


class Budget(_Checked):
    """Limits of one run, checked before each of its model calls.

    A started call is never aborted, so the last call, and calls of parallel agents, may exceed a limit. The usage of a
    subrun is added before the next call of the agent that started the subrun; a subrun may spend the budget that
    remained when the agent requested the subrun.

    Attributes:
        tokens: Maximum input and output tokens of all model calls; None for no limit (here and below).
        usd: Maximum cost in US dollars at the configured prices.
        seconds: Maximum active time, excluding waits for a person.
        when_spent: `stop` ends the run at a limit; `ask` requests approval to continue.
    """

    tokens: int | None = Field(default=None, gt=0, le=2**63 - 1)  # the largest integer of SQLite
    usd: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    seconds: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    when_spent: Literal["stop", "ask"] = "stop"

    @classmethod
    def from_limits(cls, limits: "Budget | Mapping[str, Any]") -> Self:
        """Create a budget from limits by name; `UsageError` lists the invalid limits."""
        if isinstance(limits, Budget):
            limits = limits.model_dump()
        if not isinstance(limits, Mapping):
            raise UsageError(f"The budget is {brief(limits)}. Pass its limits by name, as af.Budget(tokens=50_000).")
        try:
            return cls.model_validate(limits)
        except ValidationError as error:
            raise UsageError(_problems(cls, limits, error)) from None

    @property
    def limits(self) -> dict[str, float]:
        """The limits that are set, by name."""
        return self.model_dump(exclude={"when_spent"}, exclude_none=True)

    def exceeded(self, spent: BudgetUsage) -> dict[str, float]:
        """Return the limits that are reached, by name."""
        return {name: limit for name, limit in self.limits.items() if getattr(spent, name) >= limit}

    def extended(self, spent: BudgetUsage, by: "Budget", discarded: BudgetUsage | None = None) -> "Budget":
        """Return this budget with each reached limit raised to the usage plus an amount.

        Args:
            spent: Usage so far.
            by: The amounts to add, by limit.
            discarded: Usage that has to be spent again, because its result was lost.
        """
        base = spent if discarded is None else spent.add(discarded)
        more = {name: getattr(base, name) + getattr(by, name) for name in self.exceeded(spent)}
        return self.model_copy(update=more)

    def remaining(self, spent: BudgetUsage) -> Self:
        """Return the budget minus this usage, which must be below each limit."""
        remaining = {name: limit - getattr(spent, name) for name, limit in self.limits.items()}
        # Parallel calls end in any order, and float sums depend on the order: rounding keeps replays identical.
        for name in remaining.keys() - {"tokens"}:
            remaining[name] = max(round(remaining[name], _DIGITS), 10**-_DIGITS)
        return self.model_copy(update=remaining)

    def describe(self, spent: BudgetUsage) -> str:
        """Describe the usage of each limit that is reached."""
        texts = {
            "tokens": lambda limit: f"{spent.tokens:,} of {count(int(limit), 'token')}",
            "usd": lambda limit: f"{usd(spent.usd)} of {usd(limit, exact=True)}",
            "seconds": lambda limit: f"{spent.seconds:.3g} of {limit:.3g} s",
        }
        return ", ".join(texts[name](limit) for name, limit in self.exceeded(spent).items())


def _problems(kind: type[BaseModel], values: object, error: ValidationError) -> str:
    names = ", ".join(kind.model_fields)
    problems = "; ".join(
        f"{'.'.join(map(str, detail['loc'])):.80} is not one of {names}"
        if detail["type"] == "extra_forbidden"
        else f"{'.'.join(map(str, detail['loc'])) or 'it':.80}: {detail['msg'].lower()}"
        for detail in error.errors(include_url=False, include_input=False)[:MAX_LISTED_LINES]
    )
    return f"The {kind.__name__.lower()} {brief(values)} is invalid: {problems}."
