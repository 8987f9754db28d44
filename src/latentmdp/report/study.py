"""A scaling study as a file: regret measured while one size of the problem varies at a time.

`study.json` holds the measurements and the exponents that were fitted to them; this module reads
it and refuses what it cannot trust. `scripts/theorem_study.py` writes one.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from latentmdp.errors import ModelError
from latentmdp.formats.files import PathLike, as_path, refusal
from latentmdp.formats.strict_json import read_json

STUDY_FILE = "study.json"
STUDY_FORMAT, STUDY_VERSION = "latentmdp-study", 1
KIND_NAMES: dict[type, str] = {
    dict: "an object", list: "a list", str: "text", int: "a whole number", float: "a number",
}  # fmt: skip


@dataclass(frozen=True)
class Point:
    """One measurement: the regret of one algorithm at size `x` with one seed."""

    algorithm: str
    x: float
    seed: int
    regret: float


@dataclass(frozen=True)
class Fit:
    """The exponent fitted to an algorithm's points, and its 95% interval."""

    algorithm: str
    exponent: float
    low: float
    high: float


@dataclass(frozen=True)
class Varied:
    """One size varied: what was measured, and which exponent the theorem's bound has in it."""

    parameter: str
    label: str
    model: str
    theorem_exponent: float | None
    points: tuple[Point, ...]
    fits: tuple[Fit, ...]
    note: str

    @property
    def algorithms(self) -> list[str]:
        """In order of appearance."""
        return list(dict.fromkeys(point.algorithm for point in self.points))

    def fit(self, algorithm: str) -> Fit | None:
        """The algorithm's exponent, if one was fitted."""
        return next((fit for fit in self.fits if fit.algorithm == algorithm), None)


@dataclass(frozen=True)
class Study:
    """All of `study.json`; `command` made it, with these `versions`, in so many `seconds`."""

    title: str
    command: str
    versions: dict[str, str]
    seconds: float
    varied: tuple[Varied, ...]

    @property
    def algorithms(self) -> list[str]:
        """In order of appearance."""
        return list(dict.fromkeys(name for varied in self.varied for name in varied.algorithms))


def load_study(path: PathLike) -> Study:
    """The study in a `study.json`, or in a folder that holds one."""
    place = as_path(path)
    file = place / STUDY_FILE if place.is_dir() else place
    document = read_json(file)
    try:
        return _study(document)
    except ModelError as error:
        raise refusal(file, str(error)) from None


def _study(document: dict[str, Any]) -> Study:
    found = document.get("format"), document.get("version")
    if found != (STUDY_FORMAT, STUDY_VERSION):
        raise ModelError(
            f"must have format {STUDY_FORMAT!r} and version {STUDY_VERSION}; it has {found[0]!r} "
            f"and {found[1]!r}"
        )
    versions = _take(document, "versions", dict, "")
    varied = _take(document, "varied", list, "")
    if not varied:
        raise ModelError("varied must have at least one entry; it is empty")
    return Study(
        _take(document, "title", str, ""),
        _take(document, "command", str, ""),
        {str(name): str(version) for name, version in versions.items()},
        _take(document, "seconds", float, ""),
        tuple(_varied(entry, f"varied[{i}].") for i, entry in enumerate(varied)),
    )


def _varied(entry: Any, where: str) -> Varied:
    entry = _checked(entry, dict, where.rstrip("."))
    rows, fits = _take(entry, "rows", list, where), _take(entry, "fits", list, where)
    if not rows:
        raise ModelError(f"{where}rows must have at least one entry; it is empty")
    exponent = None
    if entry.get("theorem_exponent") is not None:
        exponent = _take(entry, "theorem_exponent", float, where)
    return Varied(
        _take(entry, "parameter", str, where), _take(entry, "label", str, where),
        _take(entry, "model", str, where), exponent,
        tuple(_point(row, f"{where}rows[{i}].") for i, row in enumerate(rows)),
        tuple(_fit(fit, f"{where}fits[{i}].") for i, fit in enumerate(fits)),
        _take(entry, "note", str, where),
    )  # fmt: skip


def _point(row: Any, where: str) -> Point:
    row = _checked(row, dict, where.rstrip("."))
    x = _take(row, "x", float, where)
    if not x > 0:
        raise ModelError(f"{where}x must be above 0; it is {x:g}")
    return Point(
        _take(row, "algorithm", str, where), x, _take(row, "seed", int, where),
        _take(row, "regret", float, where),
    )  # fmt: skip


def _fit(fit: Any, where: str) -> Fit:
    fit = _checked(fit, dict, where.rstrip("."))
    exponent, low, high = (_take(fit, key, float, where) for key in ("exponent", "low", "high"))
    if not low <= exponent <= high:
        raise ModelError(
            f"{where}exponent must lie in its interval; {exponent:g} is not in {low:g} to {high:g}"
        )
    return Fit(_take(fit, "algorithm", str, where), exponent, low, high)


def _take(entry: dict[str, Any], key: str, kind: type, where: str) -> Any:
    if key not in entry:
        raise ModelError(f"{where}{key} must be there; it is missing")
    return _checked(entry[key], kind, where + key)


def _checked(value: Any, kind: type, where: str) -> Any:
    """The value, which must be of this kind; whole numbers are numbers, truth values are not."""
    kinds: Sequence[type] = (int, float) if kind is float else (kind,)
    if type(value) not in kinds:
        found = KIND_NAMES.get(type(value), "null" if value is None else "true or false")
        raise ModelError(f"{where} must be {KIND_NAMES[kind]}; it is {found}")
    if kind is not float:
        return value
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise ModelError(f"{where} must be a finite number; it is too large")
    return number
