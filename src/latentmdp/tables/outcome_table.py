"""Tables with one row per outcome, from CSV files and data frames.

Contexts, states and actions are numbers from 0 or names of any kind, which become names of the
model. A state that has no rows in a context ends the episode there: the state stays the same and
the reward is 0. An action that has no rows in a state, in all contexts, is unavailable there.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from latentmdp.csr import Floats, Ints
from latentmdp.errors import ModelError
from latentmdp.model.latent_mdp import LatentMDP, replaced
from latentmdp.model.rows import Sizes

FREE_ROWS = 1 << 20  # rows (context, state, action) that any table may have, and
ROWS_PER_LINE = 16  # for each of its lines
LONGEST_NAME = 1000


class Axis(NamedTuple):
    """The names of contexts, states or actions, and how many there are."""

    what: str  # "context", "state", "action"
    size: int
    names: tuple[str, ...] | None = None  # None: they are numbers

    def name(self, number: int) -> str:
        """For a sentence: `state 3` or `state 'left'`."""
        return f"{self.what} {number if self.names is None else repr(self.names[number][:40])}"

    def numbers(self, labels: Iterable[Any]) -> list[int]:
        """The numbers of labels; an unknown label is an error."""
        known = {name: i for i, name in enumerate(self.names or ())}
        found = []
        for label in labels:
            number = self._whole(label) if self.names is None else known.get(label_text(label), -1)
            if number < 0:
                raise ModelError(f"there is no {self.what} {repr(label)[:80]}; {self.known()}")
            found.append(number)
        return found

    def _whole(self, label: Any) -> int:
        """A number from 0, or its text, as a number of this axis; -1 if it is none."""
        if isinstance(label, str):
            try:
                label = as_number(label)
            except ValueError:
                return -1
        whole = isinstance(label, (int, float, np.number)) and not isinstance(label, bool)
        return int(label) if whole and label == label // 1 and 0 <= label < self.size else -1

    def known(self) -> str:
        """The known labels, for error messages."""
        if self.names is None:
            return f"they are numbered from 0 to {self.size - 1}"
        shown = ", ".join(repr(name[:40]) for name in self.names[:6])
        return f"there are {shown}{', ...' * (self.size > 6)}"


class OutcomeTable(NamedTuple):
    """One entry per outcome, `(n,)` each, by number; and the names of the numbers."""

    context: Ints
    state: Ints
    action: Ints
    next: Ints
    prob: Floats
    reward: Floats
    contexts: Axis
    states: Axis
    actions: Axis
    reading: Ints | None = None
    readings: Axis | None = None

    @property
    def sizes(self) -> Sizes:
        """`(M, S, A)`."""
        return Sizes(self.contexts.size, self.states.size, self.actions.size)


def as_number(text: str) -> float:
    """What `float` makes of a text of ordinary digits; ValueError if it is not a number."""
    if "_" in text or not text.isascii():
        raise ValueError
    return float(text)


def label_text(label: Any) -> str:
    """The name that a label of any kind becomes; whole floats lose their point."""
    if isinstance(label, (float, np.floating)) and label == label // 1:
        return str(int(label))
    return str(label)


def check_names(what: str, names: Sequence[str]) -> None:
    """Refuse names that are duplicate, blank or too long."""
    seen = set()
    for name in names:
        if name in seen:
            raise ModelError(
                f"each {what} must have a name of its own; two are called {name[:40]!r}"
            )
        if not name.strip() or len(name) > LONGEST_NAME:
            raise ModelError(
                f"the name of each {what} must have 1 to {LONGEST_NAME} characters; "
                f"found {name[:40]!r}"
            )
        seen.add(name)


# ---------------------------------------------------------------------- the model


def build_model(
    outcomes: OutcomeTable, w: Floats, nu: Floats, horizon: Any, **options: Any
) -> LatentMDP:
    """The model of a table; refusals name contexts, states and actions as the table does."""
    o = completed(outcomes)
    if o.readings is not None:
        options |= {"reading": o.reading, "n_readings": o.readings.size}
    for axis in (o.contexts, o.states, o.actions, o.readings):
        if axis is not None and axis.names is not None:
            options.setdefault(f"{axis.what}_names", axis.names)
    try:
        with np.errstate(all="ignore"):
            return LatentMDP.from_rows(
                o.context, o.state, o.action, o.next, o.prob, o.reward, w, nu, horizon,
                n_actions=o.actions.size, **options,
            )  # fmt: skip
    except ModelError as error:
        raise ModelError(_with_names(str(error), o)) from None


def build_by_step(
    o: OutcomeTable, step: Ints | None, w: Floats, nu: Floats, horizon: Any, **options: Any
) -> LatentMDP:
    """The model of a table whose outcomes have these steps; a smaller horizon takes the first."""
    if step is None:
        return build_model(o, w, nu, horizon, **options)
    S, steps = o.states.size, 1 + int(step.max())
    places = Axis("state", steps * S)
    by_step = o._replace(state=step * S + o.state, next=step * S + o.next, states=places)
    check_size(by_step)
    missing = np.bincount(step, minlength=steps) == 0
    if missing.any():
        raise ModelError(
            f"every step from 0 to {steps - 1} must have lines; step={int(np.argmax(missing))} has "
            "none"
        )
    labels = [o.states.names[s] if o.states.names else str(s) for s in range(S)]
    names = tuple(f"{label}, step {t}" for t in range(steps) for label in labels)
    full = completed(by_step._replace(states=Axis("state", steps * S, names)))
    back = o._replace(
        context=full.context, state=full.state % S, action=full.action, next=full.next % S,
        prob=full.prob, reward=full.reward, reading=full.reading,
    )  # fmt: skip
    model = build_model(back, w, nu, steps, step=full.state // S, **options)
    return model if horizon == steps else model.replace(horizon=horizon)


def completed(o: OutcomeTable) -> OutcomeTable:
    """Add rows for states that have none in a context: the state stays the same, with reward 0.

    An action without rows in all contexts is unavailable; in some of them only it is refused.
    """
    M, S, A = o.sizes
    most = check_size(o)
    lines = np.bincount((o.context * S + o.state) * A + o.action, minlength=M * S * A)
    lines = lines.reshape(M, S, A)
    ends = lines.max(axis=2) == 0  # (M, S) the episode is over there
    available = lines.max(axis=0) > 0  # (S, A)
    _check_actions(o, available & (lines == 0) & ~ends[:, :, None])
    available[~available.any(axis=1)] = True
    context, state, action = np.nonzero(ends[:, :, None] & available)
    first = lines[:, np.arange(S), available.argmax(axis=1)].sum(axis=0)
    repeated = int(((A - available.sum(axis=1)) * np.maximum(first, M)).sum())
    if repeated > most:
        raise ModelError(
            f"a table of {len(o.prob)} outcomes may have at most {most} more where an action is "
            f"unavailable and stands for another one; {S} states x {A} actions need {repeated}"
        )
    if len(state) == 0:
        return o
    stay = {
        "context": context, "state": state, "action": action, "next": state,
        "prob": np.ones(len(state)), "reward": np.zeros(len(state)),
    }  # fmt: skip
    if o.reading is not None:
        stay["reading"] = np.zeros(len(state), dtype=np.int64)
    longer: dict[str, Any] = {k: np.concatenate([getattr(o, k), v]) for k, v in stay.items()}
    return o._replace(**longer)


def check_size(o: OutcomeTable) -> int:
    """Refuse sizes that are too large for the length of the table; returns the limit."""
    M, S, A = o.sizes
    most = FREE_ROWS + ROWS_PER_LINE * len(o.prob)
    rows = M * S * A
    if rows > most:
        raise ModelError(
            f"a table of {len(o.prob)} outcomes may have at most {most} rows (context, state, "
            f"action); {M} contexts x {S} states x {A} actions are {rows}"
        )
    return most


def _check_actions(o: OutcomeTable, missing: np.ndarray) -> None:
    """Refuse the first row of `missing (M, S, A)`: other contexts have the action there."""
    if missing.any():
        m, s, a = (int(i) for i in np.argwhere(missing)[0])
        raise ModelError(
            "an action must have outcomes in all contexts, or in none of them (then it is "
            f"unavailable in that state); {o.contexts.name(m)}, {o.states.name(s)}, "
            f"{o.actions.name(a)} has none"
        )


def _with_names(text: str, o: OutcomeTable) -> str:
    """An error message of `from_rows` with the names in the table beside the numbers."""
    found = re.match(r"[PR]\[m=(\d+), s=(\d+), a=(\d+)\]", text)
    if found is None:
        return text
    m, s, a = map(int, found.groups())
    place = f"{o.contexts.name(m)}, {o.states.name(s)}, {o.actions.name(a)}"
    return f"{found[0]} ({place}){text[found.end() :]}"


# ---------------------------------------------------------------------- weights and first states


def weights(given: Any, contexts: Axis) -> Floats:
    """`(M,)` from an array, or a mapping or Series by context; None: uniform."""
    if given is None:
        return np.full(contexts.size, 1.0 / contexts.size)
    return _spread("w", given, contexts)


def starting_at(model: LatentMDP, start: Any) -> LatentMDP:
    """The model with this first state: one state, or a mapping from states to probabilities."""
    states = Axis("state", model.S, model.state_names)
    try:
        first = _first_state(start, states)
    except ModelError as error:
        if model.state_names is None:
            raise
        try:
            first = _first_state(start, Axis("state", model.S))  # a number, then
        except ModelError:
            raise error from None
    return replaced(model, nu=np.tile(first, (model.M, 1)))


def first_states(start: Any, o: OutcomeTable) -> Floats:
    """`(M, S)` from one state, or a mapping from states to probabilities, for all contexts."""
    return np.tile(_first_state(start, o.states), (o.contexts.size, 1))


def _first_state(start: Any, states: Axis) -> Floats:
    """`(S,)` probabilities."""
    if isinstance(start, (list, set, np.ndarray)):
        raise ModelError(
            "the first state must be a state or a mapping from states to probabilities; found a "
            f"{type(start).__name__} (nu= takes arrays)"
        )
    given = start if _is_mapping(start) else {start: 1.0}
    return _spread("the first state", given, states)


def first_probabilities(nu: Any, o: OutcomeTable) -> Floats:
    """`(M, S)` from an array of that shape, or `(S,)` for all contexts."""
    M, S, _ = o.sizes
    found = _numbers("nu", nu)
    if found.shape not in ((S,), (M, S)):
        raise ModelError(f"nu must have the shape ({S},) or ({M}, {S}); it is {found.shape}")
    return np.tile(found, (M, 1)) if found.ndim == 1 else found


def agreed(given: Floats, place: Ints, size: int) -> tuple[Floats, np.ndarray]:
    """`(size,)` the first value of each place, and `(n,)` where a later value differs."""
    found = np.zeros(size)
    places, first = np.unique(place, return_index=True)
    found[places] = given[first]
    return found, given != found[place]


def _spread(name: str, given: Any, axis: Axis) -> Floats:
    """`(size,)` from an array, or from a mapping (or Series) by label; missing labels get 0."""
    if not _is_mapping(given):
        values = _numbers(name, given)
        if values.shape != (axis.size,):
            raise ModelError(
                f"{name} must have {axis.size} entries, one per {axis.what}; "
                f"its shape is {values.shape}"
            )
        return values
    pairs = list(given.items())
    found = np.zeros(axis.size)
    for place, (_, value) in zip(axis.numbers(label for label, _ in pairs), pairs, strict=True):
        number = _numbers(name, value)
        if number.size != 1:
            raise ModelError(f"{name} must have one number for each {axis.what}; found {value!r}")
        found[place] += float(number.reshape(-1)[0])
    return found


def _is_mapping(given: Any) -> bool:
    return isinstance(given, Mapping) or hasattr(given, "items")


def _numbers(name: str, given: Any) -> Floats:
    try:
        values = np.array(given, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        raise ModelError(f"{name} must be numbers; found {type(given).__name__}") from None
    if not np.isfinite(values).all():
        raise ModelError(f"{name} must be finite numbers; found {values[~np.isfinite(values)][0]}")
    return values
