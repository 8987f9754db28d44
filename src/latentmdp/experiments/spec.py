"""A study as data: models, algorithms, options, seeds, and the runs they make.

    title = "Two learners in a maze"
    episodes = 1e6
    seeds = 10
    policy_class = ["markov", "history"]
    algorithms = ["mvp", { algorithm = "bernstein", bonus_scale = [1, 0.01] }]

    [[models]]
    name = "maze"
    model = "maze:size=3,goals=2,horizon={H}"
    sweep = { H = [4, 8, 16] }

Options of runs (`OPTIONS`) may stand at the top, in a model or in an algorithm; an algorithm's own
win over its model's, and those over the top's. A list is swept. `{seed}` in a model is the run's
seed. `[[tasks]]` calls functions in place of learners.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from latentmdp.errors import ModelError
from latentmdp.experiments.lines import Document
from latentmdp.experiments.sources import ModelSources, code_digest, split_function
from latentmdp.experiments.spec_checks import (
    COLUMNS,
    TASK_COLUMNS,
    Where,
    check_model_options,
    check_plain,
)
from latentmdp.experiments.stored_rows import KEEP
from latentmdp.experiments.study_run import Plain, StudyRun, is_number

if TYPE_CHECKING:
    import pandas as pd

OPTIONS = ("episodes", "policy_class", "delta", "bonus_scale", "simulator", "ties")
"""Options of a run: their names in the file are those of `learn`."""
ALIASES = {"policy_class": "classes"}  # older names in files
DEFAULTS: Plain = {"episodes": 10**6}
MODEL_OPTIONS = ("observe_rewards", "horizon", "discount", "normalize", "unroll")
TOP = ("title", "folder", "models", "algorithms", "tasks", "seeds", "keep", "limits",
       "run_time_limit", *OPTIONS, *ALIASES.values())  # fmt: skip
MODEL = ("name", "model", "sweep", "seeds", *MODEL_OPTIONS, *OPTIONS, *ALIASES.values())
ALGORITHM = ("name", "algorithm", "python", *OPTIONS, *ALIASES.values())
WORDS = ("size", "setting", "note")  # texts about a task for its page; `size`: what it sweeps
TASK = ("name", "function", "arguments", "sweep", "seeds", "exponent", *WORDS)
MOST_SEEDS = 10**7
MOST_CELLS = 10**5  # combinations of everything but the seed


class StudySpec:
    """A checked study. `runs()` generates its runs one by one: there may be many."""

    def __init__(self, document: Document, base: Path) -> None:
        self._document, self.base = document, base
        values = document.values
        document.check_keys(values, TOP, ())
        self._check_aliases(values, ())
        check_plain(document, values)
        self.title = self._text(values, "title", ())
        self.folder = self._text(values, "folder", ())
        self.keep = self._keep(values)
        self.limits = self._limits(values)
        self.run_time_limit = self._run_time_limit(values)
        self._top = values
        self._sources = ModelSources(base)
        self._models = self._entries("models", MODEL, "model")
        for i, model in enumerate(self._models):
            check_model_options(document, model, ("models", i))
        self._algorithms = self._entries("algorithms", ALGORITHM, "algorithm")
        for j, algorithm in enumerate(self._algorithms):
            self._text(algorithm, "python", ("algorithms", j))
        self._tasks = self._entries("tasks", TASK, "function")
        self.about = self._about()
        missing = "algorithms" if self._models else "models"
        document.require(
            bool(self._models) == bool(self._algorithms), (),
            f"a study of learners needs {missing}; there are none",
        )  # fmt: skip
        document.require(
            bool(self._models or self._tasks), (), "a study needs models and algorithms, or tasks"
        )
        self._check_names()
        self._check_size()
        self._check_cells()

    def runs(self) -> Iterator[StudyRun]:
        """All runs, in the order of the file; seeds vary fastest."""
        for cell, seeds in self._cells():
            for seed in seeds:
                yield cell.run(seed)

    def within_limits(self, table: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
        """The runs within all limits, and those with a column above its limit."""
        over = np.zeros(len(table), dtype=bool)
        for name, most in self.limits.items() if len(table) else ():
            if name not in table:
                names = ", ".join(map(str, table.columns))
                text = f"limits must name columns of the table ({names}); it has {name!r}"
                raise self._document.refusal(("limits",), text)
            over |= (table[name] > most).to_numpy()
        return table[~over], table[over]

    @property
    def needs_policies(self) -> bool:
        """Whether an algorithm plays the optimum's policy."""
        return any(entry["algorithm"] == "oracle" for entry in self._algorithms)

    # ------------------------------------------------------------------ reading

    def _entries(self, name: str, known: tuple[str, ...], main: str) -> list[Plain]:
        """The tables of a list; a text stands for a table with the main key only."""
        found = self._top.get(name, [])
        require = self._document.require
        require(isinstance(found, list), (name,), f"{name} must be a list; it is {found!r}")
        entries = []
        for i, entry in enumerate(found):
            entry = {main: entry} if isinstance(entry, str) else entry
            text = f"{name} must hold text or tables; it holds {entry!r}"
            require(isinstance(entry, dict), (name, i), text)
            self._document.check_keys(entry, known, (name, i))
            self._check_aliases(entry, (name, i))
            given = entry.get(main)
            text = f"each of {name} must have {main} as text; one has {given!r}"
            require(isinstance(given, str) and given != "", (name, i), text)
            self._text(entry, "name", (name, i))
            entries.append(entry)
        return entries

    def _check_aliases(self, table: Plain, where: Where) -> None:
        for name, old in ALIASES.items():
            text = f"{old} is an older name of {name}: give one of them"
            self._document.require(not {name, old} <= set(table), (*where, old), text)

    def _text(self, table: Plain, key: str, where: Where) -> str | None:
        found = table.get(key)
        right = found is None or (isinstance(found, str) and found != "")
        self._document.require(right, (*where, key), f"{key} must be text; it is {found!r}")
        return found

    def _keep(self, values: Plain) -> tuple[str, ...]:
        keep = _as_list(values.get("keep", []))
        for name in keep:
            text = f"keep must be among {', '.join(KEEP)}; it has {name!r}"
            self._document.require(name in KEEP, ("keep",), text)
        return tuple(name for name in KEEP if name in keep)

    def _limits(self, values: Plain) -> dict[str, float]:
        limits = values.get("limits", {})
        right = isinstance(limits, dict) and all(map(is_number, limits.values()))
        text = f"limits must be like {{ short = 1e-9 }}; it is {limits!r}"
        self._document.require(right, ("limits",), text)
        return limits

    def _run_time_limit(self, values: Plain) -> float | None:
        """Seconds after which a run is ended; None for no limit."""
        found = values.get("run_time_limit")
        right = found is None or (is_number(found) and found > 0)
        text = f"run_time_limit must be seconds above 0; it is {found!r}"
        self._document.require(right, ("run_time_limit",), text)
        return found

    def _about(self) -> dict[str, Plain]:
        """Texts of the page about each task, by its name; `exponent` is that of a theorem."""
        found: dict[str, Plain] = {}
        for i, task in enumerate(self._tasks):
            about: Plain = {
                key: self._text(task, key, ("tasks", i)) for key in WORDS if key in task
            }
            if "exponent" in task:
                about["exponent"] = task["exponent"]
                text = f"exponent must be a number; it is {task['exponent']!r}"
                self._document.require(is_number(task["exponent"]), ("tasks", i, "exponent"), text)
            found[str(task.get("name", task["function"]))] = about
        return found

    def _check_names(self) -> None:
        """Refuse equal names, which a table could not distinguish."""
        for part in ("models", "algorithms", "tasks"):
            names = [entry["name"] for entry in self._top.get(part, []) if _named(entry)]
            for i, name in enumerate(names):
                text = f"names of {part} must differ; {name!r} appears twice"
                self._document.require(name not in names[:i], (part,), text)

    def _check_size(self) -> None:
        """Count the combinations before any is made: a short file can ask for billions."""
        cells = 0
        for i, model in enumerate(self._models):
            swept = _combinations(self._swept(model, ("models", i), COLUMNS))
            options = (
                _combinations(self._option_values(model, i, algorithm, j))
                for j, algorithm in enumerate(self._algorithms)
            )
            cells += swept * sum(options)
        for i, task in enumerate(self._tasks):
            cells += _combinations(self._swept(task, ("tasks", i), TASK_COLUMNS))
        self._document.require(
            cells <= MOST_CELLS, (),
            f"a study may have at most {MOST_CELLS:,} combinations of models, swept keys, "
            f"algorithms and options, besides seeds; this one has {cells:,}: split it",
        )  # fmt: skip

    def _check_cells(self) -> None:
        """Refuse bad values, and runs that a table could not distinguish, before any work."""
        seen: set[tuple[Any, ...]] = set()
        for cell, seeds in self._cells():
            labels = cell.run(next(iter(seeds))).labels
            words = tuple((k, v) for k, v in labels.items() if k != "seed")
            part, name = next(iter(labels.items()))
            self._document.require(
                words not in seen, (f"{part}s",),
                f"runs of a study must differ in their columns; some of {name!r} do not: leave one "
                "out, or give its entries names (name = ...)",
            )  # fmt: skip
            seen.add(words)

    def _seeds(self, *tables: tuple[Plain, Where]) -> range | list[int]:
        """The seeds of the first of these tables that has any: a number of them, or a list."""
        for table, where in tables:
            if "seeds" not in table:
                continue
            found = table["seeds"]
            if _whole(found) and 1 <= found <= MOST_SEEDS:
                return range(int(found))
            if isinstance(found, list) and found and all(_whole(x) and x >= 0 for x in found):
                return list(dict.fromkeys(int(x) for x in found))
            raise self._document.refusal(
                (*where, "seeds"),
                f"seeds must be a number from 1 to 10^7 or a list of whole numbers; it is "
                f"{found!r}",
            )
        return range(1)

    def _swept(self, entry: Plain, where: Where, taken: tuple[str, ...]) -> dict[str, list[Any]]:
        """The values of the swept keys, none of which may be `taken` by another column."""
        sweep = entry.get("sweep", {})
        require = self._document.require
        text = f"sweep must be like {{ H = [4, 8] }}; it is {sweep!r}"
        require(isinstance(sweep, dict), (*where, "sweep"), text)
        for key, values in sweep.items():
            right = key not in taken and re.fullmatch(r"\w+", key) is not None
            text = f"a swept key must be a word that names no other column; it is {key!r}"
            require(right, (*where, key), text)
            require(values != [], (*where, key), f"{key} must have values; it has none")
            for value in _as_list(values):
                right = isinstance(value, (int, float, str)) and value != ""
                text = f"{key} must be numbers or text; it has {value!r}"
                require(right, (*where, key), text)
        return {key: _distinct(values) for key, values in sweep.items()}

    # ------------------------------------------------------------------ cells

    def _cells(self) -> Iterator[tuple[_LearnCell | _CallCell, range | list[int]]]:
        """Everything but the seed, checked."""
        for i, model in enumerate(self._models):
            seeds = self._seeds((model, ("models", i)), (self._top, ()))
            for swept in _product(self._swept(model, ("models", i), COLUMNS)):
                for j, algorithm in enumerate(self._algorithms):
                    for options in _product(self._option_values(model, i, algorithm, j)):
                        try:
                            cell = self._learn_cell(model, swept, algorithm, options)
                            cell.run(next(iter(seeds)))
                        except ModelError as error:
                            raise self._located(error, model, i, algorithm, j) from None
                        yield cell, seeds
        for i, task in enumerate(self._tasks):
            seeds = self._seeds((task, ("tasks", i)), (self._top, ()))
            for swept in _product(self._swept(task, ("tasks", i), TASK_COLUMNS)):
                try:
                    call = _CallCell(task, swept, self.base)
                except ModelError as error:
                    raise self._document.refusal(("tasks", i), str(error)) from None
                yield call, seeds

    def _located(
        self, error: ModelError, model: Plain, i: int, algorithm: Plain, j: int
    ) -> ModelError:
        """The error with the line of the option that it is about, the algorithm or the model."""
        for name in OPTIONS:
            if str(error).startswith(f"{name} must"):
                where = self._place(name, model, i, algorithm, j)
                return self._document.refusal(where, str(error))
        if str(error).startswith(("algorithm", "python")):
            return self._document.refusal(
                ("algorithms", j), str(error), f'"{algorithm["algorithm"]}"'
            )
        return self._document.refusal(("models", i), str(error), f'"{model["model"]}"')

    def _place(self, name: str, model: Plain, i: int, algorithm: Plain, j: int) -> Where:
        """Where an option of runs is given."""
        if (key := _option_key(algorithm, name)) is not None:
            return ("algorithms", j, key)
        if (key := _option_key(model, name)) is not None:
            return ("models", i, key)
        return (_option_key(self._top, name) or name,)

    def _option_values(
        self, model: Plain, i: int, algorithm: Plain, j: int
    ) -> dict[str, list[Any]]:
        """The values of each option of runs; an algorithm's own come first."""
        lists: dict[str, list[Any]] = {}
        for name in OPTIONS:
            for table in (algorithm, model, self._top, DEFAULTS):
                key = _option_key(table, name)
                if key is not None:
                    lists[name] = _distinct(table[key])
                    break
            where = self._place(name, model, i, algorithm, j)
            text = f"{name} must have values; it has none"
            self._document.require(lists.get(name) != [], where, text)
        return lists

    def _learn_cell(
        self, model: Plain, swept: Plain, algorithm: Plain, options: Plain
    ) -> _LearnCell:
        from latentmdp.learning.spec import (
            RunSpec,
        )  # loads the kernels, which tasks may not need

        spec = RunSpec(algorithm["algorithm"], **options)
        spec.check_range()
        content = {k: v for k, v in asdict(spec).items() if k != "seed"}
        where: Plain = {}
        if "python" in algorithm:
            digest, where["python"] = code_digest(self.base, algorithm["python"])
            content["python"] = digest
        else:
            spec.check_algorithm()
        name = algorithm.get("name", algorithm["algorithm"])
        labels = {"algorithm": name, **{k: v for k, v in content.items() if k in OPTIONS}}
        source = {k: v for k, v in model.items() if k in MODEL_OPTIONS}
        return _LearnCell(self._sources, model, source, swept, content, labels, where)


class _LearnCell:
    """A model, an algorithm and its options: a run for each seed."""

    def __init__(
        self, sources: ModelSources, model: Plain, source: Plain, swept: Plain,
        content: Plain, labels: Plain, where: Plain,
    ) -> None:  # fmt: skip
        self._sources, self._source, self._swept = sources, source, swept
        self._content, self._labels, self._where = content, labels, where
        self._template = filled(model["model"], swept, {"seed": "{seed}"})
        unused = [key for key in swept if f"{{{key}}}" not in model["model"]]
        if unused:
            raise ModelError(f"swept key {unused[0]!r} must be in the model, as {{{unused[0]}}}")
        self._name = filled(model.get("name", self._template), swept, {"seed": "{seed}"})

    def run(self, seed: int) -> StudyRun:
        """The run with this seed."""
        text = filled(self._template, {}, {"seed": seed})
        identity, where = self._sources.identity(text, self._source)
        return StudyRun(
            "learn",
            {"model": identity, **self._content, "seed": seed},
            {"model": self._name, **self._swept, **self._labels, "seed": seed},
            {"model": where, **self._where},
        )


class _CallCell:
    """A function with its arguments: a run for each seed."""

    def __init__(self, task: Plain, swept: Plain, base: Path) -> None:
        arguments = task.get("arguments", {})
        if not isinstance(arguments, dict):
            raise ModelError(f"arguments must be a table; it is {arguments!r}")
        given = [key for key in ("seed", "stream") if key in arguments]
        if given:
            raise ModelError(f"arguments must not have {given[0]!r}: each run has its own")
        twice = [key for key in swept if key in arguments]
        if twice:
            raise ModelError(f"{twice[0]!r} must be swept or an argument; it is both")
        self._arguments = {**arguments, **swept}
        self._swept, self._name = swept, task.get("name", task["function"])
        place, function = split_function(task["function"])
        self._content: Plain = {"function": task["function"]}
        self._where: Plain = {"function": task["function"]}
        if place.endswith(".py"):
            digest, path = code_digest(base, place)
            self._content = {"function": function, "python": digest}
            self._where = {"function": function, "python": path}

    def run(self, seed: int) -> StudyRun:
        """The run with this seed."""
        return StudyRun(
            "call",
            {**self._content, "arguments": self._arguments, "seed": seed},
            {"task": self._name, **self._swept, "seed": seed},
            self._where,
        )


# ---------------------------------------------------------------------- small parts


def filled(template: str, swept: Plain, more: Plain) -> str:
    """The text with `{key}` replaced; a key that is not swept is refused.

    >>> filled("maze:size={S},seed={seed}", {"S": 4}, {"seed": 2})
    'maze:size=4,seed=2'
    """
    values = {**swept, **more}

    def value(match: re.Match[str]) -> str:
        key = match.group(1)
        if key not in values:
            raise ModelError(
                f"{{{key}}} in {template!r} must be swept: sweep = {{ {key} = [...] }}"
            )
        found = values[key]
        return repr(found) if isinstance(found, float) and not found.is_integer() else (
            str(int(found)) if isinstance(found, float) else str(found)
        )  # fmt: skip

    return re.sub(r"\{(\w+)\}", value, template)


def _option_key(table: Plain, name: str) -> str | None:
    """The key of an option in a table: its name or an older one; None if it is not there."""
    return next((key for key in (name, ALIASES.get(name)) if key in table), None)


def _combinations(lists: dict[str, list[Any]]) -> int:
    """The number of combinations that `_product` gives."""
    return math.prod(len(values) for values in lists.values())


def _product(lists: dict[str, list[Any]]) -> Iterator[Plain]:
    """All combinations, one by one; the last key varies fastest."""
    for values in itertools.product(*lists.values()):
        yield dict(zip(lists, values, strict=True))


def _as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _distinct(value: Any) -> list[Any]:
    """A list of values without repetitions."""
    found: dict[Any, Any] = {}
    for one in _as_list(value):
        found.setdefault(_identity(one), one)
    return list(found.values())


def _identity(value: Any) -> Any:
    """Equal exactly for values that `==` calls equal; a list or table stands for itself."""
    try:
        hash(value)
    except TypeError:
        return id(value)
    return value


def _whole(value: Any) -> bool:
    return is_number(value) and (isinstance(value, int) or value.is_integer())


def _named(entry: Any) -> bool:
    return isinstance(entry, dict) and "name" in entry
