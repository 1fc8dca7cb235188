"""Errors that a reader can cause, in Chinese, by pattern of their English message.

Their English messages come from rooms that know no language of the interface.
"""

ERROR_TEXTS = {
    # blocks
    r"There is already a block '(.+)' (?:in|at) .*": r"这里已有名为“\1”的内容块，请换一个名称或位置。",
    r"'(.+)' cannot be moved into itself\.": r"不能把“\1”移到它自己里面。",
    r"'(.+)' cannot depend on itself, or on a group that it is in\. .*": r"“\1”不能依赖自己或其所在的分组。",
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
    r"There is nothing for (/\w+) to do now\.": r"\1 现在没有可执行的操作。",
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

OTHER_ERRORS = {
    "FormError": "此项填写有误。",
    "Conflict": "内容刚被修改，请查看后重试。",
    "NotFound": "该内容已不存在。",
    "ArtifactFlowError": "操作未能完成，请重试。",
}
"""By the class of an error without a translation of its own."""
