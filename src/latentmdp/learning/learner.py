"""Algorithm 1 of the paper, as a state machine that any loop can drive.

    learner = Learner(model, "mvp", episodes=10**6)
    action = learner.begin(state)
    while action is not None:
        reward, state = ...                      # the world's turn
        action = learner.step(reward, state)
    learner.end(context)                         # told in hindsight

Its state is the counts, the snapshot taken at the last doublings, the policy in force, the solver's
own state, and the episode so far. Line numbers are those that the paper's text refers to (the
listing without its END lines). Two slips of the listing are mended: the flag TRIGGERED is cleared
in every episode, and a row without visits has no estimate at all.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from latentmdp.csr import Array
from latentmdp.errors import ModelError
from latentmdp.learning.estimated import estimated_model
from latentmdp.learning.knowledge import GivenOrEstimated, Step
from latentmdp.learning.saved.checks import checked_learner
from latentmdp.learning.saved.state import (
    State,
    generator_state,
    load_state,
    refusing_misfits,
    restore_generator,
    save_state,
)
from latentmdp.learning.solvers import Answer, check_affordable, make_solver
from latentmdp.learning.spec import RunSpec
from latentmdp.model.counts import Counts
from latentmdp.optimism.settings import SEARCH, SearchEffort
from latentmdp.policy.cursor import Cursor
from latentmdp.policy.graph import POLICY_PARTS, PolicyGraph, check_fits, playable

if TYPE_CHECKING:
    from collections.abc import Collection

    from latentmdp.advice import Adviser
    from latentmdp.model.latent_mdp import LatentMDP
    from latentmdp.optimism.given import Given
    from latentmdp.runtime.files import PathLike


OVERRIDE_WORK = 100_000  # of planning the rest of an overridden episode; at most 0.1 s or so


class Learner:
    """Algorithm 1; see the module. `begin`, `step` (exactly `H` times), `end`, and again.

    `given` says what the learner knows: `w`, `nu`, `R` (a model's transitions are never read).
    `episodes` is the planned `K` of the logarithmic term; more may be played. `settings` say how
    hard the solver searches. `estimate` names what of `w`, `nu`, `R` is not known and estimated on
    the way: beyond the theorem, and `w` and `nu` lose optimism, since frequencies have no bonus:
    the optimistic value can fall below the optimum, and the best policy may never be found.
    """

    def __init__(  # Alg. 1, l. 1
        self,
        given: LatentMDP | Given,
        algorithm: str = "mvp",
        *,
        episodes: int,
        policy_class: str = "markov",
        delta: float = 0.1,
        bonus_scale: float = 1.0,
        ties: str = "secondary",
        seed: int | np.random.SeedSequence = 0,
        estimate: Collection[str] = (),
        counts: Counts | None = None,
        oracle: Answer | None = None,
        settings: SearchEffort = SEARCH,
    ) -> None:
        self.settings = settings
        self.spec = RunSpec(algorithm, episodes, policy_class, delta, bonus_scale, ties=ties)
        on_next = getattr(given, "rewards_on_transitions", False) or "R" in estimate
        check_affordable(self.spec, given.M, given.S, given.A, given.H, on_next)
        self.knowledge = GivenOrEstimated.of(given, estimate)
        M, S, A = self.known.M, self.known.S, self.known.A
        self.counts = counts or Counts.empty(M, S, A)  # l. 2: n, N = 0
        self.random = np.random.default_rng(seed)
        self.solver = make_solver(self.spec, self.known, self._stream(), oracle, settings)
        self.episode = 1
        self.updates, self.kept = 0, 0
        self._path: list[Step] | None = None
        self._cursor: Cursor | None = None
        self._strayed = False  # whether another action was taken in this episode, with memory
        self._adviser: Adviser | None = None  # of the rest of such an episode
        self.policy: PolicyGraph = None  # type: ignore[assignment]
        self._solve(np.arange(M * S * A))  # l. 2: the first policy is arbitrary

    # ------------------------------------------------------------------ one episode

    def begin(self, state: int) -> int:
        """The first state of an episode; returns the action to take."""
        if self._path is not None:
            raise ModelError(f"begin must follow end or cancel; {self._where()}")
        self._state = self._checked("state", state, self.known.S)
        self._cursor = self.policy.cursor(self._state)  # l. 4, 6, 7
        self._path, self._strayed, self._adviser = [], False, None
        return self._cursor.action  # l. 8

    def step(
        self, reward: float, next_state: int, action: int | None = None, *, advise: bool = True
    ) -> int | None:
        """What came of the action; returns the next one, or None after the last step.

        `action`: the one really taken, if it was not the one asked for. What a policy with memory
        remembers does not hold then: the rest of the episode is played by an adviser, from the
        belief in the model as estimated by now (`adviser`). That takes planning at each such step;
        `advise=False` does without and returns None (for episodes that others have played).
        """
        if self._path is None or self._cursor is None or len(self._path) == self.known.H:
            raise ModelError(
                f"step must follow begin, at most {self.known.H} times; {self._where()}"
            )
        played = self._asked() if action is None else self._checked("action", action, self.known.A)
        allowed = self.known.allowed
        if allowed is not None and not allowed[self._state, played]:
            raise ModelError(f"action {played} must be available in state {self._state}; it is not")
        nxt = self._checked("next_state", next_state, self.known.S)
        try:
            reward = float(reward)
        except (TypeError, ValueError):
            raise ModelError(f"reward must be a number; it is {reward!r}") from None
        total = sum(step[2] for step in self._path) + reward
        symbol = self.knowledge.symbol(self._state, played, nxt, reward, total)
        self._path.append((self._state, played, reward, nxt))  # l. 7, 9
        self._state = nxt  # l. 6; after the last step l. 10
        if len(self._path) == self.known.H:
            return None
        if not self._strayed and (played == self._cursor.action or self.policy.is_markov):
            following = self._cursor.observe(nxt, action=played, symbol=symbol)  # l. 8
            return following if advise else None
        self._strayed = True
        self._cursor.node = int(self.policy.default[len(self._path), nxt])
        if not advise:
            self._adviser = None
            return None
        if self._adviser is not None:
            self._adviser.observe(nxt, played, reward)
        return self._asked()

    def _asked(self) -> int:
        """The action asked for, by the policy or by the adviser of an overridden episode."""
        assert self._path is not None
        assert self._cursor is not None
        if not self._strayed:
            return self._cursor.action
        if self._adviser is None:
            self._adviser = self._adviser_after(self._path)
        assert self._adviser.action is not None
        return self._adviser.action

    def _adviser_after(self, path: list[Step]) -> Adviser:
        """An adviser that knows what was done and seen; by work alone, so that it repeats."""
        adviser = self.adviser(time_limit=None, work_limit=OVERRIDE_WORK)
        adviser.start(path[0][0])
        for _, action, reward, nxt in path:
            adviser.observe(nxt, action, reward)
        return adviser

    def _has_strayed(self, path: list[Step]) -> bool:
        """`_strayed` of an episode that is resumed."""
        if not path or self.policy.is_markov:
            return False
        cursor, total = self.policy.cursor(path[0][0]), 0.0
        for state, action, reward, nxt in path:
            total += reward
            if action != cursor.action:
                return True
            if cursor.step == self.known.H - 1:
                break
            cursor.observe(nxt, symbol=self.knowledge.symbol(state, action, nxt, reward, total))
        return False

    def adviser(self, **options: Any) -> Adviser:
        """What to do step by step by the policy in force, in the model as estimated by now.

        See `lm.adviser`; what was never seen is accepted, and says nothing about the context.
        """
        from latentmdp.advice import Adviser  # which plans

        model = estimated_model(self.known, self.counts)
        return Adviser(model, self.policy, **{"accept_unexpected": True, **options})

    def end(self, context: int) -> bool:
        """The context, told in hindsight; returns whether the solver was called."""
        if self._path is None or len(self._path) < self.known.H:
            raise ModelError(f"end must come after {self.known.H} steps; {self._where()}")
        m = self._checked("context", context, self.known.M)  # l. 10
        news = self.knowledge.observe(m, self._path)
        triggered: list[int] = []  # the flag, as the rows that raise it; cleared in every episode
        for state, action, _, nxt in self._path:  # l. 11, in time order
            row = (m * self.known.S + state) * self.known.A + action
            n = self.counts.record(row, nxt)  # l. 12
            if n & (n - 1) == 0:  # l. 13: a power of two
                triggered.append(row)  # l. 14
                self.counts.snapshot(row)  # l. 15 and 16, at this very moment
        self._path = self._cursor = None
        self.episode += 1
        # rewards seen for the first time are numbered anew, and the policy looks at the numbers
        if triggered or news or self.spec.every_episode:  # l. 17
            self.update(np.unique(np.array(triggered, dtype=np.int64)))  # l. 18
            return True
        return False  # l. 19, 20: the policy stays

    def cancel(self) -> None:
        """Drop the episode under way; nothing of it is counted."""
        self._path = self._cursor = None

    def update(self, changed: Array) -> bool:
        """Ask the solver for the next policy; the rows `changed` have new snapshots.

        Returns whether its answer is the policy in force; `kept` counts that.
        """
        self.updates += 1
        if self.knowledge.estimate:  # what was known has changed: start afresh
            self.solver = make_solver(self.spec, self.known, self._stream(), settings=self.settings)
            changed = np.arange(self.counts.rows)
        before = self.policy
        self._solve(changed)
        self.kept += self.policy is before
        return self.policy is before

    def _solve(self, changed: Array) -> None:
        answer = self.solver.replan(self.counts, changed)
        if not answer.kept:
            self.policy = self._numbered(playable(self.known, answer.policy))
        self.optimistic_value, self.upper = float(answer.value), float(answer.upper)

    def _numbered(self, policy: PolicyGraph) -> PolicyGraph:
        """The policy, which says what its symbols stand for if it looks at them."""
        return policy.numbered_by(self.knowledge.numbering) if len(policy.node) else policy

    def _stream(self) -> np.random.Generator:
        """A new stream; only `random` must be saved to draw the same ones again."""
        return np.random.default_rng(int(self.random.integers(2**63)))

    @property
    def known(self) -> Given:
        """What the solver takes as known: given, or estimated so far."""
        return self.knowledge.known

    def __repr__(self) -> str:
        spec, estimated = self.spec, ", ".join(self.knowledge.estimate)
        return (
            f"Learner({spec.algorithm}, {spec.policy_class}, {self.episode - 1} episodes, "
            f"{self.updates} updates, bonus_scale {spec.bonus_scale:g}"
            + (f"; {estimated} estimated: {self._beyond})" if estimated else ")")
        )

    @property
    def _beyond(self) -> str:
        """What estimating costs, in words."""
        loses = {"w", "nu"} & set(self.knowledge.estimate)
        return "beyond the theorem, not optimistic" if loses else "beyond the theorem"

    def _checked(self, name: str, value: int, below: int) -> int:
        if not isinstance(value, (int, np.integer)) or not 0 <= value < below:
            raise ModelError(
                f"{name} must be a whole number from 0 to {below - 1}; it is {value!r}"
            )
        return int(value)

    def _where(self) -> str:
        if self._path is None:
            return f"episode {self.episode} has not begun"
        return f"episode {self.episode} has {len(self._path)} of {self.known.H} steps"

    # ------------------------------------------------------------------ plain data

    def state(self) -> State:
        """Everything that the future depends on, as plain data."""
        state: State = {
            "kind": "learner",
            "choice": self.spec.for_learner(),
            "settings": self.settings.record(),
            "knowledge": self.knowledge.state(),
            "counts": self.counts.to_arrays(),
            "policy": {name: getattr(self.policy, name) for name in POLICY_PARTS},
            "random": generator_state(self.random),
            "solver": self.solver.state(),
            "episode": self.episode,
            "updates": self.updates,
            "kept": self.kept,
            "optimistic_value": self.optimistic_value,
            "upper": self.upper,
        }
        if self._path is not None and self._cursor is not None:
            state |= {"path": self._path, "at": self._state, "node": self._cursor.node}
        return state

    @classmethod
    def from_state(cls, state: State) -> Learner:
        """Inverse of `state`: continues to the same bits. What a learner cannot hold is refused."""
        state = checked_learner(state)
        self = cls.__new__(cls)
        self.spec = RunSpec(**state["choice"])
        self.settings = SearchEffort.from_record(state["settings"])
        self.knowledge = GivenOrEstimated.from_state(state["knowledge"])
        self.counts = Counts.from_arrays(state["counts"])
        policy = PolicyGraph.from_arrays(*(state["policy"][name] for name in POLICY_PARTS))
        self.policy = self._numbered(policy)
        check_fits(self.known, self.policy)
        self.random = restore_generator(state["random"])
        self.episode = state["episode"]
        self.updates, self.kept = state["updates"], state["kept"]
        self.optimistic_value, self.upper = state["optimistic_value"], state["upper"]
        in_force = Answer(self.policy, self.optimistic_value, self.upper)
        self.solver = make_solver(self.spec, self.known, self.random, in_force, self.settings)
        self.solver.restore(state["solver"], self.counts)
        self._path = self._cursor = self._adviser = None
        self._strayed = False
        if "path" in state:
            self._path = list(state["path"])
            self._state = state["at"]
            self._cursor = Cursor(self.policy, state["node"])
            self._strayed = self._has_strayed(self._path)
        return self

    def save(self, path: PathLike) -> None:
        """Write everything to one npz file, atomically; also in the middle of an episode."""
        save_state(path, self.state())

    @classmethod
    def load(cls, path: PathLike) -> Learner:
        """A saved learner, ready for the call that would have come next."""
        with refusing_misfits(path, "learner"):
            return cls.from_state(load_state(path, "learner"))
