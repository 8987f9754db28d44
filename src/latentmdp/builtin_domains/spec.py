"""Spec strings `name:key=value,...`: keys with bounds and defaults, and the domains they build.

A `Domain` is a table of `Key`s and a function from checked values to a model; the string and the
Python call `DOMAINS["maze"](size=7)` go through the same checks.
"""

import difflib
import math
import re
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from latentmdp.errors import ModelError
from latentmdp.model.latent_mdp import LatentMDP

MAX_OUTCOMES = 50_000_000
"""Largest number of outcomes (next states summed over all rows) that a domain will build."""

MAX_SEED = 10**18

_INTEGER = re.compile(r"[+-]?[0-9]+\Z")
_NUMBER = re.compile(r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?\Z")
_TRUE = {"1", "true", "yes", "on"}
_FALSE = {"0", "false", "no", "off"}

Value = int | float | bool | None


@dataclass(frozen=True)
class Key:
    """One key of a domain: its kind, its bounds (both included) and its default.

    The default is a value, or a function of the values given so far (then `default_text` says it
    in words), or None for a key that may be absent.
    """

    name: str
    kind: type
    default: Value | Callable[[Mapping[str, Any]], Value]
    low: float
    high: float
    meaning: str
    default_text: str = ""

    def check(self, value: object, domain: str) -> Value:
        """The value as this key's kind, or a ModelError that says what must hold."""
        where = f"{domain}: {self.name}"
        if self.kind is bool:
            return _boolean(value, where)
        number = _number(value, where)
        if not self.low <= number <= self.high:
            raise ModelError(
                f"{where} must be between {_text(self.low)} and {_text(self.high)}; "
                f"it is {_text(number)}"
            )
        if self.kind is int:
            if number != int(number):
                raise ModelError(f"{where} must be a whole number; it is {_text(number)}")
            return int(number)
        return float(number)

    def default_as_text(self) -> str:
        """The default for tables: a number, a formula in words, or a dash."""
        if self.default_text:
            return self.default_text
        return "-" if self.default is None or callable(self.default) else _text(self.default)

    def bounds_as_text(self) -> str:
        """The allowed values for tables."""
        return "0 or 1" if self.kind is bool else f"{_text(self.low)} to {_text(self.high)}"


@dataclass(frozen=True)
class Domain:
    """A family of models: its keys and the function that builds a member from their values."""

    name: str
    keys: tuple[Key, ...]
    build: Callable[..., LatentMDP]

    def __call__(self, *, observe_rewards: bool = True, **values: object) -> LatentMDP:
        """The member with these values; keys not given take their defaults."""
        return self.build(**self.complete(values), observe_rewards=observe_rewards)

    @property
    def summary(self) -> str:
        """What the domain is, in one sentence."""
        return self.description.split("\n\n")[0]

    @property
    def description(self) -> str:
        """What it is, what it is good for, why totals are at most 1: a line per paragraph."""
        paragraphs = (self.build.__doc__ or "").strip().split("\n\n")
        return "\n\n".join(" ".join(paragraph.split()) for paragraph in paragraphs)

    def complete(self, given: Mapping[str, object]) -> dict[str, Value]:
        """All values of all keys, checked, with defaults filled in."""
        known = {key.name for key in self.keys}
        for name in given:
            if name not in known:
                raise ModelError(
                    f"{self.name}: unknown key {name!r}{_did_you_mean(name, known)}; "
                    f"known keys: {', '.join(key.name for key in self.keys)}"
                )
        values: dict[str, Value] = {
            key.name: key.check(given[key.name], self.name)
            for key in self.keys
            if given.get(key.name) is not None
        }
        for key in self.keys:
            if key.name not in values:
                default = key.default(values) if callable(key.default) else key.default
                values[key.name] = default
        return {key.name: values[key.name] for key in self.keys}


def parse_spec(spec: str, domains: Mapping[str, Domain]) -> tuple[Domain, dict[str, str]]:
    """The domain and the raw `key=value` pairs of a spec string."""
    if not isinstance(spec, str):
        raise ModelError(f"a spec must be a string like 'maze:size=5'; it is {type(spec).__name__}")
    name, _, rest = spec.strip().partition(":")
    name = name.strip()
    if name not in domains:
        raise ModelError(
            f"unknown domain {name!r}{_did_you_mean(name, domains)}; "
            f"known domains: {', '.join(domains)}"
        )
    pairs: dict[str, str] = {}
    for item in rest.split(",") if rest.strip() else []:
        key, equals, value = (part.strip() for part in item.partition("="))
        if not (key and equals and value):
            raise ModelError(f"{name}: expected key=value between commas; found {item.strip()!r}")
        if key in pairs:
            raise ModelError(f"{name}: key {key!r} is given twice")
        pairs[key] = value
    return domains[name], pairs


def spec_string(domain: Domain, values: Mapping[str, Value]) -> str:
    """The spec string of complete values: what `make` was really given, all defaults written."""
    given = ((name, value) for name, value in values.items() if value is not None)
    return f"{domain.name}:" + ",".join(f"{name}={_exact(value)}" for name, value in given)


def generator(domain: str, seed: int) -> np.random.Generator:
    """The random stream of a domain's seed, apart from every other use of the same seed."""
    key = zlib.crc32(domain.encode())
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(key,)))


def require_size(domain: str, outcomes: int) -> None:
    """Refuse a model too large to be built, before any memory is spent."""
    if outcomes > MAX_OUTCOMES:
        raise ModelError(
            f"{domain}: contexts x states x actions x next states must be at most "
            f"{MAX_OUTCOMES:,}; these keys give {outcomes:,}"
        )


def _number(value: object, where: str) -> int | float:
    if isinstance(value, str):
        text = value.strip()
        if _INTEGER.match(text) and len(text) <= 400:
            return int(text)
        if not _NUMBER.match(text):
            raise ModelError(f"{where} must be a number; it is {value!r}")
        number: int | float = float(text)
    elif isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool):
        number = value.item() if isinstance(value, np.generic) else value
    else:
        raise ModelError(f"{where} must be a number; it is {value!r}")
    if not math.isfinite(number):
        raise ModelError(f"{where} must be a finite number; it is {value!r}")
    return number


def _boolean(value: object, where: str) -> bool:
    text = str(value).strip().lower()
    if text in _TRUE:
        return True
    if text in _FALSE:
        return False
    raise ModelError(f"{where} must be 0 or 1; it is {value!r}")


def _text(number: float) -> str:
    if isinstance(number, bool):
        return str(int(number))
    if isinstance(number, int) or float(number).is_integer():
        digits = str(int(number))
        long_round = len(digits) > 5 and digits.rstrip("0") == "1"
        return f"1e{len(digits) - 1}" if long_round else digits
    return f"{number:g}"


def _exact(value: Value) -> str:
    return str(int(value)) if isinstance(value, bool) else repr(value)


def _did_you_mean(name: str, known: object) -> str:
    close = difflib.get_close_matches(name, list(known), n=1)  # type: ignore[call-overload]
    return f" (did you mean {close[0]!r}?)" if close else ""
