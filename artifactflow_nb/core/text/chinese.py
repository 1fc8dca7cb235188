"""Chinese text without a dictionary: keyword extraction for search, stop words and language detection.

Runs of characters in a question are split at function words; the rest is searched as character bigrams. Simplified and
traditional characters are distinct: nothing is converted.
"""

import re

# Kana, Hangul, and Han characters with their repetition marks and the zero used in years.
CJK = "\u3005-\u3007\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff\U00020000-\U000323af"
UNSPACED = rf"{CJK}\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff"  # `CJK` with Thai, Lao, Burmese and Khmer
CJK_RUN = re.compile(rf"[{CJK}]+")
LINE_WRAP = re.compile(rf"(?<=[{CJK}])[ \t]*\n[ \t]*(?=[{CJK}])")  # a wrapped line of a text without spaces

_HAN = re.compile("[\u3400-\u4dbf\u4e00-\u9fff\U00020000-\U000323af]")
# Frequent characters that exist in only one of the two scripts.
_TRADITIONAL = frozenset(
    "們個這會國學時說對開關來後發過還點為麼實應機沒當與條數書長東門問間電話車號單"
    "驗裡員請將須備報據維護險費購資術體總種級辦網務組誰"
)
_SIMPLIFIED = frozenset(
    "们个这会国学时说对开关来后发过还点为么实应机没当与条数书长东门问间电话车号单"
    "验里员请将须备报据维护险费购资术体总种级办网务组谁"
)
_KANA_OR_HANGUL = re.compile("[\u3040-\u30ff\uac00-\ud7af]")

# Content words that contain the character of a function word; no content word is split.
_CONTENT_WORDS = """
会议 会员 会计 会话 会场 会签 机会 社会 协会 大会 开会 委员会 會議 會員 會計 會話 會場 機會 社會 協會 大會 開會 委員會
能力 能源 能量 能耗 功能 性能 智能 可能 节能 技能 职能 效能 節能 職能
要求 重要 主要 必要 摘要 概要 纪要 要点 紀要 要點
使用 用户 用戶 用品 用途 用量 用电 用水 用餐 用车 用法 用人 费用 应用 作用 信用 专用 通用 公用 备用 引用 调用 启用
禁用 停用 采用 试用 租用 利用 适用 占用 聘用 录用 費用 應用 專用 備用 調用 啟用 採用 試用 適用 佔用
錄用
有效 有限 有害 有毒 有机 有關 有关 有機 所有 私有 国有 拥有 持有 享有 含有 擁有
没收 沒收 不同 不足 不良 不锈钢 不鏽鋼 不合格 不动产 不間斷 不间断
多数 多數 多媒体 多媒體 许多 許多 最多 多次
时间 小时 时长 时效 时钟 时区 时限 时刻 时段 时期 及时 实时 定时 计时 临时 延时 超时 准时 按时 工时 同时 加时 时速
時間 小時 時長 時效 時鐘 時區 時限 時刻 時段 時期 及時 即時 定時 計時 臨時 超時 準時 按時 工時 同時
到期 到达 到货 到场 到岗 收到 迟到 达到 报到 签到 到達 到貨 到場 遲到 達到 報到 簽到
对象 对比 对账 对照 对称 对齐 对接 校对 核对 针对 绝对 相对 反对 對象 對比 對帳 對照 對稱 核對 校對 針對 絕對 相對
服从 从属 服從 在线 在职 在岗 在校 存在 现在 在線 在職 現在
和平 和解 和谐 总和 饱和 中和 總和 飽和 参与 与会 參與 與會 及格 普及 涉及 都市 首都 成都
就业 就餐 就诊 就绪 就医 成就 就業 就診 就緒 就醫 归还 退还 偿还 还款 歸還 退還 償還 還款
被子 被告 把手 把握 转让 轉讓 供给 给付 补给 供給 給付 補給 了解 目的
请求 请假 请示 请款 申请 邀请 聘请 請求 請假 請示 請款 申請 邀請 聘請 几何 幾何 酒吧
"""
_STOP = (
    "为什么|為什麼|为何|為何|是什么|是什麼|什么|什麼|怎么样|怎麼樣|怎么办|怎麼辦|怎么|怎麼|怎样|怎樣|如何|多少钱|多少錢|多少[个個次位种種项項张張份台间間件条條名家]?"
    "|多久|多长|多長|多大|多高|多远|多遠|哪里|哪裡|哪裏|哪儿|哪些|哪个|哪個|哪一[个個]?|哪|何时|何時|何处|何處"
    "|有没有|有沒有|能不能|会不会|會不會|是不是|要不要|可不可以|是否|能否|可否|可以|应该|應該|应当|應當|需要|请问|請問|告诉|告訴"
    "|时候|時候|之后|之後|之前|以后|以後|以前|之内|之內|以内|以內|因为|因為|所以|如果|但是|或者|以及|还是|還是|关于|關於"
    "|我们|我們|你们|你們|他们|他們|它们|它們|这个|這個|那个|那個|这些|這些|那些|一个|一個|一下|第[几幾]"
    "|[几幾](?:[个個次位种種项項张張份台间間件条條名家]|点|點)?"
    "|[的了吗嗎呢吧啊么麼是在和与與或及也都就还還很被把让讓给給对對从從到会會能要用有没沒不多时時我你他她它这這那请請谁誰之其]"
)
_SPLIT = re.compile(f"(?P<content>{'|'.join(sorted(_CONTENT_WORDS.split(), key=len, reverse=True))})|(?P<stop>{_STOP})")

_ENGLISH_WORD = re.compile(r"[A-Za-z]+")

# English function words that are never the subject of a question; `None` and `not` are missing: both may be a subject.
QUESTION_WORDS = frozenset(
    """
a about an are be been can could did do does for get had has have how i is it its me my of our should than that the
their then there these they this those to was we were what when where which who whom whose why will would you your
""".split()  # noqa: SIM905 - the same
)


def subject_runs(run: str) -> list[str]:
    """Split a run of characters at function words: `请假需要谁批准` gives `请假` and `批准`."""
    pieces, start = [], 0
    for match in _SPLIT.finditer(run):
        if match["stop"]:
            pieces.append(run[start : match.start()])
            start = match.end()
    return [piece for piece in (*pieces, run[start:]) if piece]


def bigrams(piece: str) -> list[str]:
    """Return the character bigrams of a piece, or the piece if it is a single character."""
    return [piece[i : i + 2] for i in range(len(piece) - 1)] or ([piece] if piece else [])


def characters_and_bigrams(run: str) -> list[str]:
    """Return the characters of a run, each followed by the bigram that starts with it."""
    pairs = bigrams(run) if len(run) > 1 else []
    return [term for i, character in enumerate(run) for term in (character, *pairs[i : i + 1])]


def is_chinese(text: str) -> bool:
    """Return whether a question is Chinese, even if it contains names in other scripts.

    The language with more function words decides; on a tie, the language with more text.
    """
    if not _HAN.search(text) or _KANA_OR_HANGUL.search(text):
        return False
    english = _ENGLISH_WORD.findall(text)
    n_english = sum(word.lower() in QUESTION_WORDS for word in english)
    n_chinese = sum(match["stop"] is not None for run in CJK_RUN.findall(text) for match in _SPLIT.finditer(run))
    if n_english != n_chinese:
        return n_chinese > n_english
    return len(_HAN.findall(text)) >= 2 * len(english)  # a Chinese word has about two characters


def language_tag(text: str) -> str:
    """Return the `lang` attribute for a text: `zh`, `zh-Hant` for traditional characters, or an empty string.

    With the attribute, browsers choose the glyphs of characters that several languages share but draw differently, and
    screen readers choose a voice.
    """
    if text.isascii() or not is_chinese(text):
        return ""
    characters = set(text)
    return "zh-Hant" if len(characters & _TRADITIONAL) > len(characters & _SIMPLIFIED) else "zh"
