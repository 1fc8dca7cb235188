"""Amounts as an axis writes them."""


def short(number: float) -> str:
    """`950`, `1.2k`, `34k`, `5.6M`: for an axis, where the exact figure stands elsewhere."""
    for unit, size in (("M", 1e6), ("k", 1e3)):
        if abs(number) >= size:
            return f"{number / size:.3g}{unit}"
    return f"{number:.3g}"
