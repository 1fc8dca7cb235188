"""Native tool calls as endpoints stream them: each style yields the deltas for the same calls.

A call is a name and its arguments as JSON text; `size` is how many characters of the arguments are in one piece.
"""

import json
import re
from collections.abc import Callable, Iterable, Mapping
from itertools import zip_longest
from typing import Any

Calls = tuple[tuple[str, str], ...]
Entry = dict[str, Any]
Delta = Mapping[str, Any]


def call_deltas(style: str, calls: Calls, size: int) -> list[Delta]:
    """The deltas for these calls in this style."""
    return STYLES[style](calls, size)


def pieces(text: str, size: int) -> list[str]:
    """Split a text into pieces of this size; with size 0 into words, each with the blanks before it."""
    return [text[i : i + size] for i in range(0, len(text), size)] if size else re.findall(r"\s*\S+|\s+$", text)


def _entries(position: int, name: str, arguments: str, size: int) -> list[Entry]:
    """One call as OpenAI streams it: id and name first, then pieces of its arguments."""
    head = {"index": position, "id": f"call_{position}", "type": "function"}
    rest = [{"index": position, "function": {"arguments": piece}} for piece in pieces(arguments, size)]
    return [{**head, "function": {"name": name, "arguments": ""}}, *rest]


def _whole(position: int, name: str, arguments: Any) -> Entry:
    function = {"name": name, "arguments": arguments}
    return {"index": position, "id": f"call_{position}", "type": "function", "function": function}


def _alone(entries: Iterable[Entry]) -> list[Delta]:
    return [{"tool_calls": [entry]} for entry in entries]


def _changed(change: Callable[[Entry, str, int], Entry]) -> Callable[[Calls, int], list[Delta]]:
    """A style of OpenAI's entries, each changed by a function of the entry, the call's name and the entry's number."""

    def style(calls: Calls, size: int) -> list[Delta]:
        found: list[Entry] = []
        for position, (name, arguments) in enumerate(calls):
            found += [
                change(entry, name, len(found) + n) for n, entry in enumerate(_entries(position, name, arguments, size))
            ]
        return _alone(found)

    return style


def _without(entry: Entry, *names: str) -> Entry:
    return {name: value for name, value in entry.items() if name not in names}


def _named(entry: Entry, name: str) -> Entry:
    return {**entry, "function": {**entry["function"], "name": name}}


def _late_id(calls: Calls, size: int) -> list[Delta]:
    found: list[Entry] = []
    for position, (name, arguments) in enumerate(calls):
        head, *rest = _entries(position, name, arguments, size)
        found += [_without(head, "id"), head, *rest]
    return _alone(found)


def _interleaved(calls: Calls, size: int) -> list[Delta]:
    streams = [_entries(position, *call, size) for position, call in enumerate(calls)]
    return [{"tool_calls": [entry for entry in row if entry]} for row in zip_longest(*streams)]


def _name_in_pieces(calls: Calls, size: int) -> list[Delta]:
    found: list[Entry] = []
    for position, (name, arguments) in enumerate(calls):
        head, *rest = _entries(position, name, arguments, size)
        found += [_named(head, name[:3]), _named(_without(head, "id"), name[3:]), *rest]
    return _alone(found)


def _noisy(calls: Calls, size: int) -> list[Delta]:
    nothing: list[Delta] = [{"tool_calls": None}, {"content": None, "tool_calls": []}, {"function_call": None}]
    return [noise for delta in _alone(_all_entries(calls, size)) for noise in (*nothing, delta, *nothing)]


def _all_entries(calls: Calls, size: int) -> list[Entry]:
    return [entry for position, call in enumerate(calls) for entry in _entries(position, *call, size)]


def _wholes(calls: Calls) -> list[Entry]:
    return [_whole(position, *call) for position, call in enumerate(calls)]


def _legacy(calls: Calls, size: int) -> list[Delta]:
    (name, arguments), *_ = calls
    return [{"function_call": {"name": name, "arguments": ""}}] + [
        {"function_call": {"arguments": piece}} for piece in pieces(arguments, size)
    ]


STYLES: Mapping[str, Callable[[Calls, int], list[Delta]]] = {
    "openai": _changed(lambda entry, _name, _n: entry),
    "no index": _changed(lambda entry, _name, _n: _without(entry, "index")),
    "index null": _changed(lambda entry, _name, _n: {**entry, "index": None}),
    "index always 0": _changed(lambda entry, _name, _n: {**entry, "index": 0}),
    "index always 0, id then empty": _changed(lambda entry, _name, _n: {"id": "", **entry, "index": 0}),
    "index always 0, id then the word null": _changed(lambda entry, _name, _n: {"id": "null", **entry, "index": 0}),
    "id in each piece": _changed(lambda entry, _name, _n: {**entry, "id": f"call_{entry['index']}"}),
    "id in each piece, no index": _changed(
        lambda entry, _name, _n: {**_without(entry, "index"), "id": f"call_{entry['index']}"}
    ),
    "another id in each piece": _changed(lambda entry, _name, n: {**entry, "id": f"random_{n}"}),
    "no id": _changed(lambda entry, _name, _n: _without(entry, "id", "type")),
    "the same id for all": _changed(lambda entry, _name, _n: {**entry, "id": "call_0"}),
    "name in each piece": _changed(lambda entry, name, _n: _named(entry, name)),
    "id after the name": _late_id,
    "name in pieces": _name_in_pieces,
    "interleaved": _interleaved,
    "empty lists between": _noisy,
    "whole": lambda calls, _size: _alone(_wholes(calls)),
    "whole, nothing but names": lambda calls, _size: _alone(
        {**_without(entry, "id"), "index": 0} for entry in _wholes(calls)
    ),
    "all in one delta": lambda calls, _size: [{"tool_calls": _wholes(calls)}],
    "all in one delta, nothing but names": lambda calls, _size: [
        {"tool_calls": [_without(entry, "id", "index") for entry in _wholes(calls)]}
    ],
    "objects": lambda calls, _size: _alone(
        _whole(position, name, json.loads(arguments)) for position, (name, arguments) in enumerate(calls)
    ),
    "sent again whole": lambda calls, size: [*_alone(_all_entries(calls, size)), {"tool_calls": _wholes(calls)}],
    "sent again at another index": lambda calls, _size: _alone(
        {**entry, "index": 2 * entry["index"] + n} for entry in _wholes(calls) for n in (0, 1)
    ),
    "interleaved, index always 0, id in each piece": lambda calls, size: [
        {"tool_calls": [{**entry, "id": f"call_{entry['index']}", "index": 0} for entry in delta["tool_calls"]]}
        for delta in _interleaved(calls, size)
    ],
    "head at index 0, arguments at the right one": lambda calls, size: _alone(
        {**entry, "index": 0 if "id" in entry else entry["index"]} for entry in _all_entries(calls, size)
    ),
    "function_call": _legacy,
}
"""The styles by name; `function_call`, the oldest form, can contain only the first call."""
