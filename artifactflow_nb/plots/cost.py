"""Cost by model, and plainly how much of it is not known."""

from collections.abc import Sequence
from dataclasses import dataclass

import pandas as pd

from artifactflow_nb.plots.bars import Bar, bars_svg, bars_vega
from artifactflow_nb.plots.chart import Chart, empty_chart
from artifactflow_nb.plots.columns import FLOAT, INT, TEXT, Table, typed_frame
from artifactflow_nb.plots.svg import GREEN, Fill
from artifactflow_nb.text.figures import count, usd
from artifactflow_nb.text.width import clip

TITLE = "Cost by model"
PAID = Fill("known cost", GREEN)


@dataclass(frozen=True, slots=True)
class _Sum:
    """What the calls of one model cost; None if no call tells."""

    model: str
    n_calls: int
    n_unknown: int
    cost: float | None


def plot_cost(llm_calls: pd.DataFrame) -> Chart:
    """What the calls of each model cost in US dollars, the dearest first; calls whose cost is unknown are counted.

    Args:
        llm_calls: Rows of `wb.llm_calls_df()`, all or some.

    Errors: `UsageError` for a frame that lacks a column that is needed.
    """
    table = Table(llm_calls, "llm_calls", "plot_cost", ("request_model", "cost_usd"))
    sums = _sums(table)
    if not sums:
        return empty_chart(TITLE, "No model calls in this frame.", _frame(sums))
    bars = [Bar(each.model, ((PAID, each.cost or 0.0),), _told(each)) for each in sums]
    notes = _notes(sums)
    known = [each.cost for each in sums if each.cost is not None]
    spent = usd(sum(known)) if known else "Unknown cost"
    told = f"{spent} for {count(len(table), 'call')} of {count(len(sums), 'model')}."
    return Chart(
        TITLE,
        told,
        bars_vega(TITLE, told, bars, (PAID,), "USD", notes),
        bars_svg(TITLE, told, bars, (PAID,), usd, *notes),
        _frame(sums),
        notes,
    )


def _sums(table: Table) -> list[_Sum]:
    asked, answered = table.texts("request_model", "unknown"), table.texts("response_model")
    models = [said or model for said, model in zip(answered, asked, strict=True)]
    costs = table.numbers("cost_usd")
    sums = []
    for model in dict.fromkeys(models):
        own = [cost for name, cost in zip(models, costs, strict=True) if name == model]
        known = [cost for cost in own if cost is not None]
        sums.append(_Sum(model, len(own), len(own) - len(known), sum(known) if known else None))
    return sorted(sums, key=lambda each: -(each.cost or 0.0))


def _told(each: _Sum) -> str:
    if each.cost is None:
        return f"unknown, {count(each.n_calls, 'call')}"
    missing = f", {each.n_unknown:,} unknown" if each.n_unknown else ""
    return f"{usd(each.cost)}, {count(each.n_calls, 'call')}{missing}"


def _notes(sums: Sequence[_Sum]) -> tuple[str, ...]:
    unknown = sum(each.n_unknown for each in sums)
    if not unknown:
        return ()
    unpriced = [clip(each.model, 40) for each in sums if each.cost is None]
    names = f" No call of {', '.join(unpriced[:3])} has one." if unpriced else ""
    return (
        f"The cost of {count(unknown, 'call')} is unknown: no price is set for the model, or the call failed.{names}",
    )


def _frame(sums: Sequence[_Sum]) -> pd.DataFrame:
    return typed_frame(
        {
            "model": (TEXT, [each.model for each in sums]),
            "n_llm_calls": (INT, [each.n_calls for each in sums]),
            "n_unknown": (INT, [each.n_unknown for each in sums]),
            "cost_usd": (FLOAT, [each.cost for each in sums]),
        }
    )
