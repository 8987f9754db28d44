"""Checks of the rows of a study's database: each row has a digest, and each part a type.

A row with a wrong digest or content is damaged and is never used as a result. `Store` lists such
rows, and they are run again on request.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Sequence
from typing import Any, NamedTuple

from latentmdp.errors import ModelError
from latentmdp.experiments.study_run import DIFFERENCES, VALUES, Plain, is_number

STATES = ("done", "failed")
KEEP = ("runs", "tables", "policies", "audits")
NUMBERS = (*VALUES, *DIFFERENCES, "updates", "seconds_planning", "seconds_simulation",
           "seconds_optimal")  # fmt: skip
"""Results that statistics read: numbers, or missing."""
LARGEST_WHOLE = 2**63 - 1  # what a column of whole numbers can hold
MOST_TEXT = 10_000  # characters of a result
DIGEST_LENGTH = 32  # hexadecimal digits


class DamagedRowError(Exception):
    """A row is not as it was written; the text says what is wrong."""


class Row(NamedTuple):
    """A run that is over."""

    key: str
    id: str
    state: str
    result: Plain
    curve: list[list[float]] | None
    kept: list[str]
    seconds: float
    finished: str
    made_by: Plain


class Optimum(NamedTuple):
    """The bracket of a class's optimum, and what planning it took."""

    lower: float
    upper: float
    seconds: float


def row_digest(values: Sequence[Any]) -> str:
    """The digest of a row's values, in the order of its columns.

    SQLite has no negative zero: it gives back 0.0.
    """
    plain = [value + 0.0 if isinstance(value, float) else value for value in values]
    text = json.dumps([None if value is None else str(value) for value in plain])
    return hashlib.sha256(text.encode()).hexdigest()[:DIGEST_LENGTH]


def check_digest(values: Sequence[Any], digest: Any) -> None:
    """Refuse a row that was changed since it was written."""
    if row_digest(values) != digest:
        raise DamagedRowError("it was changed after it was written: its digest does not match")


def checked_run(values: Sequence[Any]) -> Row:
    """A run's row from the values of its columns, all of them checked."""
    key, id, state, _, result, curve, kept, seconds, finished, made_by = values
    if not isinstance(key, str) or not isinstance(id, str) or not _is_id(id, key):
        raise DamagedRowError(f"its id must end in its key; it is {id!r:.100}")
    if state not in STATES:
        raise DamagedRowError(f"its state must be done or failed; it is {state!r:.100}")
    results = _parsed("result", result, dict)
    for name, value in results.items():
        try:
            check_result(name, value)
        except ModelError as error:
            raise DamagedRowError(str(error)) from None
    if state == "failed" and not isinstance(results.get("error"), str):
        raise DamagedRowError("the result of a failed run must say its error")
    points = None if curve is None else _checked_curve(_parsed("curve", curve, list))
    files = _parsed("kept", kept, list)
    if any(name not in KEEP for name in files):
        raise DamagedRowError(f"what is kept must be among {', '.join(KEEP)}; it is {files!r:.100}")
    makers = _parsed("made_by", made_by, dict)
    if not isinstance(finished, str):
        raise DamagedRowError("the time when it was finished must be text")
    return Row(key, id, state, results, points, files, _seconds(seconds), finished, makers)


def checked_optimum(values: Sequence[Any]) -> Optimum:
    """An optimum's row from the values of its columns, all of them checked."""
    _, _, lower, upper, _, seconds, _, _ = values
    if not (_finite(lower) and _finite(upper) and lower <= upper):
        raise DamagedRowError(f"its bounds must be finite and in order: {lower!r}, {upper!r}")
    return Optimum(lower, upper, _seconds(seconds))


def check_result(name: str, value: Any) -> None:
    """Refuse a result that a table cannot hold or statistics would misread."""
    if isinstance(value, bool) or value is None:
        pass
    elif isinstance(value, int):
        if abs(value) > LARGEST_WHOLE:
            raise ModelError(f"whole numbers of results must be below 2^63; {name} is not")
    elif isinstance(value, str):
        check_text(f"the result {name!r:.100}", value)
    elif not isinstance(value, float):
        raise ModelError(
            f"a task's results must be numbers or text; {name} is a {type(value).__name__}"
        )
    if name in NUMBERS and not (value is None or is_number(value)):
        raise ModelError(f"{name} must be a number; it is {value!r:.100}")


def check_text(what: str, text: str) -> None:
    """Refuse text that cannot be written as UTF-8, and very long text."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise ModelError(
            f"{what} must be text that UTF-8 can hold; character {error.start} is a lone surrogate"
        ) from None
    if len(text) > MOST_TEXT:
        raise ModelError(f"{what} must have at most {MOST_TEXT} characters; it has {len(text)}")


def failure_words(text: str) -> str:
    """The message of a failure, as text that a row can hold."""
    return text[:MOST_TEXT].encode("utf-8", "replace").decode("utf-8")


def _is_id(id: str, key: str) -> bool:
    return re.fullmatch(r"[A-Za-z0-9_.=-]*", id) is not None and id.endswith(f"-{key}")


def _parsed(name: str, text: Any, kind: type) -> Any:
    try:
        found = json.loads(text)
    except (TypeError, ValueError, RecursionError):
        raise DamagedRowError(f"its {name} must be JSON; it is not") from None
    if not isinstance(found, kind):
        raise DamagedRowError(f"its {name} must be a JSON {kind.__name__}; it is not")
    return found


def _checked_curve(points: list[Any]) -> list[list[float]]:
    right = len(points) == 2 and all(isinstance(part, list) for part in points)
    if not right or len(points[0]) != len(points[1]):
        raise DamagedRowError("its curve must be two lists, equally long")
    if not all(_finite(value) for part in points for value in part):
        raise DamagedRowError("its curve must have finite numbers")
    return points


def _seconds(value: Any) -> float:
    if not _finite(value) or value < 0:
        raise DamagedRowError(f"its seconds must be a number of at least 0; found {value!r:.100}")
    return float(value)


def _finite(value: Any) -> bool:
    if isinstance(value, int):
        return not isinstance(value, bool) and abs(value) <= LARGEST_WHOLE
    return isinstance(value, float) and math.isfinite(value)
