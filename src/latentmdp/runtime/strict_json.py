"""JSON without its traps: no duplicate keys, no NaN or Infinity, one clear refusal."""

import json
import math
import os
from typing import Any

from latentmdp.runtime.files import (
    PathLike,
    read_text,
    reason,
    refusal,
    write_atomically,
    writer_of,
)


class _RefusedError(ValueError):
    """What the parser's hooks raise; becomes a ModelError that names the file."""


def read_json(path: PathLike) -> dict[str, Any]:
    """The one JSON object in the file."""
    text = read_text(path)
    try:
        document = json.loads(text, object_pairs_hook=_without_duplicates, parse_constant=_refuse)
        if "\\ud" in text.lower():  # half a surrogate pair, which cannot be written again
            json.dumps(document, ensure_ascii=False).encode("utf-8")
    except _RefusedError as error:
        raise refusal(path, str(error)) from None
    except json.JSONDecodeError as error:
        where = f"line {error.lineno}, column {error.colno}"
        raise refusal(path, f"must be JSON; at {where}: {error.msg.lower()}") from None
    except UnicodeEncodeError:
        raise refusal(path, "must be Unicode text; it has a lone surrogate (half a pair)") from None
    except (ValueError, RecursionError, MemoryError) as error:
        raise refusal(path, f"must be JSON: {reason(error)}") from None
    if not isinstance(document, dict):
        kind = type(document).__name__
        raise refusal(path, f"must hold one JSON object; it holds a {kind}")
    return document


def write_json(path: PathLike, document: dict[str, Any]) -> None:
    """Write a document as `json_text`, all or nothing."""
    text = json_text(document).encode("utf-8")
    write_atomically(path, writer_of(text))


def json_text(document: dict[str, Any]) -> str:
    """One key per line, numbers in full precision (they read back to the same bits)."""
    lines = (
        f"{json.dumps(key)}: {json.dumps(value, allow_nan=False, separators=(',', ':'))}"
        for key, value in document.items()
    )
    return "{\n" + ",\n".join(lines) + "\n}\n"


def plain(value: Any) -> Any:
    """The value as dictionaries, lists, text and finite numbers; null for other numbers."""
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if hasattr(value, "tolist"):  # NumPy's arrays and scalars
        return plain(value.tolist())
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return os.fspath(value) if isinstance(value, os.PathLike) else value


def _without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise _RefusedError(f"each key may appear once; {key[:80]!r} appears twice")
        found[key] = value
    return found


def _refuse(constant: str) -> Any:
    raise _RefusedError(f"all numbers must be finite; found {constant}")
