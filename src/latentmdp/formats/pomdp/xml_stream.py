"""XML read piece by piece and without trust: no document types, so no entities; no odd elements.

A bare `&`, as in published files, stands for itself; blank lines at the top are passed over.
UTF-16 goes to the parser as UTF-8, so that both hold for it too.
"""

import codecs
import re
from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from typing import BinaryIO
from xml.parsers import expat

from latentmdp.errors import ModelError
from latentmdp.runtime.files import PathLike, opened, reason, refusal

PIECE = 1 << 20  # bytes that are read at a time
DEEPEST = 300  # elements inside one another
BARE_AMPERSAND = re.compile(
    rb"&(?!(?:amp|lt|gt|quot|apos|#[0-9]{1,7}|#x[0-9a-fA-F]{1,6});)"
)  # fmt: skip
LONGEST_REFERENCE = 12
UTF_16 = {  # by the first two bytes
    codecs.BOM_UTF16_LE: "utf-16", codecs.BOM_UTF16_BE: "utf-16", b"<\0": "utf-16-le",
    b"\0<": "utf-16-be",
}  # fmt: skip
ENCODINGS = ("UTF-8", "UTF-16", "ISO-8859-1", "US-ASCII", "WINDOWS-1252")

Children = Mapping[str, tuple[str, ...]]
Attributes = dict[str, str]


class PlacedError(ModelError):
    """An error whose message names the line already."""


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
        self._says_utf8 = True  # as XML is by default
        self._skipping = 0  # depth of the element that is passed over
        self._text: list[str] = []

    @property
    def line(self) -> int:
        """The line that is being read."""
        return self._lines_above + self._parser.CurrentLineNumber

    def read(self, path: PathLike) -> None:
        """Read a file; errors name the file and the line."""
        with opened(path) as file:
            first = file.read(2)
            file.seek(0)
            self._make_parser("UTF-8" if first in UTF_16 else None)
            try:
                rest = b""
                for number, piece in enumerate(_pieces(file, UTF_16.get(first))):
                    raw = rest + piece
                    if number == 0:
                        raw = piece.lstrip()
                        self._lines_above = piece[: len(piece) - len(raw)].count(b"\n")
                    at = raw.rfind(b"&", max(len(raw) - LONGEST_REFERENCE, 0))
                    rest, raw = (raw[at:], raw[:at]) if at >= 0 else (b"", raw)
                    self._parser.Parse(BARE_AMPERSAND.sub(b"&amp;", raw), False)
                self._parser.Parse(BARE_AMPERSAND.sub(b"&amp;", rest), True)
            except UnicodeDecodeError:
                raise refusal(path, "must be UTF-16 text, as it begins; it is not") from None
            except expat.ExpatError as error:
                at = self._lines_above + error.lineno
                if self._says_utf8 and first not in UTF_16 and not _line_is_utf8(path, at):
                    text = (
                        f"must be UTF-8 text; line {at} is not (a Latin-1 file must begin with "
                        '<?xml version="1.0" encoding="ISO-8859-1"?>)'
                    )
                else:
                    said = expat.ErrorString(error.code)
                    text = f"must be well-formed XML; at line {at}: {said}"
                raise refusal(path, text) from None
            except PlacedError as error:
                raise refusal(path, str(error)) from None
            except ModelError as error:
                raise refusal(path, f"line {self.line}: {error}") from None
            except (OSError, MemoryError) as error:
                raise refusal(path, f"cannot be read: {reason(error)}") from None

    def _make_parser(self, encoding: str | None) -> None:
        self._parser = expat.ParserCreate(encoding)
        self._parser.buffer_text = True
        self._parser.StartElementHandler = self._start
        self._parser.EndElementHandler = self._end
        self._parser.StartDoctypeDeclHandler = _refuse_document_type
        self._parser.XmlDeclHandler = self._check_encoding

    def _check_encoding(self, version: str, encoding: str | None, standalone: int) -> None:
        if encoding is not None and encoding.upper() not in ENCODINGS:
            known = ", ".join(ENCODINGS)
            raise ModelError(f"the encoding must be one of {known}; it is {encoding[:80]!r}")
        self._says_utf8 = encoding is None or encoding.upper() == "UTF-8"

    def _start(self, name: str, attributes: Attributes) -> None:
        stack = self._stack
        if self._skipping:
            self._skipping += 1
            return
        if stack:
            if name not in self.children.get(stack[-1], ()):
                raise ModelError(f"<{name[:80]}> must not stand inside <{stack[-1]}>, "
                                 f"{self._known(stack[-1])}")  # fmt: skip
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

    def _known(self, name: str) -> str:
        """The elements that an element may contain, for error messages."""
        children = self.children.get(name, ())
        return f"which may have <{'>, <'.join(children)}>" if children else "which has no elements"

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


def _pieces(file: BinaryIO, encoding: str | None) -> Iterator[bytes]:
    """The file piece by piece; what has an encoding is given in UTF-8."""
    pieces = iter(lambda: file.read(PIECE), b"")
    if encoding is None:
        return pieces
    return (text.encode() for text in codecs.iterdecode(pieces, encoding))


def _line_is_utf8(path: PathLike, number: int) -> bool:
    """Whether a line of a file, from 1, is UTF-8."""
    with opened(path) as file:
        line = next(islice(file, number - 1, None), b"")
    try:
        line.decode()
    except UnicodeDecodeError:
        return False
    return True


def _refuse_document_type(*arguments: object) -> None:
    raise ModelError("must not have a document type (<!DOCTYPE ...>), which could hold entities")
