"""The fixed words of the offline model in the compose flow, by language."""

from collections.abc import Mapping

from artifactflow_nb.text.chinese import is_chinese

_UNUSED, _UNUSED_ZH = "no language model was used", "没有使用语言模型"
UNUSED = (_UNUSED, _UNUSED_ZH)
"""What every text says that the model has written."""

_ENGLISH = {
    # In a block. What is no quote stands in emphasis, so that it is not taken for the document's own words.
    "sources": "Sources",
    "quoted": f"quoted verbatim; {_UNUSED}",
    "quoted_read": f"quoted verbatim from what was read for it; {_UNUSED}",
    "quoted_from": f"quoted from {{blocks}}; {_UNUSED}",
    "between_names": ", ",
    "name": "“{name}”",
    "absent": f"There is nothing on this that could be quoted, and {_UNUSED}.",
    "none_below": f"What this block rests on has no sentence that could be quoted, and {_UNUSED}.",
    "unfollowed": "Not done: “{style}”. Without a language model sentences are quoted as they stand; only the length "
    "can be chosen.",
    # What an editor says.
    "edited": "Done as it was asked for, to the letter.",
    "unedited": "The edit was not made: {error}",
    "left_undone": "Not done without a language model: “{rest}”",
    "cannot_edit": "Without a language model I replace, remove or insert passages that are given in quotation marks: "
    "replace 'this' by 'that', remove 'this', insert 'this' after 'that'. To use one, set OPENAI_BASE_URL, "
    "OPENAI_API_KEY and AF_MODEL.",
    # What a composer says.
    "failed": "That did not work: {error}",
    "project": "The project “{project}” is in the phase “{phase}”.",
    "no_blocks": "There are no blocks yet.",
    "none_open": "No block is empty or stale.",
    "at_work": "No language model is used (offline mode).",
    "can": "No language model is used (offline mode), so I understand plain requests only, one at a time:\n\n"
    "- write “Method”; write “Method” in two sentences; write everything that is empty; rewrite what is stale\n"
    "- show “Method”; what is the state?\n"
    "- add a block “Method”; add a block “Method” to “Report”; add a group “Report”\n"
    "- rename “Method” to “Methods”; remove the block “Method”\n"
    "- in “Method” replace 'this' by 'that'; remove 'this' from “Method”\n"
    "- go on to the next phase\n"
    "- research what a generator is; research what a generator is for the block “Method”; research “Method”\n"
    "- research the audience; do the research\n\n"
    "What is researched and written is quoted from the sources. To use a language model, set OPENAI_BASE_URL, "
    "OPENAI_API_KEY and AF_MODEL.",
}
_CHINESE = {
    "sources": "来源",
    "quoted": f"逐字引用；{_UNUSED_ZH}",
    "quoted_read": f"逐字引自为此读过的资料；{_UNUSED_ZH}",
    "quoted_from": f"引自{{blocks}}；{_UNUSED_ZH}",
    "between_names": "、",
    "name": "“{name}”",
    "absent": f"对此没有可以引用的内容；{_UNUSED_ZH}。",
    "none_below": f"这一块所依据的内容中没有可以引用的句子；{_UNUSED_ZH}。",
    "unfollowed": "没有做到：“{style}”。没有语言模型时句子按原文引用，只能选择长短。",
    "edited": "已逐字照办。",
    "unedited": "没有修改：{error}",
    "left_undone": "没有语言模型，未能做到：“{rest}”",
    "cannot_edit": "没有语言模型时，我只能替换、删除或插入引号中的文字：把“甲”改成“乙”，删除“甲”，在“乙”后面插入“甲”。"
    "要使用语言模型，请设置 OPENAI_BASE_URL、OPENAI_API_KEY 和 AF_MODEL。",
    "failed": "没有成功：{error}",
    "project": "项目“{project}”处于“{phase}”阶段。",
    "no_blocks": "还没有任何块。",
    "none_open": "没有空白或过时的块。",
    "at_work": "没有使用语言模型（离线模式）。",
    "can": "没有使用语言模型（离线模式），所以我只听得懂简单的要求，一次一个：\n\n"
    "- 写“方法”；用两句话写“方法”；写所有空的块；重写过时的块\n"
    "- 显示“方法”；现在的状态\n"
    "- 添加块“方法”；在“报告”下添加块“方法”；添加组“报告”\n"
    "- 把“方法”改名为“办法”；删除块“方法”\n"
    "- 在“方法”中把“甲”改成“乙”；从“方法”中删除“甲”\n"
    "- 进入下一阶段\n"
    "- 研究生成器是什么；为“方法”研究生成器是什么；研究“方法”\n"
    "- 调研受众；做调研\n\n"
    "研究和撰写的内容由资料中逐字引用的句子组成。要使用语言模型，请设置 OPENAI_BASE_URL、OPENAI_API_KEY 和 AF_MODEL。",
}
BLOCK_PHRASES: Mapping[str, Mapping[str, str]] = {"en": _ENGLISH, "zh": _CHINESE}
"""Every fixed word, by language and name."""


def block_words(asked: str) -> Mapping[str, str]:
    """The fixed words in the language of what was asked."""
    return BLOCK_PHRASES["zh" if is_chinese(asked) else "en"]
