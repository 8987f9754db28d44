"""The document of a study's file, with the line of each key for refusals."""

import difflib
import json
import re
import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from latentmdp.errors import ModelError
from latentmdp.runtime.files import read_text, refusal

_KEY = re.compile(r"([A-Za-z0-9_-]+)\s*=")
_HEADER = re.compile(r"\s*\[(\[)?\s*([A-Za-z0-9_-]+)\s*\]\]?\s*(#.*)?$")


class Document:
    """The values of a file (TOML, or JSON of the same structure), and the lines of its keys."""

    def __init__(self, values: dict[str, Any], text: str = "", path: Path | None = None) -> None:
        self.values, self.path = values, path
        self._lines = text.split("\n")

    @classmethod
    def read(cls, path: Path) -> "Document":
        """Read a file; invalid TOML is refused with its line."""
        text = read_text(path)
        try:
            if path.suffix.lower() == ".json":
                return cls(_object(json.loads(text)), text, path)
            return cls(tomllib.loads(text), text, path)
        except (tomllib.TOMLDecodeError, json.JSONDecodeError, RecursionError) as error:
            kind = "JSON" if path.suffix.lower() == ".json" else "TOML"
            raise refusal(path, f"must be {kind}: {error}") from None

    def refusal(
        self, where: tuple[str | int, ...], text: str, value: str | None = None
    ) -> ModelError:
        """An error with the file, the line, and what is wrong.

        The line is the first one with `value`, if it is given; else that of the key at `where`.
        """
        with_value = (i for i, line in enumerate(self._lines, 1) if value and value in line)
        line = next(with_value, 0) or self._line_of(where)
        if self.path is None:
            return ModelError(text)
        return refusal(self.path, f"line {line}: {text}" if line else text)

    def require(self, right: bool, where: tuple[str | int, ...], text: str) -> None:
        """Refuse what stands at `where`, unless it is right."""
        if not right:
            raise self.refusal(where, text)

    def check_keys(
        self, table: dict[str, Any], known: Iterable[str], where: tuple[str | int, ...]
    ) -> None:
        """Refuse an unknown key, and suggest a similar one."""
        names = list(known)
        for key in table:
            if key not in names:
                close = difflib.get_close_matches(key, names, n=1)
                meant = f" (did you mean {close[0]!r}?)" if close else ""
                place = f" in {where[0]}" if where else ""
                raise self.refusal(
                    (*where, key), f"unknown key {key!r}{place}{meant}; known: {', '.join(names)}"
                )

    def _line_of(self, where: tuple[str | int, ...]) -> int:
        """The line where a key stands; that of its table, or 0, where it cannot be found.

        `tomllib` does not keep lines, so this looks for `key =` in the part of the file that
        belongs to the table: `[[models]]` counts up, and what comes before all tables is the top.
        """
        names = [part for part in where if isinstance(part, str)]
        if not names:
            return 0
        index = next((part for part in where if isinstance(part, int)), 0)
        part, count, first, inline = "", -1, 0, ""
        for number, line in enumerate(self._lines, start=1):
            header, key = _HEADER.match(line), _KEY.match(line)
            if header:
                count = count + 1 if header.group(2) == part else 0
                part, inline = header.group(2), ""
            elif key and not part:
                inline = key.group(1)  # `models = [` may go on for lines
            if names == [part] and header:
                return number
            inside = len(names) == 1 or inline == names[0] or (part, count) == (names[0], index)
            if inside:
                first = first or number
                if re.search(rf"(^|[\s{{,\"']){re.escape(names[-1])}[\"']?\s*[=:]", line):
                    return number
        return first if len(names) > 1 else 0


def _object(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ModelError(f"a study must be one object; it is a {type(value).__name__}")
    return value
