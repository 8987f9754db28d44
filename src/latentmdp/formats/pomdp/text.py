"""Cassandra's `.pomdp` language, as pomdp-solve and SARSOP read it.

    discount: 0.95
    values: reward                          # or cost
    states: left right                      # names, or how many
    actions: listen open
    observations: hear-left hear-right
    start: uniform                          # or numbers, a state, include: ..., exclude: ...
    T: listen identity                      # T: action : state : next number, rows, matrices,
    O: listen : * uniform                   # uniform, identity, reset; * is everything
    R: open : left : * : * -100

The last statement about an entry applies; entries without one are 0. Without `observations` the
state itself is observed.
"""

from collections.abc import Iterator, Sequence
from math import prod
from typing import Any

import numpy as np

from latentmdp.csr import Floats, Ints
from latentmdp.errors import ModelError
from latentmdp.formats.pomdp.flat import Pomdp, Variable, distribution, distributions
from latentmdp.formats.pomdp.names import Names, Numbered
from latentmdp.formats.pomdp.rules import ANY, Allowance, Csr, Rules
from latentmdp.formats.pomdp.words import Words, file_words
from latentmdp.model.repair import Repairs
from latentmdp.runtime.files import PathLike

SIGN = {"reward": 1.0, "rewards": 1.0, "cost": -1.0, "costs": -1.0}  # some files say it so
PREAMBLE = ("discount", "values", "states", "actions", "observations")
TABLES = ("T", "O", "R")
KEYWORDS = (*PREAMBLE, *TABLES, "start")
MANY = 1 << 16  # single numbers that are made into rules at a time


def read_pomdp_text(
    path: PathLike, discount: float | None = None, repairs: Repairs | None = None
) -> Pomdp:
    """The POMDP in a file; `discount` in place of the file's own."""
    with file_words(path) as words:
        return _Reader(words, discount, repairs or Repairs()).read()


class _Reader:
    """Reads statement by statement; `words` knows the line for error messages."""

    def __init__(self, words: Words, discount: float | None, repairs: Repairs) -> None:
        self.words, self.discount, self.repairs = words, discount, repairs
        self.sign = 1.0
        self.names: dict[str, Sequence[str]] = {}
        self.start: Floats | None = None
        self.allowance = Allowance(words.file_bytes)

    def read(self) -> Pomdp:
        """All of the file."""
        with self.words.naming_lines():
            self._preamble()
            self._prepare()
            if self.words.ahead(0) == "start":
                self._start()
            while self.words.ahead(0) is not None:
                self._statement()
        return self._finished()

    # ------------------------------------------------------------------ the preamble

    def _preamble(self) -> None:
        while self.words.ahead(0) not in (None, "start", *TABLES):
            key = self.words.take()
            if key not in PREAMBLE:
                known = ", ".join(PREAMBLE)
                raise ModelError(f"the file must begin with {known}; found {key[:80]!r}")
            self.words.take_colon(key)
            if key == "discount":
                given = self.words.number("discount")
                self.discount = given if self.discount is None else self.discount
            elif key == "values":
                kind = self.words.take()
                if kind not in SIGN:
                    raise ModelError(f"values must be reward or cost; found {kind[:80]!r}")
                self.sign = SIGN[kind]
            elif key in self.names:
                raise ModelError(f"{key} must be given once; they are given twice")
            else:
                self.names[key] = self._name_list(key)

    def _name_list(self, key: str) -> Sequence[str]:
        names = list(self._until_keyword())
        if len(names) == 1 and names[0].isdecimal():
            count = int(names[0]) if len(names[0]) < 19 else 2**62
            self.allowance.check(count, f"{count} {key}")
            names_or_numbers: Sequence[str] = Numbered("", count)
        else:
            names_or_numbers = names
        if len(names_or_numbers) == 0:
            raise ModelError(f"{key} must be names, or how many there are; found none")
        return names_or_numbers

    def _until_keyword(self) -> Iterator[str]:
        """Words up to the next statement: a keyword with a colon (or `start include`)."""
        while (word := self.words.ahead(0)) is not None:
            if word in KEYWORDS:
                after = self.words.ahead(1)
                if after == ":" or (word == "start" and after in ("include", "exclude")):
                    return
            if word == ":":
                raise ModelError("a colon must follow one of the words of the language")
            yield self.words.take()

    def _prepare(self) -> None:
        for key in ("states", "actions"):
            if key not in self.names:
                raise ModelError(f"{key} must be given before start, T, O and R; they are missing")
        if self.discount is None:
            raise ModelError("the discount must be given; the file has none")
        self.has_observations = "observations" in self.names
        states, actions = self.names["states"], self.names["actions"]
        seen = self.names.get("observations", states)
        S, A, L = len(states), len(actions), len(seen)
        self.allowance.check(S * A, f"{S} states x {A} actions")
        self.state, self.action = Names("state", states), Names("action", actions)
        self.seen = Names("observation", seen)
        self.rules = {
            "T": Rules((A, S, S), self.allowance),
            "O": Rules((A, S, L), self.allowance),
            "R": Rules((A, S, S, L if self.has_observations else 1), self.allowance),
        }
        self.name_of = {
            "T": (self.action, self.state, self.state),
            "O": (self.action, self.state, self.seen),
            "R": (self.action, self.state, self.state, self.seen),
        }
        self.pending: dict[str, list[list[Any]]] = {
            table: [[] for _ in range(len(names) + 1)] for table, names in self.name_of.items()
        }

    def _start(self) -> None:
        S = len(self.names["states"])
        self.words.take()
        word = self.words.ahead(0)
        if word in ("include", "exclude"):
            self.words.take()
            self.words.take_colon(word)
            self._start_among(word == "include")
            return
        self.words.take_colon("start")
        word, after = self.words.ahead(0) or "", self.words.ahead(1)
        if word == "uniform":
            self.words.take()
            self.start = np.full(S, 1.0 / S)
        elif S > 1 and (word in self.state or (word.isdecimal() and after in (None, *KEYWORDS))):
            self._start_among(True)
        else:
            numbers = np.concatenate([part for _, part in self.words.numbers(S, "start")])
            self.start = distribution(numbers, "start", self.repairs)

    def _start_among(self, included: bool) -> None:
        """Each of the states that follow with the same probability, or each of the others."""
        listed = self.state.numbers(self._until_keyword())
        if len(listed) == 0 or (listed == ANY).any():
            raise ModelError("start must be followed by states; found none, or '*'")
        chosen = np.full(len(self.names["states"]), not included)
        chosen[listed] = included
        if not chosen.any():
            raise ModelError("start exclude must leave a state; it excludes all of them")
        self.start = chosen / chosen.sum()

    # ------------------------------------------------------------------ T, O and R

    def _statement(self) -> None:
        """One statement, or many that give one number each."""
        known = {key: self.name_of[key] for key in TABLES if key != "O" or self.has_observations}
        cells = self.words.statements(known)
        if cells is not None:
            for table, columns in cells.items():
                for column, more in zip(self.pending[table], columns, strict=True):
                    column += more
                if len(self.pending[table][0]) > MANY:
                    self._add_pending(table)
            return
        table = self.words.take()
        if table not in TABLES:
            raise ModelError(f"a statement must begin with T, O or R; found {table[:80]!r}")
        if table == "O" and not self.has_observations:
            raise ModelError("observations must be given before O; they are missing")
        self._add_pending(table)
        self.words.take_colon(table)
        names = self.name_of[table]
        place = [names[0][self.words.take()]]
        while self.words.ahead(0) == ":":
            self.words.take()
            if table == "O" and len(place) == 2 and self.words.ahead(0) == "uniform":
                break  # O: action : state : uniform, says the grammar
            if len(place) == len(names):
                raise ModelError(f"{table} must have at most {len(names)} names; found another")
            place.append(names[len(place)][self.words.take()])
        self._values(table, place)

    def _add_pending(self, table: str) -> None:
        *places, values = self.pending[table]
        if values:
            columns = [np.array(column, dtype=np.int64) for column in places]
            self.rules[table].add_many(columns, np.array(values))
            self.pending[table] = [[] for _ in self.pending[table]]

    def _values(self, table: str, place: list[int]) -> None:
        """The values of a statement: numbers, or a keyword such as `uniform`."""
        rules = self.rules[table]
        sizes = rules.sizes
        open_ = list(range(len(place), len(sizes)))
        if len(open_) > 2:
            raise ModelError("R must name an action and a state; found an action only")
        place = place + [ANY] * len(open_)
        word = self.words.ahead(0)
        if word == "uniform" and table != "R" and open_:
            self.words.take()
            rules.add(place, 1.0 / sizes[-1])
        elif word == "identity" and table != "R" and len(open_) == 2:
            self.words.take()
            if sizes[1] != sizes[2]:
                raise ModelError(
                    f"identity must be square; it has {sizes[1]} rows and {sizes[2]} columns"
                )
            rules.add(place, 0.0)
            every = np.arange(sizes[1])
            rules.add_many([np.full(len(every), place[0]), every, every], np.ones(len(every)))
        elif word == "reset" and table == "T" and open_:
            self.words.take()
            rules.add(place, 0.0)
            rules.add_part(place, [2], 0, self._start_or_uniform())
        else:
            count = prod(sizes[i] for i in open_)
            rules.add(place, 0.0)
            for first, numbers in self.words.numbers(count, table):
                rules.add_part(place, open_, first, numbers)

    def _start_or_uniform(self) -> Floats:
        S = len(self.names["states"])
        return np.full(S, 1.0 / S) if self.start is None else self.start

    # ------------------------------------------------------------------ all of it

    def _finished(self) -> Pomdp:
        for table in TABLES:
            self._add_pending(table)
        states, actions = self.names["states"], self.names["actions"]
        S = len(states)

        def checked(table: str) -> Csr:
            rows = self.rules[table].expand(self.allowance, table)
            return distributions(rows, _RowName(table, actions, states), self.repairs)

        T = checked("T")
        if self.has_observations:
            Z = checked("O")
        else:
            every = np.arange(len(actions) * S)
            Z = Csr(np.arange(len(every) + 1), every % S, np.ones(len(every)))
        rewards, sign = self.rules["R"], self.sign

        def reward(action: Ints, state: Ints, next: Ints, label: Ints) -> Floats:
            return sign * rewards.lookup([action, state, next, label % rewards.sizes[3]])

        assert self.discount is not None
        return Pomdp(
            variables=(Variable("", states, not self.has_observations),),
            actions=actions,
            labels=self.names.get("observations", states),
            discount=self.discount,
            start=self._start_or_uniform(),
            first_label=np.zeros(S, dtype=np.int64) if self.has_observations else np.arange(S),
            T=T,
            Z=Z,
            reward=reward,
        )


class _RowName:
    """How a statement about a row of T or O begins."""

    def __init__(self, table: str, actions: Sequence[str], states: Sequence[str]) -> None:
        self.table, self.actions, self.states = table, actions, states

    def __call__(self, row: int) -> str:
        action, state = divmod(row, len(self.states))
        return f"{self.table}: {self.actions[action][:80]} : {self.states[state][:80]}"
