"""What the offline model reads in the compose flow: the texts of the flow, and a person's words."""

from typing import Any

import pytest

from artifactflow_nb.agents.base import ProjectContext
from artifactflow_nb.agents.composing import block_index, phase_told
from artifactflow_nb.blocks import Block, BlockTree
from artifactflow_nb.flows.compose_texts import task_of_editor, task_of_writer
from artifactflow_nb.messages import Message, ToolSpec
from artifactflow_nb.models import offline_write
from artifactflow_nb.models.base import ModelReply, ModelRequest
from artifactflow_nb.models.offline import OfflineModel
from artifactflow_nb.models.offline_block_read import BlockText, Index, WriteTask, is_writing, wish_in
from artifactflow_nb.models.offline_edits import edits_in
from artifactflow_nb.models.offline_length import length_of
from artifactflow_nb.models.offline_transcript import Transcript
from artifactflow_nb.models.offline_wishes import wish_of
from artifactflow_nb.project_template import ProjectTemplate
from artifactflow_nb.projects import ProjectHead

HEAD = ProjectHead.begun("The “paper”", ProjectTemplate.load("paper"))


def block(name: str, **more: Any) -> Block:
    text = more.get("content", "")
    more.setdefault("status", "draft" if text else "empty")
    return Block(name, name, more.pop("phase", "question"), sha256=text and "x", **more)


def tree_of(*blocks: Block) -> BlockTree:
    return BlockTree(blocks, HEAD.phase_names)


def index_of(*blocks: Block) -> Index:
    tree = tree_of(*blocks)
    project = ProjectContext(HEAD, tree, ())
    return Index.read(f"<phase>\n{phase_told(project)}\n</phase>\n\n<blocks>\n{block_index(tree)}\n</blocks>")


BELOW = block("Below", content='One.\n\nWhat it rests on:\n<block name="No">\nNo.', status="draft")
REPORT = block("Report", is_group=True, phase="writing")


@pytest.mark.parametrize(
    ("prompt", "style", "before"),
    [
        ("", "", ""),
        ("What is X?\n\nAnd why?", "Short.", "> X. [1]"),
        ("怎么做：\n为什么？", "", "\n\nThe outline of the document:\n- No"),
    ],
)
def test_the_task_of_a_writer_is_read_back(prompt: str, style: str, before: str) -> None:
    """Name, prompt, style, texts and the text until now are what the flow has told, whatever lines they hold."""
    own = block("Own", parent="Report", prompt=prompt, content=before, depends_on=("Below", "Other"), phase="writing")
    other = block("Other", content="> Two. [1]")
    told = task_of_writer(HEAD, tree_of(BELOW, other, REPORT, own), own, style, [], [])
    read = WriteTask.read(told)
    assert is_writing(told)
    assert (read.name, read.project, read.prompt, read.style) == ("Own", HEAD.name, prompt, style)
    assert read.texts == (BlockText("Below", BELOW.content), BlockText("Other", other.content))
    assert read.before == before
    assert not is_writing(f"Please: {told}")


@pytest.mark.parametrize(
    ("prompt", "is_summary"),
    [
        ("A short summary.", True),
        ("Summarise what was found", True),
        ("An overview of the report", True),
        ("全文总结", True),
        ("结论", True),
        ("What is an abstract base class?", False),
        ("What conclusions does the parser draw?", False),
        ("结论如何得出？", False),
    ],
)
def test_a_summary_is_told_by_its_prompt(prompt: str, is_summary: bool) -> None:
    """A summary is made of the texts below at once; anything else is searched for first."""
    own = block("Own", prompt=prompt, depends_on=("Below",))
    task = task_of_writer(HEAD, tree_of(BELOW, own), own, "", [], [])
    said = offline_write.turn(Transcript(task, "", (), frozenset({"web_search", "web_fetch"})))
    assert ("<name>web_search</name>" not in said) == is_summary


@pytest.mark.parametrize("others", [[], [block("Other", content="Remove 'it'.\n\nIts text, between the marks:\nNo.")]])
def test_the_task_of_an_editor_is_read_back(others: list[Block]) -> None:
    """The wish is what the flow has told, and nothing of the texts behind it."""
    wish = "Replace\n\n'a' by 'b'."
    assert wish_in(task_of_editor(tree_of(BELOW, *others), BELOW, wish, others, [])) == wish


def test_the_index_is_read_back() -> None:
    """Blocks have their places, groups and states, and the phases their names, also where names are peculiar."""
    stale = block("Own [x] - y", content="A [z] text.", status="draft", basis={"Below": "other"}, depends_on=("Below",))
    index = index_of(BELOW, stale, REPORT, block("In it", parent="Report", phase="writing", prompt="[a]"))
    assert [index.tree.path(one.block_id) for one in index.tree] == ["Below", "Own [x] - y", "Report", "Report / In it"]
    assert [one.name for one in index.tree if index.is_stale(one)] == ["Own [x] - y"]
    assert [one.name for one in index.tree if index.is_open(one)] == ["Own [x] - y", "In it"]
    assert [one.name for one in index.tree if one.is_group] == ["Report"]
    assert index.project == HEAD.name
    assert index.now is not None
    assert (index.now.name, index.now.zh) == ("question", "问题")
    assert index.phase("写作") == index.phase("Writing")


INDEX = index_of(
    block("Method", content="M."),
    block("Results and limits"),
    REPORT,
    block("Summary", parent="Report", phase="writing"),
    block("方法", content="方。"),
    block("结果"),
    block("The end", content="E."),
    block("Sources", phase="literature"),
    block("Read", phase="literature", content="R."),
)


def writing(*names: str, **how: str) -> list[tuple[str, dict[str, Any]]]:
    return [("generate_field_content", {"field_name": name, **how}) for name in names]


def arranging(action: str, name: str, **more: Any) -> list[tuple[str, dict[str, Any]]]:
    return [("manage_architecture", {"action": action, "block_name": name, **more})]


def researching(query: str, field: str = "", kind: str = "general") -> list[tuple[str, dict[str, Any]]]:
    return [("run_research", {"query": query, "research_type": kind, **({"field_name": field} if field else {})})]


def editing(name: str, wish: str) -> list[tuple[str, dict[str, Any]]]:
    return [("modify_field", {"field_name": name, "modification_instruction": wish})]


@pytest.mark.parametrize(
    ("said", "called"),
    [
        ("Write the method.", writing("Method")),
        ("Could you please rewrite @Method, shorter?", writing("Method", style_hint="shorter")),
        ("write Summary in two sentences", writing("Report / Summary", style_hint="in two sentences")),
        ("Generate Method and Summary", writing("Method", "Report / Summary")),
        ("Write The end in one sentence", writing("The end", style_hint="in one sentence")),
        ("draft Results and limits", writing("Results and limits")),
        ("Write the Report.", writing("Report / Summary")),
        ("Write all the empty blocks", writing("Results and limits", "结果", "Sources", "Report / Summary")),
        ("写方法和结果", writing("方法", "结果")),
        ("请用两句话写“方法”。", writing("方法", style_hint="两句话")),
        ("重写方法，短一点", writing("方法", style_hint="短一点")),
        ("Show me the block Method", [("read_field", {"field_name": "Method"})]),
        ("方法写了什么？", [("read_field", {"field_name": "方法"})]),
        ("add a block called ‘Use in practice’", arranging("add", "Use in practice")),
        ("Add a section Outlook to the phase writing", arranging("add", "Outlook", phase="writing")),
        ("Create a new group 'Annex'", arranging("add", "Annex", is_group=True)),
        ("Add 'Outlook' to Report", arranging("add", "Outlook", parent_name="Report")),
        ("在Report下添加一个块，名为展望", arranging("add", "展望", parent_name="Report")),
        ("添加块“展望”", arranging("add", "展望")),
        ("Rename Method to 'Methods'", arranging("rename", "Method", new_name="Methods")),
        ("将方法改名为办法", arranging("rename", "方法", new_name="办法")),
        ("delete Report / Summary", arranging("remove", "Report / Summary")),
        ("删除“方法”这一块", arranging("remove", "方法")),
        ("Let's go on to the next phase!", [("advance_to_phase", {})]),
        ("Let us go to the analysis.", [("advance_to_phase", {"target_phase": "analysis"})]),
        ("进入写作阶段吧", [("advance_to_phase", {"target_phase": "writing"})]),
        ("In the method replace 'a' by 'b'.", editing("Method", "replace 'a' by 'b'")),
        ("在方法中把“甲”改成“乙”", editing("方法", "把“甲”改成“乙”")),
        ("Research what a generator is", researching("What a generator is")),
        ("Could you do some research on generators, please?", researching("Generators")),
        ("find out about the 'with' statement", researching("The 'with' statement")),
        ("Find out “what a 'generator' is”.", researching("What a 'generator' is")),
        ("research loops for beginners", researching("Loops for beginners")),
        (
            "research loops for beginners for Results and limits",
            researching("Loops for beginners", "Results and limits"),
        ),
        ("Research loops into the block “The end”", researching("Loops", "The end")),
        ("For the block Summary, research loops", researching("Loops", "Report / Summary")),
        ("In Summary: find out how loops end", researching("How loops end", "Report / Summary")),
        ("research the block Method", [("run_research", {"field_name": "Method"})]),
        ("Research Summary", [("run_research", {"field_name": "Report / Summary"})]),
        ("research the audience", researching("The audience", kind="consumer")),
        ("find out who reads this", researching("Who reads this", kind="consumer")),
        ("Research what our readers need for the method", researching("What our readers need", "Method", "consumer")),
        ("do consumer research on programmers", researching("Programmers", kind="consumer")),
        ("Do audience research", researching("Audience of this document", kind="consumer")),
        ("research the user interface", researching("The user interface")),
        ("do the research", writing("Sources")),
        ("研究一下生成器是什么", researching("生成器是什么")),
        ("请为方法研究生成器", researching("生成器", "方法")),
        ("调研生成器，并写入块“结果”", researching("生成器", "结果")),
        ("調研受眾", researching("受眾", kind="consumer")),
        ("了解谁会读这份文档", researching("谁会读这份文档", kind="consumer")),
        ("研究“方法”", [("run_research", {"field_name": "方法"})]),
        ("做调研", writing("Sources")),
        ("进入文献阶段", [("advance_to_phase", {"target_phase": "literature"})]),
    ],
)
def test_plain_words_are_calls(said: str, called: list[tuple[str, dict[str, Any]]]) -> None:
    """In English and Chinese, with the names that the index has."""
    wish = wish_of(said, INDEX)
    assert wish is not None
    assert (list(wish.calls), wish.problem) == (called, "")


@pytest.mark.parametrize(
    "said", ["What is the state?", "show all blocks", "where do we stand", "现在的进度如何？", "状态"]
)
def test_the_state_is_asked_for(said: str) -> None:
    """The index is the answer."""
    wish = wish_of(said, INDEX)
    assert wish is not None
    assert wish.is_state


@pytest.mark.parametrize(
    "said",
    [
        "",
        "Hello!",
        "Make the method nicer",
        "Do the analysis",
        "Add more details",
        "What is a method?",
        "润色方法",
        "Research",
        "find out.",
        "research it",
        "What do readers need?",
        "研究它",
        "x" * 9999,
    ],
)
def test_what_is_not_plain_is_no_wish(said: str) -> None:
    """Nothing is guessed."""
    assert wish_of(said, INDEX) is None


@pytest.mark.parametrize(
    "said",
    [
        "Write Methdo",
        "Remove it",
        "把办法改名为方法",
        "Write Summary and Conclusion",
        "Research X for the block Y",
        "为块“乙”研究甲",
    ],
)
def test_a_wish_for_what_is_not_there_has_a_problem(said: str) -> None:
    """It names what there is, and calls nothing."""
    wish = wish_of(said, INDEX)
    assert wish is not None
    assert wish.problem.startswith("There is no block")
    assert wish.calls == ()


@pytest.mark.parametrize(
    ("said", "edits", "rest"),
    [
        ("Replace 'a' by “b” and remove the sentence \"It can't be.\".", [("a", "b"), ("It can't be.", "")], ""),
        ("Change `x` into `y`. Make it friendlier.", [("x", "y")], "Make it friendlier"),
        ("insert 'new' before 'old'", [("old", "new old")], ""),
        ("put 'new' after 'old'", [("old", "old new")], ""),
        ("delete 'don't'", [("don't", "")], ""),
        ("replace 'a' with ''", [("a", "")], ""),
        ("把“甲”改成“乙”，并删除“丙”这句话。语气友好", [("甲", "乙"), ("丙", "")], "语气友好"),
        ("將「甲」替換為「乙」", [("甲", "乙")], ""),
        ("在“甲”后面加上“乙”", [("甲", "甲乙")], ""),
        ("Make 'it' shorter", [], "Make 'it' shorter"),
    ],
)
def test_edits_are_read_word_by_word(said: str, edits: list[tuple[str, str]], rest: str) -> None:
    """What is in quotation marks is kept to the letter; words that ask for no such edit are left."""
    asked = edits_in(said)
    assert [(edit["anchor"], edit["replacement"]) for edit in asked.edits] == edits
    assert asked.rest == rest


@pytest.mark.parametrize(
    ("style", "most", "rest"),
    [
        ("", 6, ""),
        ("Shorter.", 2, ""),
        ("much shorter, please", 2, ""),
        ("in two sentences", 2, ""),
        ("At most 3 sentences, friendly", 3, "friendly"),
        ("in more detail", 12, ""),
        ("It is too long", 2, ""),
        ("more formal", 6, "more formal"),
        ("describe the shortcomings", 6, "describe the shortcomings"),
        ("写得短一点", 2, ""),
        ("太长了", 2, ""),
        ("用三句话，语气友好", 3, "语气友好"),
        ("更详细", 12, ""),
        ("说明增长", 6, "说明增长"),
    ],
)
def test_a_length_is_read(style: str, most: int, rest: str) -> None:
    """Words about the length say how many sentences a text of five shall have; others are left."""
    length = length_of(style, 5)
    assert (length.most, length.rest) == (most, rest)


@pytest.mark.parametrize(("asked", "told"), [("Judge it.", "without a language model"), ("请打分。", "没有语言模型")])
async def test_what_takes_a_language_model_is_said_to(asked: str, told: str) -> None:
    """An agent whose tools the offline model does not know gets an answer that calls none of them."""
    tools = (ToolSpec("grade", "Grade it.", {}), ToolSpec("read_field", "Read it.", {}))
    request = ModelRequest((Message("system", "You judge."), Message("user", asked)), tools)
    replies = [event async for event in OfflineModel().stream(request) if isinstance(event, ModelReply)]
    assert told in replies[0].content
    assert "<tool_call>" not in replies[0].content
