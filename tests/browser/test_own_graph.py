"""Graphs of users in JupyterLab: parallel nodes, interrupts, nested agents, failures and cancellation."""

import re
import shutil
from pathlib import Path

import pytest
from browser.axe import axe_in_both_themes
from browser.conftest import OpenPage
from browser.lab import LabPage, LabServer, new_notebook
from browser.pictures import save_pictures
from playwright.sync_api import Locator, expect

pytestmark = pytest.mark.browser

SOON_MS = 20_000
GRAPHS = Path(__file__).parents[1] / "support" / "graphs.py"
SETUP = '''import tempfile, time
import artifactflow_nb as af
from graphs import ScriptedChat, ai_message, prebuilt
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import interrupt

class Slow(ScriptedChat):
    def _stream(self, *args, **options):
        for chunk in super()._stream(*args, **options):
            time.sleep(0.03)
            yield chunk

def speaking_node(*script):
    model = Slow(script=script)
    async def node(state):
        return {"messages": [await model.ainvoke(state["messages"])]}
    return node

def asking_node(value, reply):
    return lambda state: {"messages": [("ai", reply(interrupt(value)))]}

def graph(*edges, **nodes):
    builder = StateGraph(MessagesState)
    for name, node in nodes.items():
        builder.add_node(name, node)
    for source, target in edges or zip((START, *nodes), nodes):
        builder.add_edge(source, target)
    return builder.compile()

def weather(city: str) -> str:
    """The weather of a city."""
    return f"Rain in {city}."

def population(city: str) -> str:
    """How many live in a city."""
    return "3,769,495"

wb = af.Workbench(data_dir=tempfile.mkdtemp(), prices={"scripted-chat": af.Price(input=1, output=2)})'''
AGENT = """agent = prebuilt(Slow(script=[
    ai_message("I look up both.", ("weather", {"city": "Berlin"}), ("population", {"city": "Berlin"})),
    ai_message("It is **raining** in Berlin."),
]), [weather, population])
run = wb.ask("How is Berlin?", flow=af.adapt(agent, name="town"))
run"""
HELPER = '''helper = prebuilt(Slow(script=[
    ai_message("Let me see.", ("weather", {"city": "Paris"})), ai_message("It rains there."),
]), [weather])

async def ask_helper(question: str) -> str:
    """Ask the helper."""
    state = await helper.ainvoke({"messages": [("user", question)]})
    return state["messages"][-1].content

boss = prebuilt(Slow(script=[
    ai_message("I ask somebody.", ("ask_helper", {"question": "How is Paris?"})), ai_message("It rains in Paris."),
]), [ask_helper])
run = wb.ask("And Paris?", flow=af.adapt(boss, name="boss"))
run'''
DEBATE = """sides = {name: speaking_node(ai_message(f"The {name} speaks. " * 20)) for name in ("optimist", "pessimist")}
both = graph((START, "optimist"), (START, "pessimist"), ("optimist", "judge"), ("pessimist", "judge"),
             **sides, judge=speaking_node(ai_message("Both are **half right**.")))
run = wb.ask("Will it go well?", flow=af.adapt(both, name="debate"))
run"""
NAME = """greeter = graph(greet=asking_node("What is your name?", lambda name: f"Hello, {name}!"))
run = wb.ask("Greet me.", flow=af.adapt(greeter, name="greeter"))
run"""
LETTER = """letter = {"title": "Send the letter?", "message": "It is final.", "params": {
    "to": "Ada", "copies": 2, "urgent": False, "cc": ["Bob"]}}
sender = graph(
    write=speaking_node(*[ai_message("A letter to Ada.")] * 2), send=asking_node(letter, lambda sent: f"Sent: {sent}")
)
run = wb.ask("Write to Ada.", flow=af.adapt(sender, name="letters"))
run"""
BROKEN = """def count(state):
    raise ValueError("there is no column <total>")

broken = graph(write=speaking_node(ai_message("I have started.")), count=count)
run = wb.ask("Sum it up.", flow=af.adapt(broken, name="broken"))
run"""
TALKER = """talker = graph(talk=speaking_node(ai_message("word after word " * 200)))
run = wb.ask("Talk.", flow=af.adapt(talker, name="talker"))
run"""
CHAT = """wb.register_flow("letters", af.adapt(sender))
wb.chat(flow="letters")"""


def open_notebook(lab: LabServer, open_page: OpenPage, *cells: str) -> LabPage:
    """A notebook after its first cell, which defines the helpers for graphs."""
    name = new_notebook(lab, SETUP, *cells)
    shutil.copy(GRAPHS, (lab.root / name).with_name(GRAPHS.name))
    page = open_page(name)
    page.open()
    page.run_cell(0)
    page.wait_done(0)
    return page


def ended(page: LabPage, cell: int, status: str = "Completed") -> Locator:
    """The saved output of a run that has ended with this status."""
    return page.wait_saved(cell, status)


def unfold(saved: Locator) -> None:
    """Open the work and its tools. JupyterLab may draw an output once more when its cell ends, which folds it again."""
    for _ in range(3):
        if not saved.locator(".af-work[open]").count():
            saved.locator(".af-work > summary").click()
            saved.page.wait_for_timeout(200)
    for summary in saved.locator(".af-tool > summary").all():
        summary.click()


def heading(run: Locator) -> Locator:
    return run.locator(".af-work > summary, .af-work.af-line")


def test_tools_and_nested_agents_are_displayed(lab: LabServer, open_page: OpenPage) -> None:
    """Each tool displays its arguments and result; the work of a nested agent is within the tool that called it."""
    page = open_notebook(lab, open_page, AGENT, HELPER)
    page.run_cell(1)
    page.run_cell(2)
    town, boss = ended(page, 1), ended(page, 2)
    expect(heading(town)).to_have_text(re.compile(r"^Agent\s+2 tool calls$"))
    unfold(town)
    expect(town.locator(".af-tool", has_text="weather").locator(".af-result")).to_have_text("Rain in Berlin.")
    expect(town.locator(".af-tool", has_text="population").locator(".af-result")).to_have_text("3,769,495")
    expect(heading(boss)).to_have_text(re.compile(r"^Agent\s+2 agents · 2 tool calls$"))
    unfold(boss)
    expect(boss.locator(".af-job > summary")).to_have_text(
        re.compile(r"^✓\s+Ask helper\s+How is Paris\?\s+\d+ ms · .*tokens.* · (?i:agent) · 1 tool call$")
    )
    expect(boss.get_by_text("It rains there.")).to_have_count(1)
    save_pictures(page, boss, "graph-helper")
    assert axe_in_both_themes(page) == []
    assert page.errors == []


def test_parallel_nodes_stream_under_their_names(lab: LabServer, open_page: OpenPage) -> None:
    """Each text grows under the name of its node, and the timeline has figures for each node."""
    page = open_notebook(lab, open_page, DEBATE, "wb.timeline(run)")
    page.run_cell(1)
    live = page.output(1).locator(".af-live")
    for name in ("optimist", "pessimist"):
        expect(live.locator(".af-work .af-prose", has_text=f"The {name} speaks.")).to_be_visible(timeout=SOON_MS)
        expect(live.locator(".af-who", has_text=name)).to_have_count(1)
    expect(live.locator(".af-answer")).to_have_count(0)
    saved = ended(page, 1)
    expect(saved.locator(".af-answer")).to_have_text(re.compile(r"^\s*Both are half right\.\s*$"))
    expect(heading(saved)).to_have_text(re.compile(r"^(Optimist, pessimist|Pessimist, optimist), judge\s+3 agents"))
    saved.locator(".af-work > summary").click()
    expect(saved.locator(".af-who")).to_have_count(2)
    save_pictures(page, saved, "graph-parallel")
    page.run_cell(2)
    page.wait_done(2)
    rows = page.visible_run(2).locator(".af-tree > :not(details) .af-table tbody tr")
    expect(rows).to_have_count(3, timeout=SOON_MS)
    for row in rows.all():
        assert row.locator("td").all_inner_texts()[:5] == ["1", "0", "0", "30", "4"]
    assert axe_in_both_themes(page) == []
    assert page.errors == []


def test_questions_of_nodes_are_edited_and_answered(lab: LabServer, open_page: OpenPage) -> None:
    """A mapping is a form of its values, a text gets an answer, and both are returned to the node."""
    page = open_notebook(lab, open_page, LETTER, NAME)
    page.run_cell(1)
    page.run_cell(2)
    sends, greets = page.output(1), page.output(2)
    expect(sends.locator(".af-approval-title strong")).to_have_text("Send the letter?", timeout=SOON_MS)
    expect(sends.locator(".af-live .af-announcer").first).to_have_text("send asks: Send the letter?")
    expect(greets.get_by_role("button", name=re.compile("^Edit"))).to_have_count(0)
    sends.get_by_role("button", name="Edit parameters send").press("Enter")
    expect(sends.get_by_label("to", exact=True)).to_be_focused()
    sends.get_by_label("copies", exact=True).fill("many")
    sends.get_by_label("urgent", exact=True).check()
    greets.get_by_role("button", name="Answer greet").click()
    expect(greets.get_by_label("Your answer")).to_be_focused()
    save_pictures(page, sends.locator(".af-live"), "graph-asks")
    assert axe_in_both_themes(page) == []
    greets.get_by_label("Your answer").fill("Ada")
    greets.get_by_label("Your answer").press("Shift+Enter")
    sends.get_by_role("button", name="Approve with these values").click()
    expect(sends.get_by_role("alert").filter(has_text="'many' is not a whole number")).to_be_visible()
    sends.get_by_label("copies", exact=True).fill("3")
    page.page.mouse.move(0, 0)  # the button may come back under a pointer that rests, where it would be guarded
    sends.get_by_role("button", name="Approve with these values").click()
    sent = ended(page, 1)
    expect(sent.locator(".af-answer")).to_contain_text(
        "Sent: {'to': 'Ada', 'copies': 3, 'urgent': True, 'cc': ['Bob']}"
    )
    greeted = ended(page, 2)
    expect(greeted.locator(".af-answer")).to_contain_text("Hello, Ada!")
    unfold(greeted)
    expect(greeted.locator(".af-tool > summary")).to_have_text(
        re.compile(r"^✓\s+Greet\s+What is your name\?\s+answered: Ada\s*$")
    )
    assert page.errors == []


def test_failed_and_stopped_graphs_show_their_status(lab: LabServer, open_page: OpenPage) -> None:
    """A failing node is named with its error; the text before the failure or stop remains, and no fold is empty."""
    page = open_notebook(lab, open_page, BROKEN, TALKER)
    page.run_cell(1)
    page.run_cell(2)
    expect(page.output(2).locator(".af-live .af-answer")).to_contain_text("word after word", timeout=SOON_MS)
    page.output(2).get_by_role("button", name="Stop this run").click()
    stopped, broken = ended(page, 2, "Cancelled"), ended(page, 1, "Failed")
    expect(broken.locator(".af-error")).to_have_text(re.compile("The graph failed in count: ValueError: .* <total>$"))
    expect(broken.locator(".af-answer")).to_contain_text("I have started.")
    expect(stopped.locator(".af-answer")).to_contain_text("word after word")
    for run, name in ((broken, "Write"), (stopped, "Talk")):
        expect(heading(run)).to_have_text(re.compile(rf"^{name}\s*$"))
        expect(run.locator("details")).to_have_count(0)
    save_pictures(page, broken, "graph-broken")
    assert axe_in_both_themes(page) == []
    assert page.errors == []


def test_chat_with_a_graph_is_readable_without_a_kernel(lab: LabServer, open_page: OpenPage) -> None:
    """A chat with the answer and the interrupt of a graph is readable in the saved notebook."""
    page = open_notebook(lab, open_page, LETTER.partition("run =")[0] + CHAT)
    page.run_cell(1)
    out = page.output(1)
    question = out.locator(".af-live .af-composer textarea")
    question.fill("Write to Ada.")
    question.press("Enter")
    out.get_by_role("button", name="Deny send").click(timeout=SOON_MS)
    expect(out.locator(".af-live .af-answer")).to_contain_text("Sent: False", timeout=SOON_MS)
    question.fill("Write again.")
    question.press("Enter")
    expect(out.locator(".af-live .af-approval")).to_be_visible(timeout=SOON_MS)
    save_pictures(page, out.locator(".af-live"), "graph-chat")
    assert axe_in_both_themes(page) == []
    page.page.wait_for_timeout(1500)
    page.saved_outputs(1)
    page.shutdown_kernel()
    page.open_elsewhere()
    saved = page.output(1).locator(".af-saved:visible")
    expect(saved).to_contain_text("Sent: False", timeout=SOON_MS)
    expect(saved.locator(".af-tool", has_text="Send the letter?")).to_have_count(2)
    expect(saved.get_by_role("button")).to_have_count(0)
    assert axe_in_both_themes(page) == []
