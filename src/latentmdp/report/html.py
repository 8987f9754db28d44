"""HTML from data, with every text escaped: the only place of the report that writes tags.

`Markup` is text that is HTML already; everything else is escaped when it is put into it. The page
around the sections is the template `page/page.html`.
"""

import re
from collections.abc import Iterable, Sequence
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

TEMPLATES = Environment(
    loader=PackageLoader("latentmdp.report", "page"), autoescape=True, undefined=StrictUndefined,
    keep_trailing_newline=True,
)  # fmt: skip
UNSEEN = re.compile(
    "[\0-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069"
    "\ud800-\udfff\ufdd0-\ufdef\ufff9-\ufffb\ufffe\uffff]"
)
"""Controls, marks that turn the direction of text around, and what is no character."""
VOID = ("input",)  # elements without an end tag, of those that pages have


class Figure(str):
    """A number that is formatted already; tables align it to the right like other numbers."""

    __slots__ = ()


def tag(name: str, *children: Any, **attributes: Any) -> Markup:
    """An element; `class_` and `for_` lose their underscore, other underscores become dashes."""
    written = Markup().join(
        Markup(' {}="{}"').format(key.rstrip("_").replace("_", "-"), value)
        for key, value in attributes.items()
        if value is not None
    )
    if name in VOID:
        return Markup("<{}{}>").format(name, written)
    return Markup("<{0}{1}>{2}</{0}>").format(name, written, Markup().join(children))


def with_seen_text(html: str) -> str:
    """The same page with escapes for what nobody sees, so that names look like what they are.

    >>> with_seen_text("<b>ab\\u202egnp.exe</b>")
    '<b>ab\\\\u202egnp.exe</b>'
    """
    return UNSEEN.sub(lambda found: found[0].encode("unicode_escape").decode(), html)


def section(ident: str, title: str, *children: Any) -> Markup:
    """A landmark with a heading of its own."""
    heading = tag("h2", title, id=f"{ident}-title")
    return tag("section", heading, *children, id=ident, aria_labelledby=f"{ident}-title")


def table(caption: str, headers: Sequence[str], rows: Iterable[Sequence[Any]]) -> Markup:
    """A table that scrolls by itself; numbers to the right, the first cell names its row."""
    body = []
    numeric: set[int] = set()
    for first, *others in rows:
        cells = [tag("th", first, scope="row", class_="name")]
        for i, value in enumerate(others):
            is_number = isinstance(value, (int, float, Figure)) and not isinstance(value, bool)
            numeric |= {i + 1} if is_number else set()
            value = number(value) if is_number and not isinstance(value, Figure) else value
            cells.append(tag("td", value,
                             class_="number" if is_number else "name"))  # fmt: skip
        body.append(tag("tr", *cells))
    head = tag("tr", *(tag("th", header, scope="col", class_="number" if i in numeric else None)
                       for i, header in enumerate(headers)))  # fmt: skip
    return tag(
        "div",
        tag("table", tag("caption", caption, class_="unseen"), tag("thead", head),
            tag("tbody", *body)),
        class_="scroll", tabindex=0, role="region", aria_label=caption,
    )  # fmt: skip


def number(value: float) -> str:
    """A number for people: thousands apart, four digits, powers of ten where it is large."""
    if isinstance(value, int):
        return f"{value:,}" if abs(value) < 10**7 else _power(float(value))
    if value != value or value in (float("inf"), float("-inf")):
        return "–"
    if value == 0:
        return "0"
    if abs(value) >= 1e7 or abs(value) < 1e-3:
        return _power(value)
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def _power(value: float) -> str:
    front, power = f"{value:.2e}".split("e")
    front = front.rstrip("0").rstrip(".")
    raised = str(int(power)).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))
    return f"10{raised}" if front == "1" else f"{front} × 10{raised}"


def count(value: int, noun: str) -> str:
    """`1 seed`, `12 seeds`."""
    return f"{number(value)} {noun}{'' if value == 1 else 's'}"
