"""`from_gymnasium`: one latent MDP from environments that have tables, one context for each.

The tables are those of Gymnasium's toy texts: `env.unwrapped.P[state][action]` lists `(probability,
next state, reward, terminated)`, and `initial_state_distrib` has the first state.
"""

import numbers
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from latentmdp.csr import Floats, Ints
from latentmdp.errors import ModelError
from latentmdp.model.labels import Layout
from latentmdp.model.latent_mdp import LatentMDP
from latentmdp.tables.outcome_table import Axis, OutcomeTable, build_model, check_size

ACTION_NAMES = {
    "FrozenLakeEnv": ("left", "down", "right", "up"),
    "CliffWalkingEnv": ("up", "right", "down", "left"),
    "TaxiEnv": ("south", "north", "east", "west", "pick up", "drop off"),
}
OVER = "over"  # the name of the state of episodes that are over, where one is needed


def from_gymnasium(
    envs: Sequence[Any],
    w: Any = None,
    horizon: int = 20,
    *,
    start: Any = None,
    observe_rewards: bool = True,
    discount: float = 1.0,
    context_names: Sequence[str] | None = None,
    max_return: float | None = None,
) -> LatentMDP:
    """One latent MDP from environments with tables `P`; the hidden context says which one it is.

    `envs` are environments, or ids for `gymnasium.make`; all have the same states and actions. `w`
    are their weights (default: uniform). Episodes have exactly `horizon` steps: if the
    environment ends one earlier, the remaining steps are in an absorbing state with reward 0. First
    states are the environments' own (`initial_state_distrib`) unless `start` has their
    probabilities, `(S,)` or `(M, S)`. Rewards keep the environments' units; `normalized()` scales
    them for learning. Grids (FrozenLake, CliffWalking) keep their layout for drawing.

    >>> maps = (["SFF", "FHF", "FFG"], ["SFF", "FHF", "GFF"])  # where is the goal?
    >>> import gymnasium
    >>> lakes = [gymnasium.make("FrozenLake-v1", desc=m, is_slippery=False) for m in maps]
    >>> model = from_gymnasium(lakes, horizon=10)
    >>> model.M, model.S, model.layout.marks
    (2, 9, ((8,), (6,)))
    """
    if isinstance(envs, (str, bytes)) or not isinstance(envs, Sequence) or len(envs) == 0:
        raise ModelError(
            f"from_gymnasium needs a list of environments, at least one; found {_shown(envs)}"
        )
    plain = [_unwrapped(env, i) for i, env in enumerate(envs)]
    tables = [_EnvironmentTable.read(env, i) for i, env in enumerate(plain)]
    S, A = _common_sizes(tables)
    nu = _first_states(plain, start, S)
    tables = [_ended(table, first, S) for table, first in zip(tables, nu, strict=True)]
    needs_over = any((table.next == S).any() for table in tables)
    if needs_over:
        nu = np.hstack([nu, np.zeros((len(envs), 1))])
    columns = [
        np.concatenate([getattr(t, name) for t in tables]) for name in _EnvironmentTable._fields[:5]
    ]
    context = np.repeat(np.arange(len(tables)), [len(t.prob) for t in tables])
    state, action, following, prob, reward = columns
    labels = _labels(plain, tables, nu, S, A, needs_over)
    outcomes = OutcomeTable(
        context, state, action, following, prob, reward, Axis("context", len(envs)),
        Axis("state", S + needs_over), Axis("action", A),
    )  # fmt: skip
    check_size(outcomes)
    weights = np.full(len(envs), 1.0 / len(envs)) if w is None else w
    return build_model(
        outcomes, weights, nu, horizon, observe_rewards=observe_rewards, discount=discount,
        context_names=None if context_names is None else tuple(context_names),
        max_return=max_return, **labels,
    )  # fmt: skip


# ---------------------------------------------------------------------- reading tables


class _EnvironmentTable(NamedTuple):
    """The outcomes of one environment, `(n,)` each."""

    state: Ints
    action: Ints
    next: Ints
    prob: Floats
    reward: Floats
    ended: np.ndarray  # whether the episode is over after it
    states: int  # that it has

    @classmethod
    def read(cls, env: Any, i: int) -> "_EnvironmentTable":
        """From `P[state][action]`, a list of tuples of four, with every entry checked."""
        P = getattr(env, "P", None)
        where = f"environment {i}"
        if P is None:
            raise ModelError(
                f"{where} must have a table P, as toy texts have (FrozenLake, Taxi, CliffWalking); "
                f"{_shown(env)} has none (learn_env learns without one)"
            )
        lines: list[tuple[float, ...]] = []
        states = _numbered(P, f"{where}: P", "states")
        for number, actions in states:
            for action, outcomes in _numbered(actions, f"{where}: P[{number}]", "actions"):
                place = f"{where}: P[{number}][{action}]"
                if not isinstance(outcomes, Sequence) or isinstance(outcomes, str):
                    raise ModelError(
                        f"{place} must be a list of outcomes; it is {_shown(outcomes)}"
                    )
                lines += [
                    (number, action, *_outcome(o, f"{place}[{k}]")) for k, o in enumerate(outcomes)
                ]
        if not lines:
            raise ModelError(f"{where}: P must have outcomes; it has none")
        state, act, prob, following, reward, ended = np.array(lines, dtype=np.float64).T
        S = len(states)
        wrong = (following < 0) | (following >= S)
        if wrong.any():
            k = int(np.argmax(wrong))
            raise ModelError(
                f"{where}: P[{state[k]:.0f}][{act[k]:.0f}] must lead to states from 0 to "
                f"{S - 1}; it leads to {following[k]:.0f}"
            )
        s, a, n = (x.astype(np.int64) for x in (state, act, following))
        return cls(s, a, n, prob, reward, ended.astype(bool), S)


def _numbered(values: Any, place: str, what: str) -> list[tuple[int, Any]]:
    """`(number, value)` of a mapping or list whose keys are 0, 1, 2, ..."""
    if hasattr(values, "keys"):
        keys = sorted(values, key=repr)
        whole = all(isinstance(key, numbers.Integral) for key in keys)
        if not whole or sorted(int(key) for key in keys) != list(range(len(keys))):
            raise ModelError(
                f"{place} must have the {what} 0, 1, 2, ... as keys; it has "
                f"{', '.join(_shown(key) for key in keys[:6]) or 'none'}"
            )
        return sorted(((int(key), values[key]) for key in keys), key=lambda pair: pair[0])
    if not isinstance(values, Sequence) or isinstance(values, str) or len(values) == 0:
        raise ModelError(f"{place} must have entries by {what}; it is {_shown(values)}")
    return list(enumerate(values))


def _outcome(entry: Any, place: str) -> tuple[float, int, float, bool]:
    """`(probability, next state, reward, terminated)`, checked."""
    try:
        prob, following, reward, ended = entry
        numbers_ = [float(prob), float(following), float(reward), float(bool(ended))]
    except (TypeError, ValueError, OverflowError):
        raise ModelError(
            f"{place} must be (probability, next state, reward, terminated); it is {_shown(entry)}"
        ) from None
    if not np.isfinite(numbers_).all() or numbers_[0] < 0.0 or numbers_[1] != numbers_[1] // 1:
        raise ModelError(
            f"{place} must have a probability of at least 0, a whole number as its next state and "
            f"a finite reward; it is {_shown(entry)}"
        )
    return numbers_[0], int(numbers_[1]), numbers_[2], bool(ended)


def _common_sizes(tables: list[_EnvironmentTable]) -> tuple[int, int]:
    sizes = [(t.states, 1 + int(t.action.max())) for t in tables]
    for i, size in enumerate(sizes):
        if size != sizes[0]:
            raise ModelError(
                f"all environments must have the same states and actions; environment 0 has "
                f"{sizes[0][0]} and {sizes[0][1]}, environment {i} has {size[0]} and {size[1]}"
            )
    return sizes[0]


def _first_states(envs: list[Any], start: Any, S: int) -> Floats:
    """`(M, S)` first states, of the environments or as given."""
    if start is not None:
        given = _floats(start, "start")
        if given.shape not in ((S,), (len(envs), S)):
            raise ModelError(
                f"start must have the shape ({S},) or ({len(envs)}, {S}); it is {given.shape}"
            )
        return np.broadcast_to(given, (len(envs), S)).copy()
    rows = []
    for i, env in enumerate(envs):
        found = getattr(env, "initial_state_distrib", None)
        if found is None:
            raise ModelError(
                f"environment {i} must have initial_state_distrib, or start= must give first states"
            )
        first = _floats(found, f"environment {i}: initial_state_distrib")
        if first.shape != (S,):
            raise ModelError(
                f"environment {i}: initial_state_distrib must have the shape ({S},); it is "
                f"{first.shape}"
            )
        rows.append(first)
    return np.array(rows)


# ---------------------------------------------------------------------- early ends


def _ended(table: _EnvironmentTable, first: Floats, S: int) -> _EnvironmentTable:
    """With absorbing states of reward 0 where episodes end.

    A state that is only entered when the episode ends becomes absorbing; an end in a state that can
    also be passed through leads to an additional state, number `S`.
    """
    live = _passed_through(table, first)
    following = np.where(table.ended & live[table.next], S, table.next)
    ends = np.zeros(S, dtype=bool)
    ends[table.next[table.ended]] = True
    keep = ~(ends & ~live)[table.state]  # rows of ends are not needed: `build_model` fills them
    kept = [column[keep] for column in table[:6]]
    return _EnvironmentTable(kept[0], kept[1], following[keep], kept[3], kept[4], kept[5], S)


def _passed_through(table: _EnvironmentTable, first: Floats) -> np.ndarray:
    """`(S,)` states that an episode can be in without being over."""
    live = first > 0.0
    goes_on = ~table.ended & (table.prob > 0.0)
    source, target = table.state[goes_on], table.next[goes_on]
    while True:
        new = target[live[source]]
        new = new[~live[new]]
        if len(new) == 0:
            return live
        live[new] = True


# ---------------------------------------------------------------------- names and pictures


def _labels(
    envs: list[Any], tables: list[_EnvironmentTable], nu: Floats, S: int, A: int, over: bool
) -> dict[str, Any]:
    labels: dict[str, Any] = {}
    kinds = {type(env).__name__ for env in envs}
    names = ACTION_NAMES.get(kinds.pop()) if len(kinds) == 1 else None
    if names is not None and len(names) == A:
        labels["action_names"] = names
    shape = _grid(envs, S)
    if shape is None:
        if over:
            labels["state_names"] = (*(str(s) for s in range(S)), OVER)
        return labels
    cells = [divmod(s, shape[1]) for s in range(S)]
    labels["state_names"] = (*(f"r{r}c{c}" for r, c in cells), *[OVER] * over)
    entered: np.ndarray = np.any(nu[:, :S] > 0.0, axis=0)
    for table in tables:
        entered[table.next[table.next < S]] = True
    walls = tuple(cells[s] for s in np.flatnonzero(~entered))
    positions = [(-1, -1) if cell in walls else cell for cell in cells] + [(-1, -1)] * over
    labels["layout"] = Layout(shape, tuple(positions), walls, _marks(envs, tables, S))
    return labels


def _grid(envs: list[Any], S: int) -> tuple[int, int] | None:
    """Rows and columns, if the states of all environments are the cells of one grid."""
    shapes = set()
    for env in envs:
        desc = getattr(env, "desc", None)
        found = getattr(env, "shape", ()) if desc is None else np.shape(desc)
        try:
            shapes.add(tuple(int(x) for x in found))
        except (TypeError, ValueError, OverflowError):
            return None
    shape = shapes.pop() if len(shapes) == 1 else ()
    return (shape[0], shape[1]) if len(shape) == 2 and shape[0] * shape[1] == S else None


def _marks(envs: list[Any], tables: list[_EnvironmentTable], S: int) -> tuple[tuple[int, ...], ...]:
    """Where episodes end: the best ends of each context, or the others if only they differ."""
    good, bad = [], []
    for table in tables:
        into = table.ended & (table.next < S) & (table.next != table.state)
        best = table.reward[into].max(initial=-np.inf)
        goals = {int(s) for s in table.next[into & (table.reward == best)]}
        good.append(tuple(sorted(goals)))
        bad.append(tuple(sorted({int(s) for s in table.next[into]} - goals)))
    return tuple(bad) if len(set(good)) == 1 and len(set(bad)) > 1 else tuple(good)


# ---------------------------------------------------------------------- small things


def _unwrapped(env: Any, i: int) -> Any:
    if isinstance(env, str):
        import gymnasium

        try:
            env = gymnasium.make(env)
        except gymnasium.error.Error as error:
            text = " ".join(str(error).split())
            raise ModelError(f"environment {i}, {env!r}, cannot be made: {text}") from None
    return getattr(env, "unwrapped", env)


def _floats(values: Any, what: str) -> Floats:
    try:
        found = np.array(values, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        raise ModelError(f"{what} must be numbers; found {_shown(values)}") from None
    return found


def _shown(value: Any) -> str:
    text = repr(value) if isinstance(value, (int, float, str, tuple)) else type(value).__name__
    return text if len(text) <= 80 else text[:77] + "..."
