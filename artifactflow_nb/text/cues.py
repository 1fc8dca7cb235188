"""What kind of a sentence it is: one that says something of its subject, or one that points elsewhere.

A sentence that defines or tells what happens reads better as a quote than a cross reference, a line of history or the
middle of an argument; the reader of quotes has nothing but the quotes.
"""

import re

from artifactflow_nb.text.blocks import Block

_ASIDE = re.compile(
    r"(?:see also|related(?: \w+)?|further reading|references?|bibliography|links"
    r"|参见|參見|另见|另見|相关(?:链接|文档|资料)|相關(?:連結|文件|資料)|延伸阅读|延伸閱讀|参考(?:资料|文献)?|參考(?:資料|文獻)?)\W*$",
    re.IGNORECASE,
)
_ELSEWHERE = re.compile(
    r"^(?:see\b|refer to\b|compare with\b|for (?:(?:more|full|further|a|an|the|additional)\b.{0,60}?\b(?:see|refer)\b)"
    r"|more (?:details|information)\b|details (?:of|on|about)\b|\*\*PEP \d+"
    r"|(?:更多|详细|詳細)[^。]{0,12}(?:见|見|参|參)"
    r"|[请請]?(?:参见|參見|参阅|參閱|参照|參照|参考|參考|另见|另見|详见|詳見))"
    r"|\b(?:is|are|be) (?:described|documented|discussed|explained|listed|given|defined) (?:\w+ ){0,2}"
    r"(?:in|below|above|elsewhere|earlier)\b"
    r"|[见見]第?[^，。]{1,10}[章节節条條]。$"
    r"|\brefer to (?:the )?\S+(?: \S+){0,4}\.$|\b(?:see|refer to) (?:section|chapter|the section)\b[^()]*\.$",
    re.IGNORECASE,
)
_HISTORY = re.compile(r"(?:changed|new|added|deprecated|removed) (?:in|since) version\b", re.IGNORECASE)
_POINTER = re.compile(
    r"\b(?:follow(?:s|ing)|below|examples?|here|e\.g|code|like this|this|these)\b|以下|如下|例如", re.IGNORECASE
)
_LEANING = re.compile(
    r"^(?:this|that|these|those|it|they|he|she|such|otherwise|however|therefore|thus|hence|then|but|also|instead"
    r"|in (?:this|that|these|those|the (?:latter|former|first|second)|both|either) \w+|the (?:latter|former)"
    r"|for (?:example|instance)|similarly|likewise|consequently|as a result|note that this|because of this)\b"
    r"|[这這那此该該其它](?!次|外)|[他她它]们|[他她它]們|否则|否則|但是?|然而|不过|不過|因此|所以|于是|於是|然后|然後|同时|同時|另外|此外|例如|比如"
    r"|反之|前者|后者|後者|超出部分|其余|其餘",
    re.IGNORECASE,
)
_FINITE = re.compile(
    r"\b(?:is|are|was|were|be|been|being|has|have|had|do|does|did|can|cannot|could|may|might|must|shall|should|will"
    r"|would|\w{2,}(?:s|ed|n't|n’t))\b"
)
_CONDITION = re.compile(
    r"\b(?:if|when|whenever|unless|otherwise|once|until|after|before|while)\b"
    r"|如果|如有|若|一旦|除非|否则|否則|[时時][，,]|的时候|的時候|[以之][后後前]|出现|出現|发现|發現|[失故]败|失敗",
    re.IGNORECASE,
)
_ASKS_WHAT_HAPPENS = re.compile(
    r"\b(?:when|happens?|behaves?|if|raises?|fails?|case)\b|如果|时候|時候|时会|時會|发生|發生|怎么办|怎麼辦|怎么处理|怎麼處理"
    r"|了(?:以后|之后|以後|之後)?(?:应该|應該|该|該|要)?(?:怎么|怎麼|如何)",
    re.IGNORECASE,
)
_ASKS_HOW_MUCH = re.compile(
    r"\b(?:how (?:much|many|long|often|far|old|tall|big|large|deep|heavy|wide|high|close|late|early|soon|fast)|when"
    r"|what (?:time|date|day|year|temperature|percentage|price|age|size)|which (?:day|year|date|month)|at what|cost)\b"
    r"|多少|[几幾][^乎何]|多[久长長高宽寬大远遠重快满滿]|什么时候|什麼時候|何时|何時|哪一?[天年月日周個个]",
    re.IGNORECASE,
)
_FIGURE = re.compile(
    r"\d|\b(?:one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|fifteen|twenty|thirty|hundred|thousand|once"
    r"|twice|half|daily|weekly|monthly|yearly|hourly|every|(?:mon|tues|wednes|thurs|fri|satur|sun)days?|noon|midnight"
    r"|january|february|april|june|july|august|september|october|november|december)\b|[二两兩三四五六七八九十百千万萬半]|一(?=[个個天年月周週次小分秒名位份间間倍式])",
    re.IGNORECASE,
)
_ELSEWHERE_WORTH, _HISTORY_WORTH, _LEANING_WORTH, _FRAGMENT_WORTH, _ASKING_WORTH = 0.4, 0.5, 0.9, 0.6, 0.5
_POINTER_WORTH, _LEAD_IN_WORTH = 0.3, 0.9
_TELLS_WHAT_HAPPENS, _TELLS_HOW_MUCH = 1.3, 1.2


def worth(quote: str, label: str, question: str) -> float:
    """What a sentence is worth as a quote, 1 for an ordinary one.

    Args:
        quote: The sentence.
        label: The words that stand before it in its paragraph, such as `Changed in version 3.1:`.
        question: What is to be answered.
    """
    factor = 1.0
    if _ELSEWHERE.search(quote):
        factor *= _ELSEWHERE_WORTH
    if _HISTORY.search(label) or _HISTORY.match(quote):
        factor *= _HISTORY_WORTH
    if leans(quote):
        factor *= _LEANING_WORTH
    if quote.isascii() and not _FINITE.search(quote):
        factor *= _FRAGMENT_WORTH
    if quote.endswith(("?", "？")):
        factor *= _ASKING_WORTH
    if quote.endswith((":", "：")):
        factor *= _POINTER_WORTH if _POINTER.search(quote) else _LEAD_IN_WORTH
    if _ASKS_WHAT_HAPPENS.search(question) and _CONDITION.search(quote):
        factor *= _TELLS_WHAT_HAPPENS
    if _ASKS_HOW_MUCH.search(question) and _FIGURE.search(quote):
        factor *= _TELLS_HOW_MUCH
    return factor


def leans(quote: str) -> bool:
    """Whether the sentence points back to the one before it: "It melts at once."."""
    return _LEANING.match(quote) is not None


def asides(text: str, found: list[Block]) -> set[int]:
    """The starts of the blocks that only point elsewhere: what is indented, or listed, below "See also:"."""
    inside: Block | None = None
    starts: set[int] = set()
    for block in found:
        if inside is not None and _leaves(inside, block):
            inside = None
        words = text[block.start : block.end].strip().strip("#*:： ")
        if _ASIDE.fullmatch(words):
            inside = block
        elif inside is not None:
            starts.add(block.start)
    return starts


def _leaves(inside: Block, block: Block) -> bool:
    beside = block.indent == inside.indent and block.kind == "prose"
    return block.kind == "heading" or block.indent < inside.indent or beside
