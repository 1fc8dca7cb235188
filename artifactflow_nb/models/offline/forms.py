"""The requests that the offline composer and editor understand, in English and Chinese.

A form matches a whole message, in which only the names vary. An edit request has the passage and its replacement in
quotation marks.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

# --- forms of requests -----------------------------------------------------------------------------------------------

_EMPTY_ZH = "(?:空白|空|未写|未寫|没写|沒寫)?的?"
_BLOCK_ZH = "(?:内容块|內容塊|区块|區塊|块|塊|内容|內容|部分)"
_STALE_ZH = "(?:过时|過時|陈旧|陳舊|过期|過期)"
_WRITE = r"(?:write|generate|draft|compose|rewrite|redraft|regenerate|refresh|fill in|fill)"
_WRITE_ZH = "(?:撰写|撰寫|起草|生成|填写|填寫|重新写|重新寫|重新生成|重写|重寫|更新|写|寫)"
_REMOVE_ZH = "(?:删除|删掉|移除|去掉|刪除|刪掉)"
_ADD = (
    r"(?:add|create|make|insert)(?: an?| another)?(?: new| empty)*"
    r"(?: (?P<kind>block|group|section|chapter|part))?(?: (?P<called>called|named|titled))?"
)
_ADD_ZH = (
    "(?:添加|新增|增加|新建|创建|創建|加入|加)(?:一?[个個])?(?:新的?)?"
    "(?P<kind>内容块|內容塊|区块|區塊|块|塊|分组|分組|组|組|章节|章節|部分)?[，,]?"
    "(?P<called>叫做?|名为|名為|名叫|称为|稱為|：)?"
)
_RENAME_ZH = "(?:改名为|改名為|改名成|重命名为|重命名為|更名为|更名為|改叫)"
_RESEARCH = r"(?:research|investigate|look into|look up|find out|do (?:some |more |the )?research|make inquiries)"
_RESEARCH_ZH = "(?:研究|调研|調研|调查|調查|查明|查清|查一查|查一?下|查找|了解|瞭解|搞清楚|弄清楚|弄清)(?:一下)?"
_KIND = "(?P<kind>block|section|chapter)"
_ABOUT = "(?:(?:about|into|on|for)(?: the question)? )?"
_INTO_ZH = "[，,]?(?:并|並|然后|然後)?(?:写入|寫入|写进|寫進|写到|寫到|放入|放进|放進|放到|存入|存到|填入)"
_GO = r"(?:go|move|advance|proceed|switch|go back|go on|continue)"
_GO_ZH = "(?:进入到?|進入到?|前往|转到|轉到|切换到|切換到|推进到|推進到|回到|来到|來到|到|去)"

_FORMS: Mapping[str, tuple[str, ...]] = {
    "state": (
        r"(?:what(?: is|'s|’s) )?(?:the )?(?:current )?(?:state|status)(?: of (?:the|this) (?:project|document))?",
        r"(?:show|list|tell)(?: me)?(?: all)?(?: the)? (?:state|status|blocks|index|outline)",
        r"where (?:are we|do we stand)|how far are we",
        r"(?:what|which blocks) (?:is|are) (?:empty|stale|missing|open|left)",
        "(?:这个|這個)?(?:项目|項目|文档|文檔)?的?(?:状态|狀態|进度|進度|进展|進展|概况|概況)(?:如何|怎么样|怎麼樣|是什么|是什麼)?",
        f"(?:列出|显示|顯示|看看?|查看)?(?:所有|全部)?的?(?:{_BLOCK_ZH}|状态|狀態|进度|進度)",
        f"(?:还|還)?有哪些{_BLOCK_ZH}|(?:还|還)有哪些没写|(?:到|做到|写到|寫到)哪(?:一步|里|裡|儿)了",
    ),
    "advance": (
        rf"(?:{_GO}(?: to| into| with)?(?: the)? )?next phase|go on|advance",
        rf"{_GO} (?:to|into)(?: the)?(?: phase)? (?P<phase>.+?)(?: phase)?",
        r"enter(?: the)?(?: phase)? (?P<phase>.+?)(?: phase)?",
        f"{_GO_ZH}?下一?[个個]?(?:阶段|階段)",
        f"{_GO_ZH}(?P<phase>.+?)(?:阶段|階段)?",
    ),
    "show": (
        r"(?:show|read|open|print|display)(?: me)?(?: the(?: whole)? text of)? (?P<name>.+)",
        r"what does (?P<name>.+) say",
        "(?:显示|顯示|查看|看看|读|讀|打开|打開)(?P<name>.+)",
        "(?P<name>.+?)(?:里面?|裡面?|中)?(?:写了|寫了|写着|寫著|说了|說了)些?(?:什么|什麼)",
    ),
    "write_open": (
        rf"{_WRITE}(?: all| everything| the rest| the (?:whole )?document| all (?:the )?(?:empty |open )?blocks)",
        rf"{_WRITE} (?:what|everything that) is (?:empty|missing|open|left)",
        f"{_WRITE_ZH}完?(?:全部|所有|其余|其餘|剩下){_EMPTY_ZH}{_BLOCK_ZH}?|{_WRITE_ZH}整[篇个個](?:文档|文檔|文件|文章)?",
    ),
    "write_stale": (
        rf"{_WRITE} (?:(?:what|everything that) is stale|(?:all )?(?:the )?stale blocks?)",
        f"{_WRITE_ZH}(?:全部|所有)?{_STALE_ZH}的?{_BLOCK_ZH}?",
    ),
    "write": (
        rf"{_WRITE}(?: the text (?:of|for))? (?P<name>.+)",
        f"用(?P<style>[^写寫]*?句[话話]?){_WRITE_ZH}(?P<name>.+)",
        f"{_WRITE_ZH}(?P<name>.+)",
    ),
    "research_open": (
        r"do (?:the|all the) research|research (?:everything|all|what(?:ever)? is (?:empty|missing|open|left))",
        f"(?:做|进行|進行|开始|開始|完成)(?:全部|所有)?的?(?:研究|调研|調研)|{_RESEARCH_ZH}(?:全部|所有){_EMPTY_ZH}{_BLOCK_ZH}",
    ),
    "research": (
        rf"(?:for|in|into)(?: the)? {_KIND} (?P<name>.+?)[,:]? {_RESEARCH}:? {_ABOUT}(?P<query>.+)",
        rf"(?:for|in|into) (?P<name>.+?)[,:]? {_RESEARCH}:? {_ABOUT}(?P<query>.+)",
        rf"{_RESEARCH}:? {_ABOUT}(?P<query>.+)",
        rf"do (?:an? |some |the )?(?P<consumer>audience|reader|user|consumer) research(?: {_ABOUT}(?P<query>.+))?",
        f"[为為给給替](?P<kind>{_BLOCK_ZH})?(?P<name>.+?)[，,]?{_RESEARCH_ZH}[：:]?(?P<query>.+)",
        f"{_RESEARCH_ZH}[：:]?(?P<query>.+?){_INTO_ZH}(?P<kind>{_BLOCK_ZH})?(?P<name>.+?)(?:里面?|裡面?|中)?",
        f"{_RESEARCH_ZH}[：:]?(?P<query>.+)",
    ),
    "rename": (
        r"(?:rename|retitle) (?P<name>.+?) (?:to|into|as) (?P<new>.+)",
        f"[把将將](?P<name>.+?){_RENAME_ZH}(?P<new>.+)",
        "重命名(?P<name>.+?)[为為](?P<new>.+)",
    ),
    "remove": (
        r"(?:remove|delete|drop|discard) (?P<name>.+)",
        f"{_REMOVE_ZH}(?P<name>.+)",
        f"[把将將](?P<name>.+?){_REMOVE_ZH}",
    ),
    "add": (
        rf"{_ADD} (?P<name>.+?)(?: (?:to|in|into|under|inside)(?: the)?(?: group| phase)? (?P<parent>.+))?",
        rf"{_ADD} (?P<name>.+)",
        f"{_ADD_ZH}(?P<name>.+)",
        f"(?:在|往|给|給)(?P<parent>.+?)(?:下面?|里面?|裡面?|中)?{_ADD_ZH}(?P<name>.+)",
    ),
}
"""The requests with their forms. If several match, the first one whose names exist is used."""


def match_forms(message: str) -> Iterator[tuple[str, dict[str, str]]]:
    """Yield the requests whose forms match a message, with the names in it."""
    for request, patterns in _FORMS.items():
        for pattern in patterns:
            if match := re.fullmatch(pattern, message, re.IGNORECASE):
                yield request, {name: value.strip() for name, value in match.groupdict().items() if value}


# --- edits word by word ----------------------------------------------------------------------------------------------

_QUOTED = re.compile(
    r"“([^”]*)”|「([^」]*)」|『([^』]*)』|«([^»]*)»|\"([^\"]*)\"|`([^`]*)`"
    r"|(?<!\w)‘(.*?)’(?!\w)|(?<!\w)'(.*?)'(?!\w)",
    re.DOTALL,
)
_PLACEHOLDER = re.compile("\ue000(\\d+)\ue001")
_PLACEHOLDER_MARKS = re.compile("[\ue000\ue001]")
_P = "\\s*\ue000\\d+\ue001"  # placeholder of a quoted passage while the words around it are matched
_THE = r"(?: (?:the|a))?(?: (?:whole )?(?:word|words|sentence|passage|phrase|text|paragraph|line|part))?"
_DROP = r"\b(?:remove|delete|take out|cut out|cut|drop|strike|omit|leave out)"
_DROP_ZH = "(?:删除|删掉|删去|去掉|移除|刪除|刪掉|刪去)"
_IT_ZH = r"\s*(?:这|那|這)?(?:[一个個])?(?:句话|句話|句子|句|段话|段話|段落|段|词语|詞語|词|詞|字|文字)?"
_TO_ZH = "(?:全部)?(?:改成|改为|改為|换成|換成|换为|換為|替换为|替換為|替换成|替換成)"
_INSERT_ZH = "(?:插入|加上|加入|添加|补充|補充)"
_EDIT_FORMS: Mapping[str, tuple[str, str]] = {
    rf"\b(?:replace|change|exchange|correct|swap){_THE}{_P} (?:by|with|to|into|for){_THE}{_P}": ("{0}", "{1}"),
    rf"[把将將]{_IT_ZH}{_P}{_IT_ZH}\s*{_TO_ZH}{_P}": ("{0}", "{1}"),
    rf"\b(?:insert|add|put){_THE}{_P} (?:after|behind){_THE}{_P}": ("{1}", "{1} {0}"),
    rf"\b(?:insert|add|put){_THE}{_P} (?:before|in front of){_THE}{_P}": ("{1}", "{0} {1}"),
    rf"在{_IT_ZH}{_P}{_IT_ZH}[的之]?(?:后面|後面|后|後){_INSERT_ZH}{_P}": ("{0}", "{0}{1}"),
    rf"在{_IT_ZH}{_P}{_IT_ZH}[的之]?(?:前面|前){_INSERT_ZH}{_P}": ("{0}", "{1}{0}"),
    rf"{_DROP}{_THE}{_P}": ("{0}", ""),
    rf"{_DROP_ZH}{_IT_ZH}{_P}{_IT_ZH}": ("{0}", ""),
    rf"[把将將]{_P}{_IT_ZH}{_DROP_ZH}": ("{0}", ""),
}
"""The forms of an edit. Each has templates of the anchor and the replacement; `{0}` is the first quoted passage."""

_JOINING = re.compile(
    r"(?:please|and|then|also|afterwards)(?=\W|$)|[,.;:!?，。；：！？、]+"
    r"|[请請]|(?:然后|然後|以及|并且|並且|并|並)",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class RequestedEdits:
    """The edits of a message.

    Attributes:
        edits: The edits as parameters of `propose_edits`.
        wish: The part of the message that requests them.
        rest: The other words, without conjunctions and punctuation.
    """

    edits: tuple[dict[str, str], ...]
    wish: str
    rest: str


def find_edits(message: str) -> RequestedEdits:
    """Find the edits whose passages a message quotes."""
    quotations: list[re.Match[str]] = []

    def to_placeholder(match: re.Match[str]) -> str:
        quotations.append(match)
        return f"\ue000{len(quotations) - 1}\ue001"

    def restored(text: str) -> str:
        return _PLACEHOLDER.sub(lambda match: quotations[int(match[1])][0], text)

    edits: list[dict[str, str]] = []
    wishes: list[str] = []
    rest = _QUOTED.sub(to_placeholder, _PLACEHOLDER_MARKS.sub("", message))
    for pattern, (anchor, replacement) in _EDIT_FORMS.items():
        for match in re.finditer(pattern, rest, re.IGNORECASE):
            quoted = [quotations[int(number)] for number in _PLACEHOLDER.findall(match[0])]
            passages = [quotation[quotation.lastindex or 0] for quotation in quoted]
            edits.append({"anchor": anchor.format(*passages), "replacement": replacement.format(*passages)})
            wishes.append(restored(match[0]).strip())
        rest = re.sub(pattern, ", ", rest, flags=re.IGNORECASE)
    return RequestedEdits(tuple(edits), "; ".join(wishes), restored(" ".join(_JOINING.sub(" ", rest).split())))
