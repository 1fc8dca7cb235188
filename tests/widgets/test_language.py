"""The language of the interface: complete tables, and boards and cards in one language."""

import re
from collections.abc import Iterator
from html import unescape

import pytest
from conftest import OpenWorkbench
from support.charts import drawn_texts
from support.pages import ShownView
from support.replies import by_agent, call

import artifactflow_nb as af
from artifactflow_nb.core.approvals import ApprovalRequest
from artifactflow_nb.core.language import in_language, tool_label
from artifactflow_nb.core.text.format import translate_count, translate_duration
from artifactflow_nb.errors import UsageError
from artifactflow_nb.flows.plan.tools import plan_create, plan_decide, with_step_tools
from artifactflow_nb.plugins.projects.board import BoardView
from artifactflow_nb.widgets.chat.view import ChatView
from artifactflow_nb.widgets.conversations.view import TreeView
from artifactflow_nb.widgets.home.view import HomeView
from artifactflow_nb.widgets.page.view import View
from artifactflow_nb.widgets.pending import PendingView
from artifactflow_nb.widgets.run.approval_card import approval_card
from artifactflow_nb.widgets.run.parts import TranscriptRequest
from artifactflow_nb.widgets.run.saved import saved_run
from artifactflow_nb.widgets.timeline import TimelineView

HAN = re.compile("[一-鿿]")


def test_unknown_language_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """The message has the setting, its value and the languages; the environment can choose the language."""
    with pytest.raises(UsageError, match=r"language \(AF_LANGUAGE\) is 'de': it must be 'en' or 'zh'"):
        af.Settings.load(language="de")
    assert af.Settings.load().language == "en"
    monkeypatch.setenv("AF_LANGUAGE", "zh")
    assert af.Settings.load().language == "zh"


def visible_words(html: str) -> list[str]:
    """Latin words and Chinese characters that a reader sees or hears: texts, labels and tooltips."""
    html = re.sub(r'<span( class="af-name")? title="\w+">', "<span>", html)  # the name that code uses
    sentence = re.findall(r'(?:aria-label|title|placeholder)="([^"]*)"', html)
    text = unescape(" ".join([re.sub(r"<style>.*?</style>|<!--.*?-->|<[^>]*>", " ", html, flags=re.DOTALL), *sentence]))
    return re.findall(r"[A-Za-z_]{2,}|[一-鿿]", text)


def labels_of(data: object) -> Iterator[str]:
    """The texts that the page shows of the data of forms and cards."""
    shown = {
        "submit",
        "label",
        "doc",
        "placeholder",
        "edit",
        "answer",
        "answerField",
        "note",
        "cancel",
        "subject",
        "title",
    }
    if isinstance(data, dict):
        for key, value in data.items():
            if key in {"choices", "choiceNames"}:
                yield from data.get("choiceNames") or value
            elif isinstance(value, str) and key in shown:
                yield value
            else:
                yield from labels_of(value)
    elif isinstance(data, list):
        for item in data:
            yield from labels_of(item)


def words_of_page(page: ShownView) -> list[str]:
    labels = " ".join(text for data in page.data.values() for text in labels_of(data))
    return visible_words(" ".join(page.html.values())) + visible_words(labels) + visible_words(page.announced)


NAMES = {"en": ("Sea", "Aim", "Report", "Method", "Gauges"), "zh": ("海面", "目的", "报告", "方法", "仪器")}
FILE_KINDS = {"md", "html", "docx", "ipynb", "Markdown", "Word", "UTC", "USD"}


@pytest.mark.parametrize("language", ["en", "zh"])
def test_board_is_in_one_language(workbench: OpenWorkbench, language: str) -> None:
    """Columns, cards, forms, confirmations, versions, differences and the saved board do not mix the languages."""
    name, aim, report, method, gauges = NAMES[language]
    project = workbench(language=language).projects.start(name, template="paper")
    project.add(aim, name, phase="question", need_review=True)
    project.add(report, phase="writing", is_group=True)
    project.add(method, name, parent=report, depends_on=[aim], prompt=name)
    project.add(gauges, parent=report, depends_on=[method], auto_generate=True)
    project[aim].write(method)
    page = ShownView(project._thread, BoardView(project._thread, project.conversation_id))
    ids = {block.name: block.block_id for block in project.tree}
    seen = words_of_page(page)

    def do(act: str, **args: object) -> None:
        result = page.do(act, args)
        sentence = " ".join(result["errors"].values()) or result["message"]
        is_error_of_an_edit = result["failed"] and sentence.startswith("There is ")  # such errors are English
        seen.extend(words_of_page(page) + ([] if is_error_of_an_edit else visible_words(sentence)))

    do("open", block=ids[method])
    do("look", look="changes")
    do("look", look="raw")
    do("edit_ask")
    do("dismiss")
    do("set_ask", block=ids[method])
    do("leave")
    do("delete_ask", block=ids[method])
    do("leave")
    do("step", card=f"card-{ids[method]}", to="up")
    do("step", card=f"card-{ids[method]}", to="left")
    do("keep", block=ids[method], sha256="old")
    do("add_ask", phase="question")
    values = {"name": aim, "where": next(iter(page.data["form-add"]["fields"][1]["choices"])), "kind": "", "text": ""}
    do("add", values=values)
    do("add", values=values | {"name": "/"})
    do("add", values=values | {"where": "?"})
    do("advance_ask")
    do("refresh_ask")
    do("save", form="md")
    do("delete", block=ids[gauges], seen=[[], []])
    do("bring_back", block=ids[gauges])
    saved = page.saved_output()
    seen += visible_words(saved["text/html"]) + visible_words(saved["text/plain"])
    if language == "en":
        assert [word for word in seen if HAN.fullmatch(word) or "_" in word] == []
        assert "Literature" in seen
    else:
        assert {word for word in seen if not HAN.fullmatch(word)} <= FILE_KINDS
        assert "文献" in page.text.replace(" ", "")
        assert 'lang="zh"' in saved["text/html"]


OWN_NAMES = {
    *("scripted", "local", "OpenAI", "OPENAI_API_KEY", "http", "localhost", "Python"),
    *("wb", "run", "ask", "view", "conversation", "to_html", "sources", "add", "folder", "tree", "approve", "pending"),
    *("req", "Shift", "Enter", "stop", "text", "markdown", "report", "run_id"),
}
"""Names of code, keys, models and agents, and the details of spans, which the store has."""


@pytest.mark.usefixtures("figures")
@pytest.mark.parametrize("language", ["en", "zh"])
def test_home_chat_tree_and_timeline_are_in_one_language(workbench: OpenWorkbench, language: str) -> None:
    """Lists, forms, menus, confirmations, comparisons and tables have no word of the other language, live and saved."""
    question, answer = {"en": ("Why?", "Because."), "zh": ("为什么？", "因为。")}[language]
    writing = call("create_artifact", id="report", title=answer, content=answer)
    wb = workbench([answer, answer, writing, answer], language=language, approvals={"create_artifact": "ask"})
    thread, seen = wb._thread, []

    def shown(view: View, *acts: tuple[str, dict[str, object]]) -> None:
        page = ShownView(thread, view)
        seen.extend(words_of_page(page) + visible_words(page.label))
        for act, args in acts:
            result = page.do(act, args)
            message = "" if result["failed"] else result["message"]  # errors are English, but for those of fields
            seen.extend(words_of_page(page) + visible_words(" ".join(result["errors"].values()) or message))
        saved = page.saved_output()["text/html"]
        seen.extend(visible_words(re.sub("<code.*?</code>|<svg.*?</svg>|<img.*?>", "", saved, flags=re.DOTALL)))

    shown(HomeView(thread), ("connect", {}), ("list_models", {"values": {"key_name": "NOT SET"}}))
    shown(ChatView(thread), ("send", {"values": {"text": ""}}), ("send", {"values": {"text": "/stop"}}))
    first = wb.ask(question).wait(10)
    second = wb.conversation(first).regenerate().wait(10)
    wb.ask(question, conversation_id=first.conversation_id).wait(10)
    chosen, message = {"conversation": first.conversation_id}, {"message": first.message_id}
    question_form = {"values": {"text": question}}
    shown(
        ChatView(thread, first.conversation_id),
        *(("edit", {"message": second.message_id}), ("export", {}), ("list", {}), ("send", question_form)),
    )
    shown(PendingView(thread.engine))
    tree = TreeView(thread, first.conversation_id)
    other = {**message, "other": second.message_id}
    compare = (("compare", message), ("compare_with", other), ("compare_end", {}))
    shown(tree, ("read", message), *compare, ("prune_ask", message))
    shown(TreeView(thread), ("rename_ask", chosen), ("delete_ask", chosen), ("activate", message))
    timeline = ShownView(thread, TimelineView(first._client))
    calls = wb.llm_calls_df(first)
    plots = (
        *(af.plots.timeline(calls, wb.tool_calls_df()[:0]), af.plots.latency(calls, wb.tool_calls_df())),
        *(plot(calls) for plot in (af.plots.tokens, af.plots.cost)),
        *(plot(calls[:0]) for plot in (af.plots.timeline, af.plots.latency, af.plots.tokens, af.plots.cost)),
    )
    drawings = [text for plot in plots for text in (*drawn_texts(plot), af.plots.alt_text(plot))]
    seen += visible_words(" ".join([*timeline.html.values(), *drawings]))
    if language == "en":
        assert [word for word in seen if HAN.fullmatch(word)] == []
    else:
        assert {word for word in seen if not HAN.fullmatch(word)} - FILE_KINDS - OWN_NAMES == set()


@pytest.mark.parametrize("language", ["en", "zh"])
def test_plan_card_is_in_one_language(workbench: OpenWorkbench, language: str) -> None:
    """A waiting plan, its form and its finished checklist have no word of the other language, and no name of a tool."""
    title, first, second = {"en": ("Tides", "Find", "Compare"), "zh": ("潮汐", "查找", "比较")}[language]
    steps = [{"title": first, "tools": ["web_search"]}, {"title": second, "description": title}]
    turns = by_agent(
        agent=[call("plan_create", title=title, steps=steps), title], executor=[title, title], summarizer=[title]
    )
    wb = workbench(turns, language=language, interactive=False, graph_config={"approval": {"enabled": True}})
    run = wb.ask(title, flow="plan").wait(10)
    [request] = run.pending
    tool = with_step_tools(plan_create, ("web_search", "web_fetch"))
    with in_language(language):
        card = approval_card(TranscriptRequest.from_stored(request), tool, str)
    seen = visible_words(card.html) + visible_words(" ".join(labels_of(dict(card.data))))
    seen += visible_words(re.sub("<code>.*?</code>", "", saved_run(run._client)["text/html"]))
    run.approve()
    run.wait(10)
    html = saved_run(run._client, with_metrics=False)["text/html"]
    seen += visible_words(
        html[html.index('<details class="af-tool af-job af-plan"') : html.index('<div class="af-answer')]
    )
    if language == "en":
        assert [word for word in seen if HAN.fullmatch(word)] == []
    else:
        assert {word for word in seen if not HAN.fullmatch(word)} <= {"wb", "pending"}
        assert "已完成" in html
    assert "web_search" not in seen


def test_revision_names_its_decision_in_words() -> None:
    """The card of a revision has the decision as a list of sentences, and the tools by their display names."""
    params = {"decision": "revise", "reason": "再查一次。", "steps": [{"title": "查找", "tools": ["web_fetch"]}]}
    request = ApprovalRequest(
        "req-1", "run-1", "plan", "replanner", "plan_decide", params, "replanner wants to carry out a plan: revise",
        "1. x\n\nOf these 12 steps at most 3 can be carried out.", tool_call_id="tc-1",
    )  # fmt: skip
    tool = with_step_tools(plan_decide, ("web_search", "web_fetch"))
    with in_language("zh"):
        card = approval_card(TranscriptRequest.from_stored(request), tool, str)
    assert "以上 12 个步骤中，最多只能执行 3 个。" in card.html
    assert "读取" in card.html
    decision, _reason, steps = card.data["fields"]
    assert decision["choices"] == ["continue", "retry", "revise", "finish"]
    assert decision["choiceNames"] == ["继续下一步", "重试失败的步骤", "修改后续步骤", "就此结束计划"]
    tools = steps["blank"][-1]
    assert (tools["choices"], tools["choiceNames"]) == (["web_search", "web_fetch"], ["搜索", "读取"])
    assert not {word for word in visible_words(card.html) if not HAN.fullmatch(word)}


def test_errors_stay_english(workbench: OpenWorkbench) -> None:
    """The errors of an edit and of an endpoint are the sentences that a search engine knows."""
    project = workbench(language="zh").projects.start("海面", template="paper")
    project.add("目的", phase="question")
    page = ShownView(project._thread, BoardView(project._thread, project.conversation_id))
    page.do("add_ask", {"phase": "question"})
    place = next(iter(page.data["form-add"]["fields"][1]["choices"]))
    result = page.do("add", {"values": {"name": "目的", "where": place, "kind": "", "text": ""}})
    assert result["message"].startswith("There is already a block '目的'")


def test_numbers_and_times_have_words() -> None:
    """Nouns have a plural in English and a counter in Chinese; times have units."""
    assert (translate_count(1, "block"), translate_count(1200, "branch")) == ("1 block", "1,200 branches")
    with in_language("zh"):
        assert translate_count(1200, "block") == "1,200 个内容块"
        assert [translate_duration(ms) for ms in (340, 12_300, 125_000, 11_220_000)] == [
            "340 毫秒", "12.3 秒", "2 分 05 秒", "3 小时 07 分",
        ]  # fmt: skip
        assert tool_label("my_own_tool") == "my own tool"


@pytest.mark.usefixtures("figures")
def test_graph_grades_and_list_of_conversations_are_chinese(workbench: OpenWorkbench) -> None:
    """The outputs for a project and for the store have no English words except names."""
    wb = workbench(language="zh")
    assert "还没有对话。" in repr(wb.conversations())
    project = wb.projects.start("海平面", template="paper")
    project.add("目标", "速度。", phase="question", need_review=True)
    project.add("数据", depends_on=["目标"])
    graph = project.graph()
    assert af.plots.alt_text(graph).endswith("2 个内容块，分 2 列，均在其依赖项右侧。 待撰写：数据。")
    assert "草稿、待审阅" in drawn_texts(graph)
    assert "最近提问" in repr(wb.conversations())
    text = af.plots.alt_text(wb.projects.plot_evaluations(wb.projects.evaluations_df()))
    assert text.endswith("此表中没有评分。可用 project.evaluate() 评分。")
