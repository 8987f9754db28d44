"""`rollout`: episodes of a policy in a known model, as a table with one row per step."""

from typing import TYPE_CHECKING, Any

import numpy as np

from latentmdp.csr import Array, Floats, Ints
from latentmdp.errors import ModelError
from latentmdp.model.horizons import checked_whole, needs_finite
from latentmdp.model.latent_mdp import LatentMDP
from latentmdp.model.sampling import Sampler
from latentmdp.policy.graph import as_policy
from latentmdp.runtime.files import memory_budget

if TYPE_CHECKING:
    import pandas as pd

LEAST_BELIEF = 1e-300  # a context that is possible stays so, however long the episode
BYTES_PER_STEP = 400  # of a table's row without its belief, while it is made


def rollout(
    model: LatentMDP, policy: Any, episodes: int = 100, seed: int = 0, *, names: bool = False
) -> "pd.DataFrame":
    """Draw episodes of `policy` (a plan, a policy or a table of actions) in `model`.

    One row per step, with the columns `episode, step, context, state, action, reward, next_state,
    belief` (and `reading` before `belief` if the model has readings), all counted from 0. The last
    step's reward includes what is received after it. `belief` is an array `(M,)`: what the agent
    can know of the context before it acts. With `names`, contexts, states and actions have the
    model's names where it has some. The first episodes of a longer table are those of a shorter one
    with the same seed.

    >>> from latentmdp import make
    >>> model = make("bandit:arms=2,contexts=2,horizon=3,seed=0")
    >>> table = rollout(model, np.zeros((3, model.S), dtype=int), episodes=5)
    >>> len(table), table.episode.nunique(), float(table.belief[0].sum())
    (15, 5, 1.0)
    """
    import pandas as pd  # loads slowly

    if not isinstance(model, LatentMDP):
        raise ModelError(f"rollout needs a LatentMDP; it was given a {type(model).__name__}")
    needs_finite(model, "rollout")
    episodes = checked_whole("episodes", episodes, 1)
    random = np.random.default_rng(np.random.SeedSequence(checked_whole("seed", seed, 0)))
    graph = as_policy(model, policy)
    needed = episodes * model.H * (BYTES_PER_STEP + 8 * model.M)
    if needed > memory_budget():
        raise ModelError(
            f"{episodes} episodes of {model.H} steps need about {needed / 1e9:.3g} GB as a table; "
            "ask for fewer"
        )
    u = random.random((episodes, model.H + 2))  # by episode: a prefix does not depend on the rest
    sampler, beliefs = Sampler(model), _Beliefs(model)
    context = sampler.context(u[:, 0])
    state = sampler.start(context, u[:, 1])
    belief = beliefs.first(state)
    node = graph.root[state]
    columns: dict[str, Array] = {
        name: np.empty((episodes, model.H), dtype=np.int64)
        for name in ("state", "action", "outcome")
    }
    held = np.empty((episodes, model.H, model.M))
    for t in range(model.H):
        action = graph.action[node]
        outcome = sampler.outcome(context, state, action, u[:, t + 2], t)
        columns["state"][:, t], columns["action"][:, t] = state, action
        columns["outcome"][:, t], held[:, t] = outcome, belief
        if t + 1 < model.H:
            belief = beliefs.after(belief, t, state, action, outcome)
            state = model.next[outcome]
            node = graph.successors(node, model.symbol[outcome], state)
    held.flags.writeable = False
    reward = model.reward[columns["outcome"]]
    if model.terminal is not None:
        last = model.next[columns["outcome"][:, -1]]
        reward[:, -1] += model.discount * model.terminal[context, last]
    outcome = columns["outcome"].reshape(-1)
    named = _Names(model, names)
    table = pd.DataFrame(
        {
            "episode": np.repeat(np.arange(episodes), model.H),
            "step": np.tile(np.arange(model.H), episodes),
            "context": named.contexts(np.repeat(context, model.H)),
            "state": named.states(columns["state"].reshape(-1)),
            "action": named.actions(columns["action"].reshape(-1)),
            "reward": reward.reshape(-1),
            "next_state": named.states(model.next[outcome]),
            "belief": pd.Series(list(held.reshape(-1, model.M)), dtype=object),
        }
    )
    if model.readings > 1:
        table.insert(7, "reading", named.readings(model.reading[outcome]))
    return table


class _Beliefs:
    """Bayes' rule for many episodes at once; the twin of `belief.update_belief`."""

    def __init__(self, model: LatentMDP) -> None:
        self.model = model
        row = np.repeat(np.arange(len(model.indptr) - 1), np.diff(model.indptr))
        seen = model.symbol * model.S + model.next
        values, self.seen = np.unique(seen, return_inverse=True)  # (nnz,) what the agent sees
        self.kinds = len(values)
        self.key = row * self.kinds + self.seen  # ascending: rows are sorted by (symbol, next)

    def first(self, state: Ints) -> Floats:
        """`(K, M)` beliefs after the first states."""
        return _shares((self.model.w[:, None] * self.model.nu).T[state])

    def after(self, belief: Floats, step: int, state: Ints, action: Ints, outcome: Ints) -> Floats:
        """`(K, M)` beliefs after these outcomes; each kind of observation is looked up once."""
        observation = (state * self.model.A + action) * self.kinds + self.seen[outcome]
        distinct, which = np.unique(observation, return_inverse=True)
        first_row = self.model.row(step, np.arange(self.model.M), 0, 0) * self.kinds
        wanted = first_row + distinct[:, None]  # (distinct, M) the same observation by context
        place = np.minimum(np.searchsorted(self.key, wanted), len(self.key) - 1)
        likelihood = np.where(self.key[place] == wanted, self.model.prob[place], 0.0)[which]
        weight = belief * likelihood
        possible = (belief > 0.0) & (likelihood > 0.0)
        return _shares(np.where(possible, np.maximum(weight, LEAST_BELIEF), 0.0))


def _shares(weight: Floats) -> Floats:
    """Each row divided by its sum."""
    return weight / weight.sum(axis=1, keepdims=True)


class _Names:
    """Numbers as they are, or as the model's names."""

    def __init__(self, model: LatentMDP, wanted: bool) -> None:
        self.model, self.wanted = model, wanted

    def contexts(self, numbers: Ints) -> Array:
        return self._named(self.model.context_names, numbers)

    def states(self, numbers: Ints) -> Array:
        return self._named(self.model.state_names, numbers)

    def actions(self, numbers: Ints) -> Array:
        return self._named(self.model.action_names, numbers)

    def readings(self, numbers: Ints) -> Array:
        return self._named(self.model.reading_names, numbers)

    def _named(self, names: tuple[str, ...] | None, numbers: Ints) -> Array:
        return numbers if names is None or not self.wanted else np.array(names, object)[numbers]
