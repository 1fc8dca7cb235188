"""The fixed phrases of the offline model in English and Chinese. Everything else that it writes is quoted."""

from collections.abc import Mapping

from artifactflow_nb.core.text.chinese import is_chinese

_UNUSED, _UNUSED_ZH = "no language model was used", "没有使用语言模型"
UNUSED = (_UNUSED, _UNUSED_ZH)
"""The remark in every block that the model has written."""

_ENGLISH = {
    # Research and plans. The steps of a plan are separated by `|`.
    "planning": "I plan the work and have the sources searched.",
    "reading": "I have the sources read that look relevant.",
    "writing": "I write the report.",
    "plan": "Plan: {question}",
    "steps": "Search the sources|Read what looks relevant|Write the report",
    "findings": "Findings",
    "sources": "Sources",
    "searched": "Searched were: {titles}.",
    "between_titles": "; ",
    "searched_none": "No source had words of the question in common with it.",
    "absent": "On this question the sources do not say anything that could be quoted.",
    "not_read": "The sources could not be read, so there is no answer.",
    "problem": "Not everything worked: {problem}",
    "report_failed": "The report was not written: {error}",
    "find_out": "Find out: {question}",
    "to_search": "List the addresses where the answer stands.",
    "to_read": "Quote the sentences that answer the question, with their addresses.",
    "to_find_out": "Search the sources and quote the sentences that answer the question, with their addresses.",
    "to_write": "Write what was quoted into the artifact {report}, each sentence with its source.",
    "written": "The report is written: {report}.",
    "in_report": "All of it is in the artifact `{report}`.",
    "nothing": "There is nothing to write down: no step has found anything.",
    "no_tool": "The step needs web_search, web_fetch or an artifact tool, and has none of them.",
    "no_address": "No step before has found an address to read.",
    "denied": "Another attempt would be denied as well.",
    "undone": "Not done: {step}",
    "refused": "The plan was not carried out: {error}",
    "retry": "What failed may work when it is tried again.",
    "continue_plan": "The steps that are left do not need this one.",
    "no_material": "The steps that are left have nothing to work on.",
    "no_step": "No step is left.",
    "courtesy": "Ask a question that the sources may answer: they are searched and read, and what they say is quoted.",
    "needs_model": "This cannot be done without a language model. To use one, set OPENAI_BASE_URL, OPENAI_API_KEY and "
    "AF_MODEL.",
    "offline": "No language model was used (offline extractive mode): all that is said above on the subject is quoted "
    "verbatim from the sources. To use a language model, set OPENAI_BASE_URL, OPENAI_API_KEY and AF_MODEL.",
    # Blocks. Remarks are set in italics, so that they are not read as part of the document.
    "quoted": f"quoted verbatim; {_UNUSED}",
    "quoted_read": f"quoted verbatim from what was read for it; {_UNUSED}",
    "quoted_from": f"quoted from {{blocks}}; {_UNUSED}",
    "between_names": ", ",
    "name": "“{name}”",
    "no_quotes": f"There is nothing on this that could be quoted, and {_UNUSED}.",
    "no_quotes_below": f"What this block rests on has no sentence that could be quoted, and {_UNUSED}.",
    "unfollowed": "Not done: “{style}”. Without a language model sentences are quoted as they stand; only the length "
    "can be chosen.",
    # The editor.
    "edited": "Done as it was asked for, to the letter.",
    "edit_failed": "The edit was not made: {error}",
    "not_edited": "Not done without a language model: “{rest}”",
    "edits": "Without a language model I replace, remove or insert passages that are given in quotation marks: "
    "replace 'this' by 'that', remove 'this', insert 'this' after 'that'. To use one, set OPENAI_BASE_URL, "
    "OPENAI_API_KEY and AF_MODEL.",
    # The composer.
    "failed": "That did not work: {error}",
    "project": "The project “{project}” is in the phase “{phase}”.",
    "no_blocks": "There are no blocks yet.",
    "none_open": "No block is empty or stale.",
    "offline_note": "No language model is used (offline mode).",
    "abilities": "No language model is used (offline mode), so I understand plain requests only, one at a time:\n\n"
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
    "planning": "我先制定计划，并请人检索资料。",
    "reading": "我请人阅读看来相关的资料。",
    "writing": "我来撰写报告。",
    "plan": "计划：{question}",
    "steps": "检索资料|阅读相关内容|撰写报告",
    "findings": "结果",
    "sources": "来源",
    "searched": "检索到的资料有：{titles}。",
    "between_titles": "；",
    "searched_none": "没有一份资料含有问题中的词语。",
    "absent": "对于这个问题，资料中没有可以引用的说明。",
    "not_read": "资料无法读取，因此没有答案。",
    "problem": "有的步骤没有成功：{problem}",
    "report_failed": "报告没有写成：{error}",
    "find_out": "查明：{question}",
    "to_search": "列出答案所在的地址。",
    "to_read": "摘录回答问题的句子，并注明地址。",
    "to_find_out": "检索资料，摘录回答问题的句子，并注明地址。",
    "to_write": "把摘录的句子连同来源写入 {report}。",
    "written": "报告已写成：{report}。",
    "in_report": "全部内容见 `{report}`。",
    "nothing": "没有可写的内容：前面的步骤什么也没有找到。",
    "no_tool": "这一步需要 web_search、web_fetch 或写报告的工具，但一个也没有。",
    "no_address": "前面的步骤没有找到可读的地址。",
    "denied": "再试一次也会被拒绝。",
    "undone": "没有完成：{step}",
    "refused": "计划没有执行：{error}",
    "retry": "失败的步骤再试一次也许能成功。",
    "continue_plan": "剩下的步骤不依赖这一步。",
    "no_material": "剩下的步骤没有可用的内容。",
    "no_step": "没有剩下的步骤。",
    "courtesy": "请提一个资料可能回答的问题：我会检索、阅读资料，并逐字引用其中的说明。",
    "needs_model": "没有语言模型，这件事做不到。要使用语言模型，请设置 OPENAI_BASE_URL、OPENAI_API_KEY 和 AF_MODEL。",
    "offline": "没有使用语言模型（离线摘录模式）：以上与主题有关的内容均逐字引自资料。要使用语言模型，"
    "请设置 OPENAI_BASE_URL、OPENAI_API_KEY 和 AF_MODEL。",
    "quoted": f"逐字引用；{_UNUSED_ZH}",
    "quoted_read": f"逐字引自为此读过的资料；{_UNUSED_ZH}",
    "quoted_from": f"引自{{blocks}}；{_UNUSED_ZH}",
    "between_names": "、",
    "name": "“{name}”",
    "no_quotes": f"对此没有可以引用的内容；{_UNUSED_ZH}。",
    "no_quotes_below": f"这一块所依据的内容中没有可以引用的句子；{_UNUSED_ZH}。",
    "unfollowed": "没有做到：“{style}”。没有语言模型时句子按原文引用，只能选择长短。",
    "edited": "已逐字照办。",
    "edit_failed": "没有修改：{error}",
    "not_edited": "没有语言模型，未能做到：“{rest}”",
    "edits": "没有语言模型时，我只能替换、删除或插入引号中的文字：把“甲”改成“乙”，删除“甲”，在“乙”后面插入“甲”。"
    "要使用语言模型，请设置 OPENAI_BASE_URL、OPENAI_API_KEY 和 AF_MODEL。",
    "failed": "没有成功：{error}",
    "project": "项目“{project}”处于“{phase}”阶段。",
    "no_blocks": "还没有任何块。",
    "none_open": "没有空白或过时的块。",
    "offline_note": "没有使用语言模型（离线模式）。",
    "abilities": "没有使用语言模型（离线模式），所以我只听得懂简单的要求，一次一个：\n\n"
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
PHRASES: Mapping[str, Mapping[str, str]] = {"en": _ENGLISH, "zh": _CHINESE}
"""The phrases by language and name."""


def phrases_for(text: str) -> Mapping[str, str]:
    """Return the phrases in the language of a text."""
    return PHRASES["zh" if is_chinese(text) else "en"]


def plan_steps(phrases: Mapping[str, str]) -> list[str]:
    """Return the titles of the usual steps: search, read, write."""
    return phrases["steps"].split("|")
