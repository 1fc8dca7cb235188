"""Questions about those for whom a document is written, and the sentences that may answer them."""

import re
from collections.abc import Iterable

from artifactflow_nb.models.offline_parts import parts_of
from artifactflow_nb.text.citations import Quotes

CONSUMER, GENERAL = "consumer", "general"
"""The kinds of research: on those for whom a document is written, and on everything else."""

_ENDS = " .!?。！？"
_WHO = "(?:audience|readership|readers?|users?|customers?|consumers?|buyers?|target group)"
_AUDIENCE = re.compile(
    rf"^(?:(?:the|our|my|its|your|a|an|intended|target|typical) )*{_WHO}"
    r"(?:,? (?:of|for|who|and|that|they|need|know|want|expect|doubt|say|ask|are)\b.*)?$"
    rf"|\bwhat (?:do |does )?(?:(?:the|our|my|its) )?{_WHO} (?:needs?|knows?|wants?|expects?|doubts?|says?|asks?)\b"
    r"|\bwho (?:(?:will|would|might|does|do|should) )?(?:reads?|uses?|buys?)\b"
    r"|\bwho (?:is (?:it|this)|it is|this is) for\b"
    r"|受众|受眾|读者|讀者|用户|用戶|目标人群|目標人群|消费者|消費者|顾客|顧客|[谁誰](?:会|會|来|來|要)?(?:读|讀|看|用|买|買)",
    re.IGNORECASE,
)
_PEOPLE = re.compile(
    rf"\b(?:{_WHO}|people|persons?|programmers?|developers?|engineers?|authors?|writers?|students?|learners?|beginners?"
    r"|teachers?|experts?|scientists?|researchers?|staff|teams?|members?|colleagues?|visitors?|children|parents|public"
    r"|anyone|everyone|who|whoever)\b"
    r"|受众|受眾|读者|讀者|用户|用戶|人员|人員|人们|人們|人群|学生|學生|学者|學者|程序员|程式員|开发者|開發者|工程师|工程師|作者|老师|老師|教师|教師|专家|專家"
    r"|同事|成员|成員|员工|員工|顾客|顧客|客户|客戶|消费者|消費者|公众|公眾|孩子|家长|家長",
    re.IGNORECASE,
)


def kind_of(query: str) -> str:
    """The kind of research that answers a query."""
    return CONSUMER if _AUDIENCE.search(query.strip(_ENDS)) else GENERAL


def answering(question: str, quotes: Iterable[Quotes]) -> list[Quotes]:
    """The quotes that may answer a question: one about readers only by sentences that speak of people."""
    if any(kind_of(part) == GENERAL for part in parts_of(question)):
        return list(quotes)
    kept = (
        Quotes(one.title, one.address, tuple(said for said in one.sentences if _PEOPLE.search(said))) for one in quotes
    )
    return [one for one in kept if one.sentences]
