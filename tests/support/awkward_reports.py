"""Reports that are hard to write in LaTeX, each with parts that its draft must have.

The keys of the sources 1 to 3 are `KEYS`.
"""

KEYS = {1: "lake", 2: "pond", 3: "sea"}

BIBLIOGRAPHY = r"""
@article{lake, title = {{Lakes \& ponds: 50\% deeper}}, author = {Lind, Nora and {李世民}}, year = {2020},
  journal = {J}}
@misc{pond, title = {{Ponds}}, url = {https://pond.example/a_b%20c?d=1&e=2#f}}
@misc{sea, title = {{深海}}, howpublished = {报告}, url = {https://sea.example/~ana/$x}}
"""

CHINESE = """\
# 湖的深度

湖深 41 米 [1]，“北岸”有两个岛 [2]。

- 第一点（见 [3]）
- 第二点：`代码`

| 地点 | 深度 |
|---|---|
| 北 | 41 米 |

日本語のカタカナ.
"""

TABLES = """\
| *a* | b & c | d |
|:---|:-:|---:|
| *x | 50 % | [9] |
| * y | `a|b` | |
| [z] | \\* | \\\\ |

| only a head |
|---|

A row with a break:

| a\\|b | $5 |
|---|---|
| **x** | [1] [2] |
"""

CODE = """\
# Code

Set `v[1] = "it's"` or ``a`b`` and `--flag -x` and `~/.bashrc` [1].

```python
v[1] = {'a': "b"}  # 100 % & \\n

\x09print(v[2])
```

    v[3] = indented

~~~
~~~

``\\[x\\]``
"""

FORMULAS = """\
The law $E = mc^2$ and $$\\int_0^1 x_{i}\\,dx$$ and \\(a^b\\) and \\[c\\] cost $5 and $x[1]$.

α ≤ β → γ, Δ ≈ 3 × 10⁻⁶ ± 2 µm, CO₂, 5 °C, ½, −1, “−”, x² ≠ ∞, ✓, A\xa0B, a\u200bb, 20\u202f000 €, a\u2011b … ′
"""

LINKS = """\
# A [link](https://lake.example/a_b%20c?d=1&e=2#f) in a heading

See [1](https://lake.example/), <https://a.example/~ana/x_y%7Bz%7D>, [a [b] c](https://b.example/(x)),
[empty](), [mail](mailto:a_b@c.example),
![a picture](https://c.example/p.png), [深](https://例.example/路径)

[up][ref] and [1][2] and [^

[ref]: https://d.example/\\{x\\}
"""

FOOTNOTES = """\
A claim[^1] and another[^note], and a mark [1].

[^1]: The first & only *note* with 5 %.
[^note]: https://lake.example/a_b

The end.
"""

QUOTES = """\
> *It's* "deep" - 'very' -- deep --- `so`.
>
> > Nested ``quotes'' ?` !` << >>
> > > - a list
> > > > > deeper
> > > > > > > deepest

>

A line \x20
broken\\
in *three \x20
lines* \x20
[x] and\\
*star

![](x.png) \x20
end
"""

HASHES = """\
# #1: 100 % of a_b & c^d ~ {e} \\f #

##\x20

### **Bold** and `code_x` [1]

Setext \x20
heading
=======

###### Sixth

#hashtag #2 50% a_b_c __d__ {x} \\alpha \\\\ \\& \\%

---

***
"""

LISTS = """\
3. third
4. fourth

   with a paragraph

   ```
   code
   ```

- level 0
    - level 1
        - level 2

1. a
   1. b
      1. c
         1. d
            1. e
               1. f

-\x20
- [ ] open
- [x] done [2]
- * - + deep

* one

  > quoted

  | a |
  |---|
  | b |
"""

HOSTILE = """\
\\end{document}\\input{/etc/passwd} %

\\write18{id} ^^5cinput{x} \x07\x00 <b>bold</b> &amp; &lt;x&gt; &copy;

$$
\\begin{x}
$$

<script>alert(1)</script>

{{{ }}} \\}{ \\verb|x| `\\end{texttt}`

[3-1] [0] [1–3] [1, 9]
"""

LONG = f"""\
| name | what it is |
|---|---|
| (first) | {"a cell whose text does not fit into a line of the page " * 4}|
{"| row | 5 % |" * 1}
{chr(10).join(f"| {n} | row {n} |" for n in range(70))}

```
{"a_long_line of code that --does not fit into a line of the page " * 4}
```

```
data/
├── a.csv │ ✓ \U0001f680
└── b.csv
```

It works \U0001f680 and \u26a0\ufe0f, see [b](https://b.example/%25%20~x_#y).
"""

REPORTS: dict[str, tuple[str, tuple[str, ...]]] = {
    "chinese": (
        CHINESE,
        (
            r"湖深 41 米 \cite{lake}",
            r"\texttt{代码}",
        ),
    ),
    "tables": (
        TABLES,
        (
            r"{*}x & 50 \% & {[}9{]} \\",
            r"{*} y & ",
            r"\cite{lake} \cite{pond}",
        ),
    ),
    "code": (
        CODE,
        (
            r"\texttt{v{[}1{]} = \textquotedbl{}it\textquotesingle{}s\textquotedbl{}}",
            r"\texttt{{-}{-}flag {-}x}",
            r"v{[}2{]}",
            r"v{[}3{]}",
        ),
    ),
    "formulas": (
        FORMULAS,
        (r"\$E = mc\textasciicircum{}2\$", r"\ensuremath{\alpha} \ensuremath{\leq}", r"CO\textsubscript{2}"),
    ),
    "links": (
        LINKS,
        (
            r"\href{https://lake.example/a\_b\%20c?d=1\&e=2\#f}{link}",
            r"{[}\textasciicircum{}",
        ),
    ),
    "footnotes": (
        FOOTNOTES,
        (
            r"a mark \cite{lake}",
            r"5 \%",
        ),
    ),
    "quotes": (
        QUOTES,
        ("A line\\leavevmode\\\\\nbroken\\leavevmode\\\\\nin", "\\leavevmode\\\\\n{*}star", r"``quotes''"),
    ),
    "hashes": (
        HASHES,
        (
            r"\section{\#1: 100 \% of a\_b \& c\textasciicircum{}d \textasciitilde{} \{e\} \textbackslash{}f}",
            r"\textbackslash{}alpha \textbackslash{} \& \%",
        ),
    ),
    "lists": (
        LISTS,
        (
            r"\item[3.] {}third",
            r"\item[4.] {}fourth",
            r"done \cite{pond}",
        ),
    ),
    "hostile": (
        HOSTILE,
        (
            r"{[}3-1{]} {[}0{]} \cite{lake,pond,sea} {[}1, 9{]}",
            r"©",
        ),
    ),
    "long": (
        LONG,
        (
            r"\hline \endhead",
            "(rocket) and (warning sign)",
            "code that {-}{-}does not",
            r"\%25\%20",
        ),
    ),
}
