"""A document as a page of its own: nothing in it is fetched or runs, and it follows the reader's light or dark."""

from importlib.resources import files

from artifactflow_nb.export.document import Document
from artifactflow_nb.text.chinese import language_tag
from artifactflow_nb.text.markdown import escape, speak

_POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"


def to_html(document: Document) -> bytes:
    """The page."""
    style = (files("artifactflow_nb.export") / "page.css").read_text(encoding="utf-8")
    heading = "" if document.has_title else f"<h1>{speak(document.title)}</h1>"
    return f"""<!doctype html>
<html lang="{language_tag(document.content[:4000]) or "en"}">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{_POLICY}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="referrer" content="no-referrer">
<meta name="color-scheme" content="light dark">
<title>{escape(document.title)}</title>
<style>
{style}</style>
</head>
<body>
<main>
{heading}{document.html}
</main>
<footer>{escape(document.origin)}</footer>
</body>
</html>
""".encode()
