"""The values behind compose prompts, and requests of a person in plain words."""

from typing import Any

import pytest

from artifactflow_nb.core.document.project import ProjectInfo, ProjectTemplate
from artifactflow_nb.core.document.tree import Block, BlockTree
from artifactflow_nb.core.messages import Message, ToolSpec
from artifactflow_nb.models.base import ModelContext, ModelReply, ModelRequest
from artifactflow_nb.models.offline.block_texts import BlockText
from artifactflow_nb.models.offline.forms import find_edits
from artifactflow_nb.models.offline.model import OfflineModel
from artifactflow_nb.models.offline.requests import ProjectView, read_request
from artifactflow_nb.models.offline.turn import Turn
from artifactflow_nb.models.offline.write import BlockTask, read_length, write_block

HEAD = ProjectInfo.create("The “paper”", ProjectTemplate.load("paper"))


def block(name: str, **more: Any) -> Block:
    text = more.get("content", "")
    more.setdefault("status", "draft" if text else "empty")
    return Block(name, name, more.pop("phase", "question"), sha256=text and "x", **more)


def tree_of(*blocks: Block) -> BlockTree:
    return BlockTree(blocks, HEAD.phase_names)


def view_of(*blocks: Block) -> ProjectView:
    return ProjectView(HEAD, tree_of(*blocks))


BELOW = block("Below", content='One.\n\nIt is based on:\n<block name="No">\nNo.', status="draft")
REPORT = block("Report", is_group=True, phase="writing")


def test_writing_task_has_block_and_dependencies() -> None:
    """The name, prompt, wished length and texts are those of the project, whatever lines they contain."""
    needs = ("Below", "Other", "Empty", "Gone")
    own = block(
        "Own", parent="Report", prompt="What is X?\n\nAnd why?", content="> X. [1]\n\n> Y. [1]", depends_on=needs
    )
    tree = tree_of(BELOW, block("Other", content="> Two. [1]"), block("Empty"), REPORT, own)
    task = BlockTask.of(HEAD, tree, own, "Shorter, and friendly.")
    assert (task.name, task.project, task.prompt) == ("Own", HEAD.name, own.prompt)
    assert task.texts == [BlockText("Below", BELOW.content), BlockText("Other", "> Two. [1]")]
    assert (task.length.max_sentences, task.length.rest) == (1, "and friendly")


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
def test_summary_is_recognised_by_its_prompt(prompt: str, is_summary: bool) -> None:
    """A summary quotes the dependencies at once; any other block starts with a search."""
    own = block("Own", prompt=prompt, depends_on=("Below",))
    turn = Turn(ModelContext("", ""), frozenset({"web_search", "web_fetch"}))
    reply = write_block(turn, BlockTask.of(HEAD, tree_of(BELOW, own), own, ""))
    assert ([call.name for call in reply.calls] == []) == is_summary


def test_project_view_finds_blocks_and_phases() -> None:
    """Blocks are found by names and paths with words around them, phases by their names in two languages."""
    stale = block("Own [x] - y", content="A text.", status="draft", basis={"Below": "other"}, depends_on=("Below",))
    view = view_of(BELOW, stale, REPORT, block("In it", parent="Report", phase="writing", prompt="[a]"))
    assert view.path("the block “in it”") == "Report / In it"
    assert [entry.name for entry in view.tree if view.is_stale(entry)] == ["Own [x] - y"]
    assert [entry.name for entry in view.tree if view.is_open(entry)] == ["Own [x] - y", "In it"]
    assert view.phase("写作") == view.phase("Writing") == view.phase("writing")
    assert view.phase("nope") is None


def test_block_needs_research_only_without_researched_dependency() -> None:
    """An empty text of a research phase needs research, unless it depends on a text of such a phase."""
    first = block("First", phase="literature", content="Text.")
    view = view_of(first, block("Next", phase="literature", depends_on=("First",)), block("Alone", phase="literature"))
    assert [entry.name for entry in view.tree if view.needs_research(entry)] == ["Alone"]


VIEW = view_of(
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


def writing(*names: str, **options: str) -> list[tuple[str, dict[str, Any]]]:
    return [("generate_field_content", {"field_name": name, **options}) for name in names]


def arranging(action: str, name: str, **more: Any) -> list[tuple[str, dict[str, Any]]]:
    return [("manage_architecture", {"action": action, "block_name": name, **more})]


def researching(query: str, field: str = "", kind: str = "general") -> list[tuple[str, dict[str, Any]]]:
    return [("run_research", {"query": query, "research_type": kind, **({"field_name": field} if field else {})})]


def editing(name: str, wish: str) -> list[tuple[str, dict[str, Any]]]:
    return [("modify_field", {"field_name": name, "modification_instruction": wish})]


@pytest.mark.parametrize(
    ("message", "called"),
    [
        ("Write the method.", writing("Method")),
        ("Could you please rewrite @Method, shorter?", writing("Method", style_hint="shorter")),
        ("write Summary in two sentences", writing("Report / Summary", style_hint="in two sentences")),
        ("Generate Method and Summary", writing("Method", "Report / Summary")),
        ("Write The end in one sentence", writing("The end", style_hint="in one sentence")),
        ("draft Results and limits", writing("Results and limits")),
        ("Write the Report.", writing("Report / Summary")),
        (
            "Write all the empty blocks",
            [
                *writing("Results and limits", "结果"),
                *researching("Sources", "Sources"),
                *writing("Report / Summary"),
            ],
        ),
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
        ("research the block Method", researching("Method", "Method")),
        ("Research Summary", researching("Summary", "Report / Summary")),
        ("research the audience", researching("The audience", kind="consumer")),
        ("find out who reads this", researching("Who reads this", kind="consumer")),
        ("Research what our readers need for the method", researching("What our readers need", "Method", "consumer")),
        ("do consumer research on programmers", researching("Programmers", kind="consumer")),
        ("Do audience research", researching("Audience of this document", kind="consumer")),
        ("research the user interface", researching("The user interface")),
        ("do the research", researching("Sources", "Sources")),
        ("研究一下生成器是什么", researching("生成器是什么")),
        ("请为方法研究生成器", researching("生成器", "方法")),
        ("调研生成器，并写入块“结果”", researching("生成器", "结果")),
        ("調研受眾", researching("受眾", kind="consumer")),
        ("了解谁会读这份文档", researching("谁会读这份文档", kind="consumer")),
        ("研究“方法”", researching("方法", "方法")),
        ("做调研", researching("Sources", "Sources")),
        ("进入文献阶段", [("advance_to_phase", {"target_phase": "literature"})]),
    ],
)
def test_plain_request_becomes_calls(message: str, called: list[tuple[str, dict[str, Any]]]) -> None:
    """Requests in English and Chinese name blocks and phases of the project."""
    request = read_request(message, VIEW)
    assert request is not None
    assert ([(call.name, dict(call.params)) for call in request.calls], request.problem) == (called, "")


@pytest.mark.parametrize(
    "message", ["What is the state?", "show all blocks", "where do we stand", "现在的进度如何？", "状态"]
)
def test_request_for_the_state_is_recognised(message: str) -> None:
    """The request has no calls: the project itself is the answer."""
    request = read_request(message, VIEW)
    assert request is not None
    assert request.is_about_state


@pytest.mark.parametrize(
    "message",
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
def test_unclear_message_is_no_request(message: str) -> None:
    """Nothing is guessed."""
    assert read_request(message, VIEW) is None


@pytest.mark.parametrize(
    "message",
    [
        "Write Methdo",
        "Remove it",
        "把办法改名为方法",
        "Write Summary and Conclusion",
        "Research X for the block Y",
        "为块“乙”研究甲",
    ],
)
def test_request_with_unknown_name_has_a_problem(message: str) -> None:
    """The problem lists the known names, and there are no calls."""
    request = read_request(message, VIEW)
    assert request is not None
    assert request.problem.startswith("There is no block")
    assert request.calls == ()


@pytest.mark.parametrize(
    ("message", "edits", "rest"),
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
def test_edits_are_read_verbatim(message: str, edits: list[tuple[str, str]], rest: str) -> None:
    """Quoted passages are preserved exactly; other words are returned as the rest."""
    requested = find_edits(message)
    assert [(edit["anchor"], edit["replacement"]) for edit in requested.edits] == edits
    assert requested.rest == rest


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
def test_length_is_read_from_a_style(style: str, most: int, rest: str) -> None:
    """The number of sentences for a text of five; words about anything else are returned as the rest."""
    length = read_length(style, 5)
    assert (length.max_sentences, length.rest) == (most, rest)


@pytest.mark.parametrize(
    ("question", "answer"), [("Judge it.", "without a language model"), ("请打分。", "没有语言模型")]
)
async def test_agent_with_unknown_tools_says_that_it_needs_a_language_model(question: str, answer: str) -> None:
    """The answer calls none of the tools."""
    tools = (ToolSpec("grade", "Grade it.", {}), ToolSpec("read_field", "Read it.", {}))
    request = ModelRequest((Message("system", "You judge."), Message("user", question)), tools)
    replies = [event async for event in OfflineModel().stream(request) if isinstance(event, ModelReply)]
    assert answer in replies[0].content
    assert replies[0].calls == ()
