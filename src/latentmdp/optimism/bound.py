"""A tighter certified bound on the optimistic optimum of both classes.

`search.upper` knows the context from the second step on. Here not knowing it costs something at
every later step too: `kernels/optimistic_bound.py` has the idea, docs/optimism.md the proof. A
policy without memory is a policy, so a bound for the history class is one for the Markov class.
"""

from typing import Any

from latentmdp.optimism.markov import EQUAL
from latentmdp.optimism.memory import Observations

BUDGET = 2000  # backups of `optimistic_plan`


def tighter(search: Any, value: float, budget: int = BUDGET) -> float:
    """A bound on the optimum of both classes, at least `value` and at most `search.upper`.

    `search` is the `MarkovSearch` or `MemorySearch` of a planner, up to date with the counts;
    `value` is the optimistic value of a policy, at which the search may stop: that policy is then
    a certified argmax. The same budget gives the same number, a larger one never a larger number.
    One backup looks at `O(A M b)` lists of earlier ones. Overwrites value set 1 of the arena.
    """
    if value >= search.upper - EQUAL or budget < 1:
        return float(max(search.upper, value))
    from latentmdp.kernels.flat import header_of
    from latentmdp.kernels.optimistic_bound import tighten
    from latentmdp.kernels.optimistic_slopes import make_work

    x, slots = search.arena, len(search.model.next)
    seen = Observations.of(search.model).of_slots(search.model)
    work = make_work(x, slots, seen, budget)
    header = header_of(work)
    bound = tighten(x.here, header.ctypes.data, budget, value)
    return float(max(min(bound, search.upper), value))
