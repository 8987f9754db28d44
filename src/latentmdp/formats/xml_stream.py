"""XML read piece by piece and without trust: no document types, so no entities; no odd elements.

A bare `&`, as in published files, stands for itself; blank lines at the top are passed over.
"""

import re
from collections.abc import Callable, Mapping
from typing import BinaryIO
from xml.parsers import expat

from latentmdp.errors import ModelError
from latentmdp.formats.files import PathLike, opened, reason, refusal

PIECE = 1 << 20  # bytes that are read at a time
DEEPEST = 300  # elements inside one another
BARE_AMPERSAND = re.compile(
    rb"&(?!(?:amp|lt|gt|quot|apos|#[0-9]{1,7}|#x[0-9a-fA-F]{1,6});)"
)  # fmt: skip
LONGEST_REFERENCE = 12
LONGEST_BLANK = 1 << 12  # bytes above the first element that may be white space
ENCODINGS = ("UTF-8", "UTF-16", "ISO-8859-1", "US-ASCII", "WINDOWS-1252")

Children = Mapping[str, tuple[str, ...]]
Attributes = dict[str, str]


class PlacedError(ModelError):
    """A refusal that names its line already."""


class XmlStream:
    """Calls back for every element of a file.

    `children` says which elements may stand inside which. For those in `texts` the text inside is
    collected and given to `on_text(name, text, attributes)`; for others there are `on_start(name,
    attributes)` and `on_end(name)`. Elements in `skipped` are passed over with all inside them.
    """

    def __init__(
        self,
        root: str,
        children: Children,
        texts: tuple[str, ...],
        skipped: tuple[str, ...] = (),
    ) -> None:
        self.root, self.children = root, children
        self.texts, self.skipped = frozenset(texts), frozenset(skipped)
        self.on_start: Callable[[str, Attributes], None] = lambda name, attributes: None
        self.on_end: Callable[[str], None] = lambda name: None
        self.on_text: Callable[[str, str, Attributes], None] = lambda name, text, attributes: None
        self._stack: list[str] = []
        self._lines_above = 0  # blank ones at the top
        self._skipping = 0  # depth of the element that is passed over
        self._text: list[str] = []

    @property
    def line(self) -> int:
        """The line that is being read."""
        return self._lines_above + self._parser.CurrentLineNumber

    def read(self, path: PathLike) -> None:
        """Read a file; what is refused is refused with its name and line."""
        self._parser = expat.ParserCreate()
        self._parser.buffer_text = True
        self._parser.StartElementHandler = self._start
        self._parser.EndElementHandler = self._end
        self._parser.StartDoctypeDeclHandler = _refuse_document_type
        self._parser.XmlDeclHandler = _check_encoding
        with opened(path) as file:
            try:
                rest = b""
                two_bytes = file.read(2) in (b"\xff\xfe", b"\xfe\xff")  # UTF-16: & is not a byte
                file.seek(0)
                self._lines_above = _pass_blanks(file)
                while True:
                    piece = file.read(PIECE)
                    raw = rest + piece
                    at = raw.rfind(b"&", max(len(raw) - LONGEST_REFERENCE, 0)) if piece else -1
                    rest, raw = (raw[at:], raw[:at]) if at >= 0 else (b"", raw)
                    raw = raw if two_bytes else BARE_AMPERSAND.sub(b"&amp;", raw)
                    self._parser.Parse(raw, not piece)
                    if not piece:
                        return
            except expat.ExpatError as error:
                said = expat.ErrorString(error.code)
                at = self._lines_above + error.lineno
                text = f"must be well-formed XML; at line {at}: {said}"
                raise refusal(path, text) from None
            except PlacedError as error:
                raise refusal(path, str(error)) from None
            except ModelError as error:
                raise refusal(path, f"line {self.line}: {error}") from None
            except (OSError, MemoryError) as error:
                raise refusal(path, f"cannot be read: {reason(error)}") from None

    def _start(self, name: str, attributes: Attributes) -> None:
        stack = self._stack
        if self._skipping:
            self._skipping += 1
            return
        if stack:
            if name not in self.children.get(stack[-1], ()):
                raise ModelError(f"<{name[:80]}> must not stand inside <{stack[-1]}>")
        elif name != self.root:
            raise ModelError(f"the first element must be <{self.root}>; it is <{name[:80]}>")
        if name in self.skipped:
            self._skipping = 1
            return
        stack.append(name)
        if name in self.texts:
            self._attributes = attributes
            self._parser.CharacterDataHandler = self._text.append
        else:
            if len(stack) > DEEPEST:
                raise ModelError(f"elements must be nested at most {DEEPEST} deep")
            self.on_start(name, attributes)

    def _end(self, name: str) -> None:
        if self._skipping:
            self._skipping -= 1
            return
        self._stack.pop()
        if name in self.texts:
            self._parser.CharacterDataHandler = None
            text = "".join(self._text)
            self._text.clear()
            self.on_text(name, text, self._attributes)
        else:
            self.on_end(name)


def _pass_blanks(file: BinaryIO) -> int:
    """Go to the first character that is not white space; the number of lines above it."""
    piece = file.read(LONGEST_BLANK)
    blank = len(piece) - len(piece.lstrip())
    file.seek(blank)
    return piece[:blank].count(b"\n")


def _check_encoding(version: str, encoding: str | None, standalone: int) -> None:
    if encoding is not None and encoding.upper() not in ENCODINGS:
        known = ", ".join(ENCODINGS)
        raise ModelError(f"the encoding must be one of {known}; it is {encoding[:80]!r}")


def _refuse_document_type(*arguments: object) -> None:
    raise ModelError("must not have a document type (<!DOCTYPE ...>), which could hold entities")
