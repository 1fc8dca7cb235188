"""`Texts`: the texts of the interface in the language of the setting `language`.

The tables in this folder have the texts, one table for each part of the interface, as pairs in English and Chinese.
A view takes all its texts from one `Texts`, so that it is in one language; the page gets those of its scripts as data.
Texts of persons and models are displayed as they are.
"""

import re
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Literal

from artifactflow_nb.core.language.chat import CHAT_TEXTS
from artifactflow_nb.core.language.page import PAGE_TEXTS
from artifactflow_nb.core.language.panels import ARTIFACT_TEXTS, BOARD_TEXTS, CHART_TEXTS
from artifactflow_nb.core.language.run import NAMES, REQUEST_TEXTS, RUN_TEXTS
from artifactflow_nb.core.text.format import capitalized, count, duration

ERROR_TEXTS = {
    # blocks
    r"There is already a block '(.+)' (?:in|at) .*": r"这里已有名为“\1”的内容块，请换一个名称或位置。",
    r"'(.+)' cannot be moved into itself\.": r"不能把“\1”移到它自己里面。",
    r"'(.+)' cannot depend on itself, or on a group that contains it\. .*": r"“\1”不能依赖自己或其所在的分组。",
    r"Blocks would depend on themselves: .*": "这样会使内容块相互循环依赖。",
    r"There is no block with the id .*": "该内容块已不存在。",
    r"'.+' cannot be placed before '.+', which is in another group or phase\.": "该位置已有变动，请重试。",
    r"There is nothing to write in '(.+)': .*": r"“\1”中没有需要撰写的内容。",
    r"The artifact '.+' is now at version (\d+), not \d+: .*": r"内容刚被修改（现为第 \1 版）。请先查看，再重新修改。",
    r"The title is empty\. .*": "标题不能为空。",
    # questions and answers
    r"This answer names no source\.": "此回答没有注明来源。",
    r"In its last turn, in which .* called (.+)\. That was not run\.": r"模型最后一轮本应回答，却调用了 \1，未执行。",
    r"The question is empty\. .*": "问题不能为空。",
    r"The command (/\w+) has nothing to do now\.": r"\1 现在没有可执行的操作。",
    r"There is no command (/\S+)\. Known: (.*)\.": r"没有命令 \1。可用：\2。",
    r"The request \S+ was decided elsewhere, or its run has ended\. .*": "该请求已在别处决定，或任务已结束。",
    r"The question \S+ was deleted meanwhile\. .*": "该问题已被删除，请另选一个。",
    # requests
    r"The request '.+' was decided already: .*": "该请求已有决定，决定不变。",
    r"The request '.+' belongs to a run that has ended: .*": "提出该请求的任务已经结束。",
    r"Say what the agent should do instead\.": "请写明希望改为怎样做。",
    r"Say what you answer\.": "请填写您的答复。",
    # fields
    r"It needs a value\.": "此项不能为空。",
    r"There is no value(?: at .+)?\.": "此项不能为空。",
    r"'' does not fit: string should have at least 1 character\.": "此项不能为空。",
    r"\[\] does not fit: list should have at least 1 item .*": "至少需要一项。",
    r".* does not fit: list should have at most (\d+) items .*": r"最多 \1 项。",
    r"(.+) is not a whole number such as 12\.": r"\1 不是整数（例如 12）。",
    r"(.+) is not a number such as 0\.5\.": r"\1 不是数字（例如 0.5）。",
    r"This is not JSON.*": "不是有效的 JSON。",
    r"There is no tool '(.+)' for steps; .*": r"步骤不能使用工具“\1”。",
}

ENDPOINT_TEXTS = {
    r"^(\S+) answered with status (\d+):? ?": r"\1 返回状态码 \2。",
    r"^(\S+) reported an error in its stream: ?": r"\1 在回复中报告了错误：",
    r"^(\S+) sent something that is not part of a chat completion: ?": r"\1 返回的不是聊天回复：",
    r"^(\S+) sent no data for (\S+) s in the middle of its reply\.": r"\1 在回复中途有 \2 秒没有发送数据。",
    r"^(\S+) sent nothing for (\S+) s\.": r"\1 在 \2 秒内没有任何回复。",
    r"^(\S+) refused the connection\. Is the server running on (\S+)\?": r"\1 拒绝连接。服务器 \2 是否在运行？",
    r"^(\S+) broke off: its stream ended without a finish reason\.": r"\1 的回复中断：缺少结束标记。",
    r"^(\S+) sent no answer: its stream ended at once\.": r"\1 没有给出回复。",
    r"^The host (\S+) was not found\. .*": r"找不到主机 \1。请检查 OPENAI_BASE_URL 和网络。",
    r"^The (?:secure )?connection to (\S+) failed: ?": r"与 \1 的连接失败：",
    r" ?\b(AF_\w+) sets how long to wait\.$": r"等待时间由 \1 设定。",
    r" ?Check the model's name .*$": "请检查模型名称（AF_MODEL）和地址（OPENAI_BASE_URL，通常以 /v1 结尾）。",
    r" ?Check the base URL .*$": "请检查地址（OPENAI_BASE_URL，通常以 /v1 结尾）。",
    r" ?The prompt is too long for this endpoint\.$": "提示词超出了该服务的长度限制。",
    r" ?The endpoint limits the number of requests or tokens\. .*$": "该服务限制请求数或 token 数，请稍候或检查配额。",
    r" ?No key was sent: set OPENAI_API_KEY.*$": "没有发送密钥：请设置 OPENAI_API_KEY。",
    r" ?Check (?:the permissions of )?(?:OPENAI_API_KEY|the key that was passed as api_key)\.$": "请检查密钥及其权限。",
    r" ?If it does not support native tool calls, .*$": "若不支持原生工具调用，请设置 AF_TOOL_PROTOCOL=xml。",
}
"""Parts of the messages of endpoints; text by the endpoint itself is not translated."""

OTHER_ERRORS = {
    "FormError": "此项填写有误。",
    "Conflict": "内容刚被修改，请查看后重试。",
    "NotFound": "该内容已不存在。",
    "ArtifactFlowError": "操作未能完成，请重试。",
}
"""By the class of an error without a translation of its own."""


TABLES = (CHAT_TEXTS, BOARD_TEXTS, ARTIFACT_TEXTS, REQUEST_TEXTS, RUN_TEXTS, PAGE_TEXTS, CHART_TEXTS, NAMES)
"""All texts by key, in the order of `LANGUAGES`. Parts in braces are filled in."""

Language = Literal["en", "zh"]
LANGUAGES: tuple[Language, ...] = ("en", "zh")
"""The languages of the interface: English and Chinese."""

_UNITS = {"ms": "毫秒", "s": "秒", "min": "分", "h": "小时"}
_UNIT = re.compile(r"\b(ms|s|min|h)\b")


class Texts:
    """The interface texts in one language."""

    def __init__(self, language: Language) -> None:
        self.language = language
        self._index = LANGUAGES.index(language)
        self._texts = {key: pair[self._index] for table in TABLES for key, pair in table.items()}

    def __call__(self, key: str, **parts: object) -> str:
        """Return a text with its placeholders filled in; it is not escaped."""
        text = self._texts.get(key)
        if text is None:
            raise KeyError(f"There is no text {key!r}: a table in core/language must have it in English and Chinese.")
        return text.format(**parts) if parts else text

    def count(self, number: int, key: str) -> str:
        """Format a number with a noun: `2 blocks`, `2 个内容块`."""
        noun = self._texts[key]
        return count(number, noun) if self.language == "en" else f"{number:,} {noun}"

    def listed(self, names: Iterable[str]) -> str:
        """Join names to a list: `Gauges, Satellites`, `验潮站、卫星`."""
        return (", " if self.language == "en" else "、").join(names)

    def duration(self, ms: float) -> str:
        """Format a duration: `12.3 s`, `12.3 秒`."""
        return self.time(duration(ms))

    def time(self, text: str) -> str:
        """Translate a formatted duration to this language."""
        return text if self.language == "en" else _UNIT.sub(lambda unit: _UNITS[unit[0]], text)

    def status(self, status: str) -> str:
        """Return a status as a label, with a capital letter."""
        return capitalized(self._texts[f"state_{status}"])

    def difference(self, key: str, n: int) -> str:
        """Return the words of a difference; see `core.text.diff`."""
        noun = {"unchanged": "n_unchanged_lines", "further": "n_further_lines"}.get(key, "n_lines")
        return self(f"diff_{key}", lines=self.count(n, noun))

    def tool(self, name: str) -> str:
        """Return the display name of a tool; a user's own tool is displayed by its name as words."""
        return self._texts.get(f"tool_{name}") or name.replace("_", " ")

    def parameter(self, name: str) -> str:
        """Return the label of a parameter; a parameter of a user's own tool is displayed by its name as words."""
        return self._texts.get(f"param_{name}") or name.replace("_", " ")

    def agent(self, name: str) -> str:
        """Return the display name of an agent, or of the person; a user's own agent keeps its name, as words."""
        return self._texts.get(f"agent_{name}") or name.replace("_", " ")

    def error(self, message: str, kind: str) -> str:
        """Translate an error message; without a translation, return the message for its kind."""
        if self.language == "en" or message.endswith("。"):  # a view wrote it in Chinese
            return message
        known = self.notice(message)
        return known if known != message else OTHER_ERRORS.get(kind, OTHER_ERRORS["ArtifactFlowError"])

    def notice(self, message: str) -> str:
        """Translate an English sentence; without a translation, return it unchanged."""
        for pattern, translation in ERROR_TEXTS.items() if self.language != "en" else ():
            if match := re.fullmatch(pattern, message):
                return match.expand(translation)
        for pattern, translation in ENDPOINT_TEXTS.items() if self.language != "en" else ():
            message = re.sub(pattern, translation, message)
        return message

    @property
    def page(self) -> Mapping[str, str]:
        """Return the texts that the scripts of a page use."""
        return {key: self._texts[key] for key in PAGE_TEXTS}


@cache
def texts_in(language: Language) -> Texts:
    """Return the texts in a language."""
    return Texts(language)


ENGLISH = texts_in("en")
