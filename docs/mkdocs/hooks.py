"""Hooks of MkDocs: pages made of the notebooks and of the pages in the repository's root, and the links between them.

Notebooks are not executed. The HTML of their stored outputs would not survive the conversion from Markdown, so a page
has a placeholder for each output, which is replaced when the page is HTML.
"""

import html
import posixpath
import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import nbformat

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files
    from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[2]
LINK = re.compile(r"```.*?```|(!?)\[([^\]]*)\]\((?!\w+:|#)([^)#\s]+)(#[^)]*)?\)", re.DOTALL)
PLACEHOLDER = "artifactflow-output-{}-{}"

_outputs: dict[str, str] = {}


def page_sources() -> dict[str, str]:
    """The paths in the repository of the site's files that are not in `docs/`, by their paths in the site."""
    pages = {f"{name.lower()}.md": f"{name}.md" for name in ("CHANGELOG", "CONTRIBUTING", "SECURITY")}
    for notebook in sorted((ROOT / "notebooks").glob("[0-9]*.ipynb")):
        pages[f"notebooks/{notebook.stem}.md"] = f"notebooks/{notebook.name}"
        for picture in re.findall(r"\.\./(tests/browser/screenshots/[\w-]+\.png)", notebook.read_text("utf-8")):
            pages[f"screenshots/{posixpath.basename(picture)}"] = picture
    return pages


def site_path(path: str) -> str | None:
    """The site's path of a file of the repository; None for a file that the site does not show."""
    if path == "README.md":
        return "index.md"
    if path.startswith("docs/"):
        return path.removeprefix("docs/")
    return next((page for page, source in page_sources().items() if source == path), None)


def relink(markdown: str, page: str) -> str:
    """Let the links of a page lead to pages of the site; a link to any other file becomes its text."""
    folder = posixpath.dirname(page_sources().get(page, f"docs/{page}"))

    def replace(match: re.Match[str]) -> str:
        picture, text, target, anchor = match.groups()
        if target is None:  # a block of code
            return match[0]
        path = site_path(posixpath.normpath(posixpath.join(folder, target)))
        if path is None:
            return str(text)
        return f"{picture}[{text}]({posixpath.relpath(path, posixpath.dirname(page) or '.')}{anchor or ''})"

    return LINK.sub(replace, markdown)


def notebook_markdown(page: str, notebook: Path) -> str:
    """Convert a notebook to Markdown with a placeholder for each output."""
    cells = []
    for n_cell, cell in enumerate(nbformat.read(notebook, as_version=4).cells):
        if cell.cell_type == "markdown":
            cells.append(cell.source)
            continue
        cells.append(f"```python\n{cell.source}\n```")
        for n_output, output in enumerate(cell.outputs):
            key = PLACEHOLDER.format(n_cell, n_output)
            _outputs[f"{page}:{key}"] = output_html(output)
            cells.append(key)
    return "\n\n".join(cells)


def output_html(output: Mapping[str, Any]) -> str:
    """The best form of a stored output, as HTML."""
    data = output.get("data", {"text/plain": output.get("text", "")})
    if "image/svg+xml" in data:
        body = data["image/svg+xml"]
    elif "text/html" in data:
        body = data["text/html"].replace(' border="1" class="dataframe"', "")  # the theme's own tables
    else:
        body = f"<pre><code>{html.escape(data['text/plain'])}</code></pre>"
    return f'<div class="af-output">{body}</div>'


def on_files(files: "Files", config: "MkDocsConfig") -> "Files":
    """Add the pages and pictures whose sources are not in `docs/`."""
    from mkdocs.structure.files import File

    for page, source in page_sources().items():
        path = ROOT / source
        if path.suffix == ".ipynb":
            files.append(File.generated(config, page, content=notebook_markdown(page, path)))
        else:
            files.append(File.generated(config, page, abs_src_path=str(path)))
    return files


def on_page_markdown(markdown: str, page: "Page", **_context: object) -> str:
    """Rewrite the links."""
    return relink(markdown, page.file.src_uri)


def on_page_content(content: str, page: "Page", **_context: object) -> str:
    """Put the outputs of a notebook in their places."""
    pattern = f"<p>({PLACEHOLDER.format(r'[0-9]+', r'[0-9]+')})</p>"
    return re.sub(pattern, lambda match: _outputs[f"{page.file.src_uri}:{match[1]}"], content)
