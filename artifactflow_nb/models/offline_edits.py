"""Edits that somebody asks for word by word: the passage, and what shall stand in its place, in quotation marks."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

_QUOTED = re.compile(
    r"“([^”]*)”|「([^」]*)」|『([^』]*)』|«([^»]*)»|\"([^\"]*)\"|`([^`]*)`"
    r"|(?<!\w)‘(.*?)’(?!\w)|(?<!\w)'(.*?)'(?!\w)",
    re.DOTALL,
)
_HELD = re.compile("\ue000(\\d+)\ue001")
_MARKS = re.compile("[\ue000\ue001]")
_P = "\\s*\ue000\\d+\ue001"  # what stands for a quoted passage while the words around it are read
_THE = r"(?: (?:the|a))?(?: (?:whole )?(?:word|words|sentence|passage|phrase|text|paragraph|line|part))?"
_DROP = r"\b(?:remove|delete|take out|cut out|cut|drop|strike|omit|leave out)"
_DROP_ZH = "(?:删除|删掉|删去|去掉|移除|刪除|刪掉|刪去)"
_IT_ZH = r"\s*(?:这|那|這)?(?:[一个個])?(?:句话|句話|句子|句|段话|段話|段落|段|词语|詞語|词|詞|字|文字)?"
_TO_ZH = "(?:全部)?(?:改成|改为|改為|换成|換成|换为|換為|替换为|替換為|替换成|替換成)"
_INSERT_ZH = "(?:插入|加上|加入|添加|补充|補充)"

_JOINING = re.compile(
    r"(?:please|and|then|also|afterwards)(?=\W|$)|[,.;:!?，。；：！？、]+"
    r"|[请請]|(?:然后|然後|以及|并且|並且|并|並)",
    re.IGNORECASE,
)


def _replace(passages: Sequence[str], words: str) -> dict[str, str]:
    del words
    return {"anchor": passages[0], "replacement": passages[1]}


def _insert(passages: Sequence[str], words: str) -> dict[str, str]:
    new, at = passages
    is_before = any(before in words.lower() for before in ("before", "in front of"))
    return {"anchor": at, "replacement": f"{new} {at}" if is_before else f"{at} {new}"}


def _insert_zh(passages: Sequence[str], words: str) -> dict[str, str]:
    at, new = passages
    return {"anchor": at, "replacement": f"{new}{at}" if "前" in words else f"{at}{new}"}


def _remove(passages: Sequence[str], words: str) -> dict[str, str]:
    del words
    return {"anchor": passages[0], "replacement": ""}


_FORMS: Mapping[str, Callable[[Sequence[str], str], dict[str, str]]] = {
    rf"\b(?:replace|change|exchange|correct|swap){_THE}{_P} (?:by|with|to|into|for){_THE}{_P}": _replace,
    rf"[把将將]{_IT_ZH}{_P}{_IT_ZH}\s*{_TO_ZH}{_P}": _replace,
    rf"\b(?:insert|add|put){_THE}{_P} (?:after|behind|before|in front of){_THE}{_P}": _insert,
    rf"在{_IT_ZH}{_P}{_IT_ZH}[的之]?(?:后面|後面|后|後|前面|前){_INSERT_ZH}{_P}": _insert_zh,
    rf"{_DROP}{_THE}{_P}": _remove,
    rf"{_DROP_ZH}{_IT_ZH}{_P}{_IT_ZH}": _remove,
    rf"[把将將]{_P}{_IT_ZH}{_DROP_ZH}": _remove,
}
"""How an edit is asked for, and the edit that its passages and words make."""


@dataclass(frozen=True, slots=True)
class Edits:
    """What somebody asks for.

    Attributes:
        edits: The edits that are given word by word, as `propose_edits` takes them.
        wish: The words that ask for them.
        rest: The words besides, without those that only join.
    """

    edits: tuple[dict[str, str], ...]
    wish: str
    rest: str


def edits_in(said: str) -> Edits:
    """The edits that somebody asks for."""
    quoted: list[re.Match[str]] = []

    def hold(found: re.Match[str]) -> str:
        quoted.append(found)
        return f"\ue000{len(quoted) - 1}\ue001"

    def shown(words: str) -> str:
        return _HELD.sub(lambda held: quoted[int(held[1])][0], words)

    edits: list[dict[str, str]] = []
    wishes: list[str] = []
    left = _QUOTED.sub(hold, _MARKS.sub("", said))
    for pattern, form in _FORMS.items():
        for found in re.finditer(pattern, left, re.IGNORECASE):
            held = [quoted[int(number)] for number in _HELD.findall(found[0])]
            edits.append(form([str(one[one.lastindex or 0]) for one in held], found[0]))
            wishes.append(shown(found[0]).strip())
        left = re.sub(pattern, ", ", left, flags=re.IGNORECASE)
    return Edits(tuple(edits), "; ".join(wishes), shown(" ".join(_JOINING.sub(" ", left).split())))
