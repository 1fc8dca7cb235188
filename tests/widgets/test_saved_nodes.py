"""The serialiser of saved outputs: nodes as HTML and plain text."""

from artifactflow_nb.widgets.page.nodes import Node
from artifactflow_nb.widgets.page.saved import saved_output


def test_nodes_are_saved_without_controls() -> None:
    """Folds and lists are preserved; a node's plain text replaces the texts of its children."""
    item = Node("item", kind="item", children=(Node("line", "<b>One</b>"),))
    nodes = (
        Node("head", "<strong>Title</strong>", text="Title"),
        Node("do", "<button>Press</button>", "controls"),
        Node("fold", "<code>tool</code> 5 &lt; 6", "fold", "af-tool", True, children=(
            Node("list", kind="list", children=(item, item)), Node("form", kind="form"),
        )),
        Node("box", kind="box", text="In short.", children=(Node("long", "<p>At length.</p>", text="At length."),)),
    )  # fmt: skip
    output = saved_output(nodes, css="af-chat")
    assert output["text/plain"] == "Title\n\nIn short."
    assert set(output) == {"text/plain", "text/html"}
    html = output["text/html"]
    assert "Press" not in html
    assert '<ol class="" role="list"><li class=""><div class=""><b>One</b></div></li>' in html
    assert ".af-chat" in html
    assert ".af-steps" not in html
    assert '<details class="af-tool" open><summary><code>tool</code> 5 &lt; 6</summary>' in html
