"""How hard and in which order optimistic planning searches: every number in one place.

None of them decides what is optimal, only how much work goes into finding it, so bounds hold
whatever they are. `SEARCH` is what planners use; a run records it (`run.settings`). Comments name
the command that a number rests on; the others are small enough not to matter or were never varied.
"""

import json
import math
import warnings
from dataclasses import asdict, dataclass, fields
from typing import Any, NamedTuple

from latentmdp.errors import ModelError

LONGEST = 20  # settings in a row
LARGEST = 10**6  # a whole number may be this, or ten times the usual one


class Effort(NamedTuple):
    """How hard to search on graphs up to a size. A perturbation costs a few
    sweeps, a checked pass many."""

    work: int  # up to so many (node, action, context)
    sweeps: int  # sweeps and checked passes of one polish, at most
    passes: int  # of which so many are checked passes, at most
    every: bool  # try every switch, not only those that the derivative likes
    gain: float  # a step that gains less is the last one
    perturb_weights: int  # perturbations by other weights of the contexts
    randomize_actions: int  # perturbations by random actions
    rest: int = 31  # searches without perturbations after they have failed, at most


class MemoryKind(NamedTuple):
    """What a memory tells apart, and how many nodes that may take."""

    nodes: int
    side: float  # of the cells in which beliefs are one node; 0: nodes are whole histories
    least: float = 0.0  # a history that is less likely goes on without memory
    every: bool = False  # expand all actions


@dataclass(frozen=True, repr=False)
class SearchEffort:
    """The numbers; see the module."""

    equal: float = 1e-9
    """Optimistic values this close are ties."""
    closed: float = 1e-12
    """A value this close to the bound has reached it; a perturbation must gain more."""

    # polishing and perturbations: `python benchmarks/optimism.py exact`, `... perturbations`
    efforts: tuple[Effort, ...] = (
        Effort(400, 100, 20, True, 1e-12, 10, 20),
        Effort(1_000, 10, 1, False, 1e-9, 4, 8, rest=7),
        Effort(6_000, 10, 1, False, 1e-9, 2, 0),
        Effort(20_000, 3, 0, False, 1e-7, 1, 0),
        Effort(10**18, 1, 0, False, 1e-7, 1, 0),
    )
    """By size, smallest first."""
    whole_histories: Effort = Effort(2_500, 50, 3, True, 1e-12, 8, 8)  # noqa: RUF009
    """Where nodes are whole histories (few are alive under a policy), above the smallest size."""
    gap_share: float = 1e-4
    """A sweep that gains less than this share of the gap to the bound is the last one."""
    perturb_gain: float = 0.01
    """Of the gap to the bound: perturbations that gain less are tried less often."""
    weight_spread: float = 1.5
    """Perturbed weights are the contexts' own times `exp(weight_spread * normal)`."""
    through_cap: tuple[float, ...] = (0.0, 0.3, 1.0)
    """With them, one of these shares of the derivative goes through the cap."""
    random_share: float = 0.4
    """Share of the nodes that get random actions; on tiny graphs all nodes every other time."""
    further_searches: int = 8
    """Of `optimistic_plan` on tiny graphs, perturbed anew, while the bound is not reached."""

    # ties: `python benchmarks/optimism.py ties`, `python benchmarks/learning.py seeds`
    mix_weights: tuple[float, ...] = (0.1, 1.0, 10.0, 1e2, 1e3, 1e4)
    """Of the primary model, one after the other until the mixed policy is an argmax."""
    mix_gain: float = 1e-3
    """Of secondary value: mixing that gains less is tried less often."""
    mix_rest: int = 3
    """Plans without mixing after it has failed, at most, where the bound is reached."""
    mix_rest_open: int = 255
    """The same where the bound is not reached: ties are rare there."""
    gain_per_loss: float = 1e-3
    """Explore only if the expected gain is at least this share of the estimated loss."""
    loss_not_kept: float = 0.01
    """Of estimated value: a policy that explores at a larger loss is looked at again each time."""
    proposal_rest: int = 7
    """Plans without a proposal of the tie rule, or with an old one of the estimate, at most."""
    fresh: float = 1.01
    """An argmax in force is kept until visits have grown by this factor."""

    # memory: `python benchmarks/memory.py`
    kinds: tuple[MemoryKind, ...] = (
        MemoryKind(1_500, 0.0, every=True), MemoryKind(5_000, 1e-9), MemoryKind(60_000, 0.1),
        MemoryKind(60_000, 0.3), MemoryKind(60_000, 0.3, 1e-5), MemoryKind(60_000, 0.3, 1e-4),
        MemoryKind(60_000, 0.3, 1e-3),
    )  # fmt: skip
    """From the finest to the coarsest: the first that fits is used."""
    memory_pairs: int = 3_000_000
    """Of a node and a context, at most: with many contexts there is room for fewer nodes."""
    pool_limit: float = 8.0
    """Contexts are pooled while the G statistic is at most this, times degrees of freedom + 1."""
    drift: float = 0.05
    """Likelihood ratios that have changed by more ask for a new graph."""
    look_again: float = 1.05
    """Visits must have grown by this factor before the memory is looked at again."""
    look_always: int = 50
    """Episodes, times the horizon in visits, before which it is looked at every time."""
    rare: float = 1e-7
    """Nodes that are less likely are not planned with."""
    planned_nodes: int = 8_000
    """Nodes that are planned with, at most; if more are likely, only the likelier ones."""
    few_states: int = 12
    """Up to here a confidence set with memory lists every next state, also what nobody has seen."""

    def __post_init__(self) -> None:
        for field in fields(self):
            _check(field.name, getattr(self, field.name), field.default)

    def __repr__(self) -> str:
        """Only what is not as usual: signatures show it."""
        pairs = ((field, getattr(self, field.name)) for field in fields(self))
        changed = [f"{field.name}={value!r}" for field, value in pairs if value != field.default]
        return f"{type(self).__name__}({', '.join(changed)})"

    def effort(self, nodes: int, A: int, M: int, whole: bool = False) -> Effort:
        """For a graph of this size; `whole`: its nodes are whole histories."""
        work = nodes * A * M
        if whole and self.efforts[0].work < work <= self.whole_histories.work:
            return self.whole_histories
        return next((e for e in self.efforts if work <= e.work), self.efforts[-1])

    def record(self) -> dict[str, Any]:
        """Plain data, as JSON has it, for a run's record."""
        record: dict[str, Any] = json.loads(json.dumps(asdict(self)))
        return record

    @classmethod
    def from_record(cls, record: Any) -> "SearchEffort":
        """Inverse of `record`; what is not one is refused."""
        usual = {field.name: field.default for field in fields(cls)}
        if not isinstance(record, dict) or set(record) != set(usual):
            raise ModelError("settings must hold the search settings of this version; they do not")
        return cls(**{name: _as_tuples(record[name], usual[name]) for name in usual})


def _as_tuples(value: Any, usual: Any) -> Any:
    """Lists where JSON has lost tuples."""
    if not isinstance(usual, tuple) or not isinstance(value, list):
        return value
    if isinstance(usual, (Effort, MemoryKind)):
        return type(usual)(*value) if len(value) == len(usual) else value
    return tuple(_as_tuples(part, usual[0]) for part in value)


def _check(name: str, value: Any, usual: Any) -> None:
    """Refuse what is not of the kind of the usual value, or out of all proportion."""
    if isinstance(usual, (Effort, MemoryKind)):
        if not isinstance(value, type(usual)):
            raise ModelError(f"settings.{name} must be {_a(usual)}; it is {_short(value)}")
        for part, found, like in zip(usual._fields, value, usual, strict=True):
            _check(f"{name}.{part}", found, like)
        return
    if isinstance(usual, tuple):
        if not isinstance(value, tuple) or not 1 <= len(value) <= LONGEST:
            what = f"a tuple of 1 to {LONGEST}, each {_a(usual[0])}"
            raise ModelError(f"settings.{name} must be {what}; it is {_short(value)}")
        largest = max(usual)
        if isinstance(largest, (Effort, MemoryKind)):
            largest = type(largest)(*map(max, zip(*usual, strict=True)))
        for i, found in enumerate(value):
            _check(f"{name}[{i}]", found, largest)
        return
    if isinstance(usual, bool):
        fits, what = isinstance(value, bool), "true or false"
    elif isinstance(usual, int):
        most = max(LARGEST, 10 * usual)  # more would not fit into memory, or never end
        whole = isinstance(value, int) and not isinstance(value, bool)
        fits, what = whole and 0 <= value <= most, f"a whole number from 0 to {most}"
    else:
        fits, what = isinstance(value, float) and 0.0 <= value < math.inf, "a float of at least 0"
    if not fits:
        raise ModelError(f"settings.{name} must be {what}; it is {_short(value)}")


def _a(usual: Any) -> str:
    kind = type(usual).__name__
    return f"an {kind}" if kind[0] in "AEIOU" else f"a {kind}"


def _short(value: Any) -> str:
    return repr(value)[:80]


SEARCH = SearchEffort()
"""What learners use, which plan again and again."""

ALONE = SearchEffort(few_states=20, whole_histories=Effort(10_000, 50, 3, True, 1e-12, 8, 8))
"""What `optimistic_plan` uses: a single plan may take longer. With `SEARCH` it misses the argmax in
18 of 60 random problems of 11 to 13 states (`test_optimism_alone.py`): above 12 states policies had
no memory of next states that nobody has shown, and where nodes are whole histories, above 2,500
(node, action, context) fewer switches were tried."""


def __getattr__(name: str) -> Any:
    if name != "SearchSettings":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    warnings.warn("SearchSettings is now SearchEffort", DeprecationWarning, stacklevel=2)
    globals()[name] = SearchEffort  # said once
    return SearchEffort
