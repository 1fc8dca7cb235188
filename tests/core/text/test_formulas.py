"""Formulas in Markdown: their recognition, their MathML, and their TeX in sanitised Markdown."""

import re
from html import unescape

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.cpu_time import within
from support.safe_html import harms

from artifactflow_nb.core.text.formulas import mathml
from artifactflow_nb.core.text.markdown import MarkdownRenderer, safe_markdown
from artifactflow_nb.export.docx import read_blocks

TEX = st.lists(
    st.sampled_from(
        [
            *"{}^_&$<>\"'%`x1+",
            r"\frac",
            r"\sqrt",
            r"\text{",
            r"\\",
            r"\left(",
            r"\right)",
            r"\begin{aligned}",
            r"\href{",
            r"\end{aligned}",
            r"\mathbf{x}",
            r"\style{",
            "](",
            "![",
            "<img src=x onerror=alert(1)>",
            r"\unicode{60}",
        ]
    ),
    max_size=30,
).map("".join)


def rendered(text: str) -> str:
    return MarkdownRenderer().html(text)


@pytest.mark.parametrize(
    ("text", "tex", "display"),
    [
        ("Energy $E=mc^2$.", "E=mc^2", "inline"),
        (r"Energy \(E=mc^2\).", "E=mc^2", "inline"),
        ("It is $$x^2$$ here.", "x^2", "block"),
        ("$$\na\n- b\n$$", "a - b", "block"),
        ("Before\n\\[\na \\\\\n= b\n\\]\nafter", r"a \\ = b", "block"),
        ("- \\[\n  x\n  \\]", "x", "block"),
        ("| a |\n|---|\n| $x$ |", "x", "inline"),
        ("half of it, $0.025$ mg/L, or $1{,}000$", "0.025", "inline"),
        (r"\ce{x} and $\ce{NO3-}$", r"\ce{NO3-}", "inline"),
        (r"the power is $1-\beta$, and", r"1-\beta", "inline"),
        ("a rate of $1/n$", "1/n", "inline"),
        ("in $2/3$ of all", "2/3", "inline"),
        ("it costs $0.05/m$ of pipe", "0.05/m", "inline"),
        ("between $2-3$ units", "2-3", "inline"),
        ("面积是$x^2$平方米", "x^2", "inline"),
        ("the $n$th term", "n", "inline"),
        ("all $x$s", "x", "inline"),
    ],
)
def test_formula_is_mathml_with_its_tex(text: str, tex: str, display: str) -> None:
    """Each of the four delimiters gives MathML; its TeX is the alternative text."""
    html = rendered(text)
    assert f'<math display="{display}" alttext="{tex}">' in html
    assert "$" not in re.sub("<[^>]*>", "", html)


@pytest.mark.parametrize(
    "text",
    [
        "$5 and $6",
        "between $5 and 6$",
        "US$5 or US$6",
        "$5/month or $7",
        "$5-$9",
        "$5–10 or $7–9",
        "$5/$9",
        "$HOME/$USER",
        "$PATH:$HOME",
        "a $ b $ c",
        "`$x$`",
        r"\$x\$",
        "$$$$",
        "~~~\n$x$\n~~~",
        "    $x$",
    ],
)
def test_price_or_code_is_no_formula(text: str) -> None:
    """Dollar signs of prices, of shell variables and in code are unchanged."""
    assert "<math" not in rendered(text)
    assert "$" in rendered(text)


@pytest.mark.parametrize(
    "tex",
    [
        r"\int_0^\infty e^{-x^2}\,dx=\frac{\sqrt{\pi}}{2}",
        r"\begin{aligned}a&=b\\&=c\end{aligned}",
        r"\hat{\beta}_{ij}",
        r"\begin{cases}x & y>0\\ 0 & \text{otherwise}\end{cases}",
        r"\operatorname{arg\,max}_x",
        r"\boxed{x}",
        r"\left(\frac{a}{b}\right)^n",
        r"\begin{pmatrix}1&2\\3&4\end{pmatrix}",
        r"\mathbb{E}[X\mid Y]",
        r"\lim_{n\to\infty}",
    ],
)
def test_usual_tex_is_converted(tex: str) -> None:
    """Fractions, alignment, matrices, cases, operators and accents become MathML without a remaining command."""
    drawing = mathml(tex, is_display=True)
    assert drawing.startswith("<math")
    assert not re.search(r">\\|>&amp;<", drawing)


@pytest.mark.parametrize(
    ("formula", "text"),
    [
        ("NO3-", "NO3-"),
        ("SO4^2-", "SO42-"),
        ("Ca(OH)2", "Ca(OH)2"),
        ("Fe^{3+}", "Fe3+"),
        ("N2 + 3H2 <=> 2NH3", "N2+3H2⇌2NH3"),
        ("NH4+ -> NO3-", "NH4+→NO3-"),
    ],
)
def test_chemical_formula_is_readable(formula: str, text: str) -> None:
    """The command of mhchem is displayed, and exported unchanged."""
    drawing = mathml(rf"\ce{{{formula}}}", is_display=False)
    assert re.sub(r"\s", "", unescape(re.sub("<[^>]*>", "", drawing))).replace("−", "-") == text
    assert drawing.count("<msub") == len(re.findall(r"(?<=[A-Za-z)])\d", formula))
    assert safe_markdown(rf"in $\ce{{{formula}}}$") == rf"in $\ce{{{formula}}}$"


def test_bold_letters_are_letters_of_unicode() -> None:
    """Browsers ignore `mathvariant` except `normal`, so other letters come from Unicode's mathematical alphabets."""
    assert "𝐀" in mathml(r"\mathbf{A}", is_display=False)
    assert "𝜷" in mathml(r"\boldsymbol{\beta}", is_display=False)
    assert "ℱ" in mathml(r"\mathscr{F}", is_display=False)
    assert '<mi mathvariant="normal">d</mi>' in mathml(r"\mathrm{d}x", is_display=False)


@pytest.mark.parametrize(
    "tex",
    [
        r"\href{javascript:alert(1)}{x}",
        r"\style{color:red}{x}",
        r"\def\x{\x\x}\x",
        r"\class{af-button}{x}",
        r"\nonsense{x}",
        r"\includegraphics{x}",
        r"\frac{",
        "{" * 40 + "x" + "}" * 40,
        "x^" * 900,
        "x" * 2100,
        r"\frac" * 300,
    ],
)
def test_refused_tex_is_code(tex: str) -> None:
    """TeX with links, styles or macros, invalid TeX, and TeX that is too long or too deep stays text."""
    html = rendered(f"\\({tex}\\)")
    assert "<math" not in html
    assert harms(html) == []
    assert not re.search(r"(?<!\\)\$", safe_markdown(f"${tex}$"))


@pytest.mark.timed
@given(TEX)
def test_any_tex_is_harmless(tex: str) -> None:
    """Any mixture of TeX and markup gives only the listed elements and attributes, at little cost."""
    for text in (f"${tex}$", f"\\[{tex}\\]"):
        html = rendered(text)
        assert harms(html) == []
        assert not re.search(r"\b(?:href|src|style)=", re.sub(r'alttext="[^"]*"|>[^<]*<', "", html))
    for attempt in within(1):
        with attempt:
            mathml(tex * 20, is_display=True)


def test_markdown_keeps_tex() -> None:
    """Sanitised Markdown and Word have the TeX of a formula."""
    text = r"With \(a<b\) it costs $5, and $|x|_2$."
    assert safe_markdown(text) == r"With $a\lt b$ it costs \$5, and $\vert x\vert _2$."
    assert "".join(piece.text for piece in read_blocks(rendered(text))[0].pieces) == (
        r"With $a<b$ it costs $5, and $|x|_2$."
    )
    assert safe_markdown("$$\nx\n- y\n$$") == "$$x - y$$"
