"""What a run may spend, and what tokens cost: values that are checked when they are made."""

from collections.abc import Iterable, Mapping
from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from artifactflow_nb.errors import UsageError
from artifactflow_nb.messages import Usage
from artifactflow_nb.text.cards import Card, Rows, Shown
from artifactflow_nb.text.figures import count, usd

TOKENS_OF_A_PRICE = 1_000_000

_DIGITS = 6
"""How exact what is left of a cost or a time is told."""


class Price(Shown, BaseModel):
    """What a model's tokens cost, in US dollars for a million of them.

    Attributes:
        input: Tokens of the prompt.
        output: Tokens of the reply, reasoning ones included.
        cache_read: Tokens of the prompt that the endpoint read from its cache; None for the price of the others.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    input: float = Field(ge=0, allow_inf_nan=False)
    output: float = Field(ge=0, allow_inf_nan=False)
    cache_read: float | None = Field(default=None, ge=0, allow_inf_nan=False)

    def cost_usd(self, usage: Usage) -> float:
        """What this usage costs, in US dollars."""
        cached = min(usage.cache_read_tokens or 0, usage.input_tokens)  # some endpoints count them apart
        cheaper = self.input if self.cache_read is None else self.cache_read
        spent = (usage.input_tokens - cached) * self.input + cached * cheaper + usage.output_tokens * self.output
        return spent / TOKENS_OF_A_PRICE

    def _card(self) -> Card:
        prices = {"input": self.input, "output": self.output, "input read from a cache": self.cache_read}
        rows: Rows = [(name, None if price is None else usd(price, exact=True)) for name, price in prices.items()]
        return Card("Price", "of a million tokens", rows)


def cost_usd(prices: Mapping[str, Price], models: Iterable[str | None], usage: Usage | None) -> float | None:
    """What a call costs, in US dollars, at the price of the first of these names that has one; None if unknown."""
    price = next((prices[name] for name in models if name is not None and name in prices), None)
    return None if price is None or usage is None else price.cost_usd(usage)


class Spent(BaseModel):
    """What a run has spent so far, or it and those that it began.

    Attributes:
        tokens: Input and output tokens of all model calls.
        usd: What they cost, in US dollars.
        seconds: How long the run was at work, without the time in which it waited for a person or was interrupted.
    """

    model_config = ConfigDict(frozen=True)

    tokens: int = 0
    usd: float = 0.0
    seconds: float = 0.0

    def plus(self, other: "Spent") -> "Spent":
        """What both are together."""
        return Spent(tokens=self.tokens + other.tokens, usd=self.usd + other.usd, seconds=self.seconds + other.seconds)

    def at_least(self, other: "Spent") -> "Spent":
        """Of each the greater."""
        return Spent(**{name: max(getattr(self, name), getattr(other, name)) for name in Spent.model_fields})


class Budget(Shown, BaseModel):
    """Limits of one run, checked before each of its model calls; a limit that is None does not hold.

    A call that has begun is not cut off, so the last one, and those of other agents at work, may go beyond. What a run
    has researched in runs of their own counts before the next call of the agent that had it researched; each of these
    may spend what was left when that agent asked for it.

    Attributes:
        tokens: Input and output tokens of all model calls.
        usd: What they cost, in US dollars, at the configured prices.
        seconds: How long the run is at work, without the time in which it waits for a person.
        when_spent: `stop` ends the run; `ask` puts before the person whether it may go on.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    tokens: int | None = Field(default=None, gt=0)
    usd: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    seconds: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    when_spent: Literal["stop", "ask"] = "stop"

    @classmethod
    def of(cls, limits: "Budget | Mapping[str, Any]") -> Self:
        """A budget from its limits by name; `UsageError` says which of them cannot be."""
        if isinstance(limits, Budget):
            limits = limits.model_dump()
        try:
            return cls.model_validate(limits)
        except ValidationError as error:
            raise UsageError(f"The budget {limits!r} cannot be: {_problems(error)}.") from None

    @property
    def limits(self) -> dict[str, float]:
        """The limits that hold, by name."""
        return self.model_dump(exclude={"when_spent"}, exclude_none=True)

    def exceeded(self, spent: Spent) -> dict[str, float]:
        """The limits that are reached."""
        return {name: limit for name, limit in self.limits.items() if getattr(spent, name) >= limit}

    def extended(self, spent: Spent, by: "Budget", void: Spent | None = None) -> "Budget":
        """The budget with as much again of each limit that is reached, from what is spent and has to be spent again."""
        base = spent if void is None else spent.plus(void)
        more = {name: getattr(base, name) + getattr(by, name) for name in self.exceeded(spent)}
        return self.model_copy(update=more)

    def left(self, spent: Spent) -> Self:
        """The budget with what this leaves of each limit, none of which is reached."""
        left = {name: limit - getattr(spent, name) for name, limit in self.limits.items()}
        for name in left.keys() - {"tokens"}:  # sums of floats depend on their order, in which calls happen to end
            left[name] = max(round(left[name], _DIGITS), 10**-_DIGITS)
        return self.model_copy(update=left)

    def told(self, spent: Spent) -> str:
        """How much of each reached limit is spent, in words."""
        told = {
            "tokens": lambda limit: f"{spent.tokens:,} of {count(int(limit), 'token')}",
            "usd": lambda limit: f"{usd(spent.usd)} of {usd(limit, exact=True)}",
            "seconds": lambda limit: f"{spent.seconds:.3g} of {limit:.3g} s",
        }
        return ", ".join(told[name](limit) for name, limit in self.exceeded(spent).items())

    def _card(self) -> Card:
        rows: Rows = [
            ("tokens", self.tokens),
            ("cost", None if self.usd is None else usd(self.usd, exact=True)),
            ("time at work", None if self.seconds is None else f"{self.seconds:,.10g} s"),
        ]
        spent = {
            "stop": "The run stops where a limit is reached.",
            "ask": "A person is asked where a limit is reached.",
        }
        return Card("Budget", "of a run" if self.limits else "without limits", rows, note=spent[self.when_spent])


def _problems(error: ValidationError) -> str:
    known = ", ".join(Budget.model_fields)
    return "; ".join(
        f"{'.'.join(map(str, detail['loc']))} is not one of {known}"
        if detail["type"] == "extra_forbidden"
        else f"{'.'.join(map(str, detail['loc'])) or 'it'}: {detail['msg'].lower()}"
        for detail in error.errors(include_url=False)
    )
