"""Optimistic planning in the Markov class: the best table `(H, S)` for an optimistic model.

`MarkovSearch` holds one optimistic model in its arena, with the current best table; it is refreshed
for changed rows only, its bound for their contexts only, and each search starts from the current
table.
"""

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from latentmdp.canonical import Floats, Ints
from latentmdp.optimism.confidence import Rule, Setting
from latentmdp.optimism.model import Known, OptimisticModel

if TYPE_CHECKING:
    from latentmdp.counts import Counts


EQUAL = 1e-9  # optimistic values this close are ties
WORTH = 0.01  # of the gap to the bound: kicks that gain less are tried less often


class Effort(NamedTuple):
    """How hard to search. A kick costs a few sweeps, a checked pass many on large models."""

    passes: int  # checked passes per polish
    every: bool  # try every switch, not only those the derivative likes
    sweeps: int  # sweeps per polish, at most
    gain: float  # less than this is no improvement
    tilts: int  # kicks by other weights
    jolts: int  # kicks by random actions
    rest: int = 31  # searches without kicks after kicks have failed, at most

    @classmethod
    def for_size(cls, nodes: int, A: int, M: int, whole: bool = False) -> "Effort":
        """Everything on tiny models, a few sweeps and kicks on large ones.

        `whole`: the nodes are whole histories, few of them alive under a policy.
        """
        work = nodes * A * M
        if work <= 400:
            return cls(20, True, 100, 1e-12, 10, 20)
        if whole and work <= 2500:
            return cls(3, True, 50, 1e-12, 8, 8)
        if work <= 1000:
            return cls(1, False, 10, 1e-9, 4, 8, rest=7)
        if work <= 6000:
            return cls(1, False, 10, 1e-9, 2, 0)
        if work <= 20_000:
            return cls(0, False, 3, 1e-7, 1, 0)
        return cls(0, False, 1, 1e-7, 1, 0)


class Patience:
    """What keeps failing is tried less and less often."""

    def __init__(self) -> None:
        self.length, self.left = 0, 0  # turns from the last try to the next, and from now

    def turn(self) -> None:
        """One more turn has come."""
        self.left -= 1

    @property
    def due(self) -> bool:
        """Whether to try in this turn."""
        return self.left <= 0

    def tried(self, helped: bool, most: int, least: int = 0) -> None:
        """The next try is `least` turns off, or twice as many as last time and one, at `most`."""
        self.length = least if helped else min(2 * self.length + 1, most)
        self.left = self.length

    def state(self) -> list[int]:
        """Plain data."""
        return [self.length, self.left]

    def restore(self, state: Ints) -> None:
        """From `state()`."""
        self.length, self.left = (int(number) for number in state)


class Kicks:
    """Random perturbations, from a stream of their own.

    They are drawn a few ahead: now and then a single one costs as much as several in a row.
    """

    AHEAD = 16

    def __init__(self, rng: np.random.Generator, M: int, A: int) -> None:
        self.rng, self.M, self.A = rng, M, A
        self._kind: Any = None  # of what was drawn ahead
        self._before: Any = None  # state of the stream
        self._drawn: list[tuple[Floats, Floats, Ints]] = []
        self._used = 0

    def draw(self, effort: Effort, nodes: int) -> tuple[Floats, Floats, Ints]:
        """`tilt (n, M)`, `look (n,)`, `jolt (k, nodes)` for the search kernel."""
        kind = (effort, nodes)
        if kind != self._kind or self._used == len(self._drawn):
            self._kind, self._before = kind, self.stream().bit_generator.state
            self._drawn = [self._draw(*kind) for _ in range(self.AHEAD)]
        self._used += 1
        return self._drawn[self._used - 1]

    def stream(self) -> np.random.Generator:
        """The stream after the kicks that were used; those drawn ahead are forgotten."""
        if self._used < len(self._drawn):
            self.rng.bit_generator.state = self._before
            for _ in range(self._used):
                self._draw(*self._kind)
        self._drawn, self._used = [], 0
        return self.rng

    def _draw(self, effort: Effort, nodes: int) -> tuple[Floats, Floats, Ints]:
        rng = self.rng
        tilt = np.exp(1.5 * rng.standard_normal((effort.tilts, self.M)))
        look = np.array([0.0, 0.3, 1.0])[rng.integers(0, 3, effort.tilts)]
        if effort.jolts == 0:
            return tilt, look, np.zeros((0, nodes), dtype=np.int64)
        hit = rng.random((effort.jolts, nodes)) < 0.4
        if effort.every:
            hit[::2] = True  # tiny: every other one starts anew
        return tilt, look, np.where(hit, rng.integers(0, self.A, (effort.jolts, nodes)), -1)


class MarkovSearch:
    """An optimistic model in its arena, with the current best table. `O(H M S A)` memory."""

    def __init__(
        self,
        known: Known,
        rule: Rule,
        setting: Setting,
        counts: "Counts",
        rng: np.random.Generator | None = None,
    ) -> None:
        self.known, self.rule, self.setting, self.rng = known, rule, setting, rng
        self._width = setting.iota, setting.scale
        self.kicking = Patience()
        self.lay_out(counts, np.zeros((known.H, known.S), dtype=np.int64))

    def lay_out(self, counts: "Counts", table: Ints) -> None:
        """Build the arena for the counts' layout and fill all rows."""
        model = OptimisticModel.of(self.known, counts, self.rule, self.setting, self.rng)
        self.begin(model, counts, table)

    def begin(self, model: OptimisticModel, counts: "Counts", table: Ints) -> None:
        """Plan with this model, laid out for these counts."""
        self.version, self.model = counts.version, model
        self.look_at(counts)
        self.settle(model, table, 0, 0)

    def look_at(self, counts: "Counts") -> None:
        """Tell the kernels where these counts are."""
        from latentmdp.kernels.flat import header_of
        from latentmdp.kernels.optimistic_refresh import Seen

        rewards = np.array(self.known.row_reward)
        self._seen = Seen(
            counts.rows, counts.n, counts.N, counts.N_next, self.model.listed.count_slot, rewards
        )
        self._seen_header = header_of(self._seen)
        self._seen_at = self._seen_header.ctypes.data

    def settle(self, model: OptimisticModel, table: Ints, nodes: int, edges: int) -> None:
        """Move a model into a new arena with room for memory; the bound is recomputed."""
        from latentmdp.kernels.optimistic_arena import make_arena
        from latentmdp.kernels.optimistic_refresh import refresh_rows
        from latentmdp.kernels.optimistic_sweep import improve
        from latentmdp.kernels.outcomes import Listed

        known = self.known
        sizes = (known.M, known.S, known.A, known.H)
        interval, slots, rows = model.kind == "interval", len(model.next), len(model.coef)
        x = make_arena(interval, model.cap, sizes, slots, nodes, edges)
        x.T[: rows + 1] = model.candidates.start
        self._root = known.root
        x.P[x.root : x.root + known.M * known.S] = self._root.ravel()
        x.I[x.used : x.used + known.S] = self._root.any(axis=0)
        # the model's arrays become views into the arena, so that refreshing it is enough
        listed = Listed(
            x.T[x.stop : x.stop + rows], x.T[x.next : x.next + slots], x.T[x.obs : x.obs + slots],
            model.listed.count_slot, x.P[: 4 * slots].reshape(slots, 4),
        )  # fmt: skip
        self.model = model.moved_to(listed, x.P[x.coef : x.coef + 5 * rows].reshape(rows, 5))
        self.arena = x
        self._improve, self._refresh = improve, refresh_rows
        self.policy = x.I[x.policy : x.policy + x.N]  # of all nodes
        self._trial = x.I[x.kicked : x.kicked + x.N]
        self._tilted = x.F[x.tilted : x.tilted + x.M * x.S].reshape(x.M, x.S)
        self.table = self.policy[: known.H * known.S].reshape(known.H, known.S)
        self.table[:] = table
        self.bound(range(known.M))

    def update(self, counts: "Counts", changed: Ints) -> None:
        """Coefficients and bound for new counts, of which only the rows `changed` differ."""
        if self.version != counts.version:
            self.lay_out(counts, self.table)
            return
        if self._seen.n is not counts.n:
            self.look_at(counts)
        changed = self.list_outcomes(counts, changed)
        if self.rule.code > 0:
            self.upper, self.visits = self._refresh(  # the bound too
                self.arena.here, changed, self.rule.code, self._seen_at, *self._width
            )
            return
        if self.rule.random:
            changed = np.arange(counts.rows)
        self.model.refresh(counts, changed, self.rule, self.setting, self.rng)
        self.bound(set((changed // (self.known.S * self.known.A)).tolist()))

    def list_outcomes(self, counts: "Counts", changed: Ints) -> Ints:
        """Rows list what they have shown by now; returns the rows to refresh."""
        return self.model.list_outcomes(counts, changed)[0]

    def bound(self, contexts: "range | set[int]") -> float:
        """Certified bound on the class's optimum; only these contexts are recomputed."""
        from latentmdp.kernels.optimistic_refresh import GIVEN

        pairs = self.known.S * self.known.A
        rows = (np.array(sorted(contexts))[:, None] * pairs + np.arange(pairs)).ravel()
        self.upper, self.visits = self._refresh(
            self.arena.here, rows, GIVEN, self._seen_at, 0.0, 0.0
        )
        return self.upper

    def evaluate(self, policy: Ints) -> float:
        """Exact optimistic value of a table, or of actions of all nodes."""
        at = self.arena.policy
        if policy is not self.policy:
            at = self.arena.kicked
            if policy.ndim == 1:
                self._trial[:] = policy
            else:
                self._trial[: policy.size] = policy.ravel()
        return self._improve(self.arena.here, at, 0.0, 0, 0, False, 0.0, -1.0)  # no sweeps

    def search(self, effort: Effort, kicks: tuple[Floats, Floats, Ints]) -> float:
        """Improve the current policy until nothing helps or the bound is reached; its value.

        Kicks: `tilt (n, M)` multiplies the weights of the contexts and `look (n,)` is the factor on
        reach through the cap, for two sweeps; `jolt (k, N)` holds an action where a node is to be
        disturbed and -1 elsewhere. Each is polished under the true weights and kept if better.
        """
        return self._kicked(self._polished(self.arena.policy, effort), effort, kicks)

    def _kicked(self, value: float, effort: Effort, kicks: tuple[Floats, Floats, Ints]) -> float:
        """Try these kicks on a polished policy of this value."""
        at = self.arena.kicked
        for tilt, look in zip(kicks[0], kicks[1].tolist(), strict=True):
            if value >= self.upper - 1e-12:
                return value
            self._trial[:] = self.policy
            np.multiply(self._root, tilt[:, None], out=self._tilted)
            value = self._better(value, self._polished(at, effort, look))
        for jolt in kicks[2]:
            if value >= self.upper - 1e-12:
                return value
            self._trial[:] = np.where(jolt >= 0, jolt, self.policy)
            value = self._better(value, self._polished(at, effort))
        return value

    def _polished(self, policy: int, effort: Effort, look: float = -1.0) -> float:
        """Improve the policy at this place in the arena as far as the effort goes; its value."""
        return self._improve(
            self.arena.here, policy, self.upper - 1e-12, effort.sweeps, effort.passes,
            effort.every, effort.gain, look,
        )  # fmt: skip

    def _better(self, value: float, kicked: float) -> float:
        """The kicked policy becomes the current one if it is better; the current one's value."""
        if kicked <= value + 1e-12:
            return value
        self.policy[:] = self._trial
        return kicked

    def improve(self, effort: Effort, kicks: Kicks) -> float:
        """Sweeps, then kicks; on large models the longer kicks have failed the fewer."""
        nodes = self.arena.N
        value = self._polished(self.arena.policy, effort)
        if value >= self.upper - EQUAL:
            return value
        self.kicking.turn()
        if not self.kicking.due and not effort.every:
            return value
        better = self._kicked(value, effort, kicks.draw(effort, nodes))
        worth = max(EQUAL, WORTH * (self.upper - value))
        self.kicking.tried(better > value + worth, effort.rest, least=1)
        return better
