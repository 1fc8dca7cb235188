"""Chinese: subjects of questions, ends of sentences, and headings."""

import pytest

from artifactflow_nb.core.text.chinese import bigrams, is_chinese, subject_runs
from artifactflow_nb.models.offline.documents import worth
from artifactflow_nb.sources.retrieval.passages import split_blocks, split_passages
from artifactflow_nb.sources.retrieval.scoring import Scorer, WordCounts
from artifactflow_nb.sources.retrieval.sentences import split_sentences
from artifactflow_nb.sources.retrieval.terms import content_words, parse_query, split_terms, word_count


@pytest.mark.parametrize(
    ("run", "subjects"),
    [
        ("请假需要谁批准", ["请假", "批准"]),
        ("申请会议室要多长时间", ["申请会议室", "时间"]),
        ("为什么停用旧接口呢", ["停用旧接口"]),
        ("這個會議室能不能用", ["會議室"]),
        ("茶是什么", ["茶"]),
        ("怎么样", []),
    ],
)
def test_question_is_split_at_function_words(run: str, subjects: list[str]):
    """Question words and particles are not subjects; content words that contain such a character stay whole."""
    assert subject_runs(run) == subjects


@pytest.mark.parametrize(
    ("text", "chinese"),
    [
        ("数据备份", True),
        ("Python 3.8还支持吗？", True),
        ("batch_query一次能查多少个编号？", True),
        ("誰發明了電話？", True),
        ("API返回429", True),
        ("What does 普洱 mean?", False),
        ("What is 数据库备份周期?", False),
        ("会議室の予約はどうしますか", False),
        ("회의실은 어디입니까?", False),
        ("How often?", False),
        ("", False),
    ],
)
def test_language_of_a_question_follows_its_function_words(text: str, chinese: bool):
    """A Chinese question may contain Latin names, an English question may quote Chinese; other scripts are neither."""
    assert is_chinese(text) is chinese


def test_mixed_question_keeps_names_and_numbers():
    """The search terms contain Latin words and numbers, in order."""
    assert content_words("API返回429是什么意思？") == "API 返回 429 意思"
    assert content_words("Python 3.11怎么安装 pip？") == "Python 3.11 安装 pip"
    terms = parse_query("ＡＰＩ返回４２９吗？").terms
    assert {"api", "429", "返回"} <= terms.keys()
    assert parse_query(content_words("API返回429是什么意思？")).terms == parse_query("API返回429是什么意思？").terms


def test_line_break_does_not_divide_a_word():
    """In wrapped text a word across two lines is indexed as a whole; a blank line divides the word."""
    assert "备份" in split_terms("每天备\n份数据")
    assert "备份" not in split_terms("每天备\n\n份数据")


def unknown(question: str, **counts: int) -> float:
    query = parse_query(question)
    return Scorer(query, WordCounts(100, {term: counts.get(term, 0) for term in query.terms})).unknown_share


def test_bigram_across_two_known_words_is_not_missing():
    """If `住宿` and `每晚` are known, `住宿每晚` has no unknown part, and half of `住宿礼包` is unknown."""
    assert unknown("住宿每晚", 住宿=3, 每晚=3) == pytest.approx(0)
    assert 0.4 < unknown("住宿礼包", 住宿=3) < 0.6
    assert unknown("火星礼包") == pytest.approx(1)


def test_word_count_is_similar_to_the_word_count_of_a_translation():
    """Characters and bigrams do not make a Chinese text ten times as long."""
    assert 8 < word_count(split_terms("每台服务器的数据每天凌晨备份一次。")) < 11
    assert word_count(split_terms("every server is saved at night")) == 6


@pytest.mark.parametrize(
    ("text", "quotes"),
    [
        ("今天全体放假。明天正常上班！后天呢还要开会吗？", ["今天全体放假。", "明天正常上班！", "后天呢还要开会吗？"]),
        ("“明天不用上班。”经理这样告诉大家。", ["“明天不用上班。”", "经理这样告诉大家。"]),
        ('他说:"明天放假。"大家都很高兴。', ['他说:"明天放假。"', "大家都很高兴。"]),
        ("他想了很久……最后还是同意了。", ["他想了很久……", "最后还是同意了。"]),
        ("苹果、香蕉……，都可以带进来。", ["苹果、香蕉……，都可以带进来。"]),
        (
            "金额在两千元以下的由部门自行购买；金额超过五万元的必须公开进行招标。",
            ["金额在两千元以下的由部门自行购买；", "金额超过五万元的必须公开进行招标。"],
        ),
        ("超出标准的部分由本人承担；其余报销。", ["超出标准的部分由本人承担；其余报销。"]),
        ("1、住宿每晚四百元\n2、伙食每天八十元；", ["住宿每晚四百元", "伙食每天八十元；"]),
        ("- 打车要写明起点\n- 其他", ["打车要写明起点"]),
        ("（一）出差前先填写申请单。", ["出差前先填写申请单。"]),
        ("3、4月份的账单一起寄出。", ["3、4月份的账单一起寄出。"]),
        ("注意：机房里禁止饮食。", ["机房里禁止饮食。"]),
        ("会议室使用须知", []),
        ("最高转速为15000转/分，条件是300×g、5分钟、4 ℃。", ["最高转速为15000转/分，条件是300×g、5分钟、4 ℃。"]),
        ("pip 会自动安装其余的依赖。", ["pip 会自动安装其余的依赖。"]),
    ],
)
def test_sentences_end_at_chinese_punctuation(text: str, quotes: list[str]):
    """Full-width stops, ellipses and long clauses end sentences, with the closing quotation marks."""
    assert [sentence.quote for sentence in split_sentences(text)] == quotes
    assert all(text[sentence.start : sentence.end].strip() == sentence.quote for sentence in split_sentences(text))


def test_numbered_lines_are_headings():
    """`第一章` and `一、` are headings; lines of a numbered list are not."""
    text = "第一章 总则\n本规定适用于全体员工。\n\n一、范围\n凡是出差的都适用。\n\n二、标准\n每晚四百元。\n"
    assert [(b.title, b.level) for b in split_blocks(text) if b.kind == "heading"] == [
        ("第一章 总则", 2),
        ("一、范围", 4),
        ("二、标准", 4),
    ]
    assert split_passages(text)[-1].heading == "第一章 总则 / 二、标准"
    listed = "准备：\n一、身份证\n二、学历证\n三、照片\n\n然后交给前台。\n"
    assert not any(block.kind == "heading" for block in split_blocks(listed))


def test_passage_has_half_as_many_characters():
    """A Chinese passage has half as many characters as an English passage."""
    text = "\n\n".join(["这一段话一共有二十个汉字用来测试长短。" * 5] * 8)
    assert all(p.end - p.start <= 410 for p in split_passages(text))
    assert len(split_passages(text)) == 2


def test_references_rank_lower():
    """`详见` refers to another place."""
    assert worth("详见第三章。", "") < worth("机房有门禁。", "")


def test_bigram_of_one_character_is_the_character():
    """A word of one character is searched as it is."""
    assert bigrams("茶") == ["茶"]
    assert bigrams("普洱茶") == ["普洱", "洱茶"]
