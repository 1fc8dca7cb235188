"""Small Word documents, assembled from XML."""

import io
import zipfile

W = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
STRICT = "http://purl.oclc.org/ooxml/wordprocessingml/main"
_PREFIXES = ("r", "m", "mc", "wps", "v", "pic", "c", "wp")
_NAMES = 'xmlns:w="{w}" ' + " ".join(f'xmlns:{prefix}="{prefix}"' for prefix in _PREFIXES)


def run(text: str, properties: str = "") -> str:
    """A run of text, with its properties as XML."""
    return f'<w:r><w:rPr>{properties}</w:rPr><w:t xml:space="preserve">{text}</w:t></w:r>'


def paragraph(*parts: str, properties: str = "") -> str:
    """A paragraph; parts that are not XML are runs."""
    inner = "".join(part if part.startswith("<") else run(part) for part in parts)
    return f"<w:p><w:pPr>{properties}</w:pPr>{inner}</w:p>"


def table(*rows: tuple[str, ...]) -> str:
    """A table; cells that are not XML are paragraphs."""
    cells = (
        "".join(f"<w:tc>{cell if cell.startswith('<') else paragraph(cell)}</w:tc>" for cell in row) for row in rows
    )
    return "<w:tbl>" + "".join(f"<w:tr>{row}</w:tr>" for row in cells) + "</w:tbl>"


def word_file(*body: str, namespace: str = W, **parts: str) -> bytes:
    """A document with a body and further parts, such as `styles`, `footnotes` or `header`."""
    roots = {"styles": "styles", "numbering": "numbering", "header": "hdr", "footer": "ftr"}
    names = _NAMES.format(w=namespace)
    relations = [("", "officeDocument", "word/document.xml")]
    files = {"word/document.xml": f"<w:document {names}><w:body>{''.join(body)}<w:sectPr/></w:body></w:document>"}
    for name, content in parts.items():
        root = roots.get(name, name)
        files[f"word/{name}.xml"] = f"<w:{root} {names}>{content}</w:{root}>"
        relations.append(("word/", name, f"{name}.xml"))
    for folder, file in (("", ""), ("word/", "document.xml")):
        links = "".join(
            f'<Relationship Id="r{n}" Type="http://x/relationships/{kind}" Target="{target}"/>'
            for n, (place, kind, target) in enumerate(relations)
            if place == folder
        )
        files[f"{folder}_rels/{file}.rels"] = f"<Relationships>{links}</Relationships>"
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return buffer.getvalue()
