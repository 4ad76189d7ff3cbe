"""docs/proofs.md and the pages beside it as one PDF for a referee: Markdown and LaTeX to Typst, without any network.

    python scripts/proofs_pdf.py proofs.pdf

Formulas go through MathML, whose tree says what LaTeX's spelling hides. Two small packages and Typst do the rest:
`pip install --group proofs`, which `make proofs-pdf` does.
"""

import re
import sys
from collections.abc import Sequence
from pathlib import Path
from xml.etree.ElementTree import Element, fromstring

DOCS = Path(__file__).parents[1] / "docs"
FIRST = ("proofs.md", "notation.md")
FORMULA = re.compile(r"`[^`\n]*`|\$\$(?P<display>.+?)\$\$|\$(?P<inline>[^$\n]+(?:\n[^$\n]+)*)\$", re.DOTALL)
FENCE = re.compile(r"^```.*?^```$", re.DOTALL | re.MULTILINE)
BREAKS = "\\1\u200b"
HELD = "\ue000{}\ue001"
ACCENTS = {"~": "tilde", "˜": "tilde", "¯": "macron", "^": "hat", "ˆ": "hat", "‾": "macron", "―": "macron"}
STYLES = {"double-struck": "bb", "script": "cal", "bold": "bold", "fraktur": "frak"}
PREAMBLE = """#set page(paper: "a4", margin: (x: 22mm, y: 22mm), numbering: "1")
#set text(font: "New Computer Modern", size: 10pt, lang: "en")
#set par(justify: true)
#set heading(numbering: none)
#set table(inset: 4pt, stroke: 0.4pt + luma(160))
#show heading.where(level: 1): it => { pagebreak(weak: true); block(below: 1em, text(size: 16pt, it.body)) }
#show raw.where(block: true): it => block(fill: luma(245), inset: 6pt, width: 100%, text(size: 8pt, it))
#show table: set text(size: 8pt)
#show table: set par(justify: false)
#set table.cell(breakable: false)
#show link: set text(fill: rgb("#224488"))
#align(center)[#text(size: 20pt)[Proofs of the privacy of fedspd]
#v(0.5em) Version VERSION]
#v(1em)
#outline(depth: 2, title: none)
"""


def formula(latex: str) -> str:
    """A formula in Typst's words."""
    from latex2mathml.converter import convert

    latex = latex.replace(r"\mathrm{round}", r"\operatorname{round}").replace(r"\top", "⊤")
    return _math(fromstring(re.sub(r' xmlns="[^"]*"', "", convert(latex))))


def _math(node: Element) -> str:
    parts, tag = [_math(child) for child in node], node.tag
    if tag in ("math", "mrow", "mstyle", "mpadded"):
        return _row(node)
    if tag in ("mi", "mo", "mn", "mtext"):
        return _leaf(node)
    if tag in ("mfrac", "msqrt"):
        return f"{tag[1:]}({', '.join(parts if tag == 'mfrac' else [' '.join(parts)])})"
    if tag in ("msub", "munder"):
        return f"attach({_limits(parts[0])}, b: {parts[1]})"
    if tag == "mover" and (accent := ACCENTS.get((node[1].text or "").strip())):
        return f"{accent}({parts[0]})"
    if tag in ("msup", "mover"):
        return f"attach({_limits(parts[0])}, t: {parts[1]})"
    if tag in ("msubsup", "munderover"):
        return f"attach({_limits(parts[0])}, b: {parts[1]}, t: {parts[2]})"
    if tag == "menclose":
        return f"#box(stroke: 0.5pt, inset: 6pt)[$display({' '.join(parts)})$]"
    if tag == "mspace":
        return "quad" if float(node.get("width", "0em").removesuffix("em")) >= 1.0 else "thin"
    raise SystemExit(f"A formula uses <{tag}>, which this program does not know: write it with simpler LaTeX.")


def _limits(base: str) -> str:
    """Of what stands under a sum; the base of an attachment must not be empty."""
    return base or '""'


def _row(node: Element) -> str:
    """Neighbors; letters that LaTeX sets upright one by one are one word again."""
    found, word = [], ""
    for child in node:
        if child.tag == "mi" and child.get("mathvariant") == "normal" and len(child.text or "") == 1:
            word += child.text or ""
            continue
        found += [f'upright("{word}")'] * bool(word) + [_math(child)]
        word = ""
    return " ".join([*found, *[f'upright("{word}")'] * bool(word)])


def _leaf(node: Element) -> str:
    text = (node.text or "").removeprefix("\\") or "\\"
    if node.tag == "mi" and text == "~":
        return "tilde.op"
    if text in ("‖", "|") and not node.get("minsize"):
        return f'class("normal", {text if text == "‖" else "bar.v"})'
    if node.tag == "mtext":
        return '"' + text.replace("\xa0", " ").replace('"', '\\"') + '"'
    if size := node.get("minsize"):
        return f"lr(size: #{float(size.removesuffix('em')) * 1.1:.2f}em, \\{text.strip() or '.'})"
    if style := STYLES.get(node.get("mathvariant", "")):
        return f"{style}({text})"
    if len(text) > 1 and text.isalpha():
        return f'op("{text}")' if node.tag == "mi" or text.isascii() else text
    return "".join("\\" + char if char in "\\/_^&#$\"'(){}[],;:*`~@<>.|=+-!" else char for char in text)


class Typst:
    """From the tokens of Markdown to Typst, page by page."""

    def __init__(self, held: Sequence[str], page: str) -> None:
        self.held, self.page, self.columns = held, page, 0

    def text(self, text: str) -> str:
        """Plain text with its formulas put back."""
        parts = re.split("\ue000(\\d+)\ue001", text)
        return "".join(self.held[int(part)] if place % 2 else _plain(part) for place, part in enumerate(parts))

    def inline(self, token: object) -> str:
        """What stands in a paragraph, a heading or a cell."""
        marks = {"strong_open": "#strong[", "em_open": "#emph[", "strong_close": "];", "em_close": "];"}
        found = []
        for child in getattr(token, "children", None) or []:
            if child.type == "text":
                found.append(self.text(child.content))
            elif child.type == "code_inline":
                found.append(_raw(child.content))
            elif child.type in ("softbreak", "hardbreak"):
                found.append("\n")
            elif child.type == "link_open":
                outside = str(child.attrGet("href")).startswith("http")
                found.append(f"#link({_string(str(child.attrGet('href')))})[" if outside else "#emph[")
            else:
                found.append(marks.get(child.type, "];" if child.type == "link_close" else ""))
        return "".join(found)

    def block(self, tokens: Sequence[object]) -> str:
        """A whole page."""
        found: list[str] = []
        for place, token in enumerate(tokens):
            kind = getattr(token, "type", "")
            if kind == "inline":
                found.append(self.inline(token))
            elif kind == "heading_open":
                found.append("\n\n" + "=" * int(getattr(token, "tag", "h1")[1]) + " ")
            elif kind == "fence":
                found.append(f"\n\n#raw({_string(getattr(token, 'content', '').rstrip())}, block: true)\n")
            elif kind == "table_open":
                found.append(f"\n\n#table(columns: {_widths(tokens[place:])},")
            else:
                found.append(BLOCKS.get(kind, ""))
        return "".join(found)


BLOCKS = {
    "thead_open": "table.header(", "thead_close": "),", "heading_close": "\n\n",
    "paragraph_close": "\n\n", "table_close": ")\n\n", "th_open": "strong[", "th_close": "],",
    "td_open": "[", "td_close": "],", "bullet_list_open": "\n#list(", "bullet_list_close": ")\n\n",
    "ordered_list_open": "\n#enum(", "ordered_list_close": ")\n\n", "list_item_open": "[", "list_item_close": "],",
    "blockquote_open": "\n#quote(block: true)[", "blockquote_close": "]\n",
}  # fmt: skip


def _widths(tokens: Sequence[object]) -> str:
    """Columns as wide as what stands in them asks for, with room for the longest word."""
    rows: list[list[int]] = [[]]
    for token in tokens:
        kind = getattr(token, "type", "")
        if kind == "table_close":
            break
        if kind == "tr_open":
            rows.append([])
        if kind == "inline":
            rows[-1].append(len(re.sub(r"\]\([^)]*\)", "", getattr(token, "content", ""))))
    longest = [max(cell) for cell in zip(*[row for row in rows if row], strict=False)]
    return "(" + ", ".join(f"{max(9.0, min(140.0, length)) ** 0.65:.1f}fr" for length in longest) + ",)"


def _plain(text: str) -> str:
    return re.sub(r"([\\#$*_`<>@\[\]~/=+\-])", r"\\\1", text)


def _string(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'


def _raw(code: str) -> str:
    """Code that may break after a stroke, a dot or an underscore, as names of files are long."""
    return f"#raw({_string(re.sub('([/._])', BREAKS, code))});"


def page(path: Path) -> str:
    """One page of the documents as Typst."""
    from markdown_it import MarkdownIt

    held: list[str] = []

    def hold(match: re.Match[str]) -> str:
        if match["display"] is None and match["inline"] is None:
            return match[0]  # code
        held.append(f"$ {formula(match['display'])} $" if match["display"] else f"${formula(match['inline'])}$")
        return HELD.format(len(held) - 1)

    text, parts, last = path.read_text(), [], 0
    for fence in FENCE.finditer(text):
        parts += [FORMULA.sub(hold, text[last : fence.start()]), fence[0]]
        last = fence.end()
    parts.append(FORMULA.sub(hold, text[last:]))
    tokens = MarkdownIt("commonmark").enable("table").parse("".join(parts))
    return Typst(held, path.name).block(tokens)


def main(target: Path) -> None:
    """Write the PDF."""
    try:
        import typst

        import fedspd

        pages = [DOCS / name for name in FIRST] + sorted((DOCS / "proofs").glob("*.md")) + [DOCS / "accounting.md"]
        source = PREAMBLE.replace("VERSION", fedspd.__version__) + "".join(page(path) for path in pages)
    except ImportError as missing:
        raise SystemExit(
            f"The package {missing.name} is missing: run `make proofs-pdf`, which installs it, "
            "or `pip install --group proofs`."
        ) from missing
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(typst.compile(source.encode()))
    print(f"{target}: {len(pages)} pages of the documents, {target.stat().st_size / 1000:.0f} kB")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "proofs.pdf"))
