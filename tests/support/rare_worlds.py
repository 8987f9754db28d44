"""Worlds with something rare in them, logs of them, and what a policy by a log is worth there."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

import latentmdp as lm


@dataclass(frozen=True)
class World:
    """A true model with names, how it is logged, and how the log is fitted."""

    name: str
    model: lm.LatentMDP  # mean rewards, of 0 to 1
    episodes: int
    coins: bool = False  # every reward is 0 or 1, with the model's reward as the chance of 1
    next_state: bool = True
    cut: float = 0.0  # chance that a step which is no end is the last one written down
    ends: int | None = None  # the state that ends an episode
    fit: dict[str, Any] = field(default_factory=dict)
    plan: dict[str, Any] = field(default_factory=dict)

    def log(self, rng: np.random.Generator) -> pd.DataFrame:
        """Episodes with uniformly random actions."""
        model, P, n = self.model, self.model.P, self.episodes
        m = rng.choice(model.M, n, p=model.w)
        s = _draw(model.nu[m], rng)
        alive, parts = np.arange(n), []
        for t in range(model.H):
            a = rng.integers(0, model.A, len(alive))
            x = _draw(P[m, s, a], rng)
            R = model.R
            r = R[m, s, a] if R.ndim == 3 else R[m, s, a, x]
            r = (rng.random(len(r)) < r) * 1.0 if self.coins else r
            end = x == (-1 if self.ends is None else self.ends)
            cut = ~end & (rng.random(len(x)) < self.cut)
            parts.append(
                pd.DataFrame({"episode": alive, "step": t, "context": m, "state": s, "action": a,
                              "reward": r, "next_state": x, "terminated": end})
            )  # fmt: skip
            go = ~end & ~cut
            alive, m, s = alive[go], m[go], x[go]
        log = pd.concat(parts)
        for column, letter in (("context", "c"), ("state", "s"), ("next_state", "s"),
                               ("action", "a")):  # fmt: skip
            log[column] = letter + log[column].astype(str)
        drop = [] if self.next_state else ["next_state"]
        return log.drop(columns=drop + ([] if self.ends is not None else ["terminated"]))

    def value(self, fit: lm.Fit, policy: lm.PolicyGraph) -> float:
        """The true value of a policy without memory; where the log has not been it plays a0."""
        table = np.zeros((self.model.H, self.model.S), dtype=int)
        for s, state in enumerate(fit.names["states"]):
            if state.startswith("s"):
                actions = [int(fit.names["actions"][a][1:]) for a in policy.table[:, s]]
                table[: len(actions), int(state[1:])] = actions
        return lm.evaluate(self.model, table).value

    def certified(self, rng: np.random.Generator, delta: float = 0.1) -> tuple[float, float]:
        """The certified value of a plan by a new log, and its true value."""
        fit = lm.fit(self.log(rng), horizon=self.model.H, **self.fit)
        options = {"policy_class": "markov", "draws": 2, "reward_range": (0, 1)} | self.plan
        plan = fit.plan("pessimistic", delta=delta, **options)
        if self.model.A == 1:  # whatever is remembered does not matter
            nothing_else = np.zeros((self.model.H, self.model.S), dtype=int)
            return plan.score, lm.evaluate(self.model, nothing_else).value
        return plan.score, self.value(fit, plan.policy)


def _draw(p: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """An index per row of probabilities."""
    total = np.cumsum(p, axis=1)
    return (total < rng.random((len(p), 1)) * total[:, -1:]).sum(axis=1)


def chain(P: Any, R: Any, w: Any = (1.0,), nu: Any = None, H: int = 3) -> lm.LatentMDP:
    """A model from `P (M, S, A, S)`; starts in the first state."""
    P = np.asarray(P, dtype=float)
    M, S = P.shape[:2]
    nu = np.tile(np.eye(S)[0], (M, 1)) if nu is None else nu
    return lm.LatentMDP.from_arrays(P, R, np.asarray(w, float), nu, H, max_return=None)


def hole(chance: float) -> lm.LatentMDP:
    """A step falls into a hole with this chance; outside it each step pays 1."""
    return chain([[[[1 - chance, chance]], [[0, 1]]]], [[[1.0], [0.0]]])


def rare_contexts(weights: list[float]) -> lm.LatentMDP:
    """One state; contexts but the first, with these weights, pay nothing."""
    M = len(weights) + 1
    R = np.zeros((M, 1, 1))
    R[0] = 1.0
    return chain(np.ones((M, 1, 1, 1)), R, [1 - sum(weights), *weights])


def lottery(chance: float, contexts: int = 1) -> lm.LatentMDP:
    """One state; every step pays 1, but with this chance 0 (log it with `coins`)."""
    R = np.full((contexts, 1, 1), 1 - chance)
    return chain(np.ones((contexts, 1, 1, 1)), R, np.full(contexts, 1 / contexts))


def rare_start(chance: float) -> lm.LatentMDP:
    """Two states; the rare first one pays nothing, and nobody leaves either."""
    P = np.eye(2)[None, :, None, :]
    return chain(P, [[[1.0], [0.0]]], nu=np.array([[1 - chance, chance]]))


def tail(chance: float, states: int) -> lm.LatentMDP:
    """Steps lead with this chance to one of many states, in which nothing is paid any more."""
    P = np.eye(states + 1)[None, :, None, :].copy()
    P[0, 0, 0] = np.append(1 - chance, np.full(states, chance / states))
    R = np.zeros((1, states + 1, 1))
    R[0, 0] = 1.0
    return chain(P, R)


def two_actions(risk: float) -> lm.LatentMDP:
    """Two contexts; a1 pays a little more than a0, and falls into a hole with a chance."""
    P = np.zeros((2, 2, 2, 2))
    P[:, 0, 0, 0] = 1.0
    P[:, 0, 1] = [1 - risk, risk]
    P[:, 1, :, 1] = 1.0
    R = np.zeros((2, 2, 2))
    R[0, 0], R[1, 0] = [0.8, 1.0], [0.9, 0.95]
    return chain(P, R, [0.7, 0.3])


def mortal(chance: float) -> lm.LatentMDP:
    """Each step pays 1 and ends everything with this chance."""
    return chain([[[[1 - chance, chance]], [[0, 1]]]], [[[1.0], [0.0]]], H=5)


GARNET = "garnet:states=3,actions=2,contexts=2,horizon=4,seed=2"
WORLDS = (
    World("hole .05 a step", hole(0.05), 10),
    World("hole .004 a step", hole(0.004), 100),
    World("hole .004, next state not logged", hole(0.004), 100, next_state=False),
    World("a context of .1", rare_contexts([0.1]), 10),
    World("a context of .003", rare_contexts([0.003]), 300),
    World("30 contexts of .01", rare_contexts([0.01] * 30), 60),
    World("a first state of .02", rare_start(0.02), 40),
    World("200 dead ends, .1 a step", tail(0.1, 200), 60),
    World("200 dead ends, fixed", tail(0.1, 200), 60, fit={"rewards": "fixed"}),
    World("reward 0 of .01 a step", lottery(0.01), 30, coins=True),
    World("the same, with memory", lottery(0.01, 2), 30, coins=True,
          plan={"policy_class": "history"}),
    World("the same, hidden", lottery(0.01), 30, coins=True, fit={"observe_rewards": False}),
    World("end of .01 a step, cut off", mortal(0.01), 30, next_state=False, cut=0.2, ends=1),
    World("two actions", two_actions(0.01), 100),
    World("two actions, unavailable", two_actions(0.01), 8, fit={"unseen": "unavailable"}),
    World("two actions, coins", two_actions(0.01), 1000, coins=True),
    World("garnet", lm.make(GARNET), 1000),
    World("garnet, coins", lm.make(GARNET), 3000, coins=True),
)  # fmt: skip
