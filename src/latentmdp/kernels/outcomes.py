"""Which outcomes the rows of an optimistic model list: a function of the visits alone.

A row has room for *candidates*: next states that the counts could record for it, in ascending
order. It lists those that are shown, at the front of its room. Where the counts have room for an
outcome that nobody has seen, the row does not list it, so a plan cannot depend on the storage.
"""

from typing import NamedTuple

from latentmdp.canonical import Floats, Ints
from latentmdp.kernels._cache import kernel
from latentmdp.kernels.structs import Bools


class Candidates(NamedTuple):
    """What rows may list. Row `i` has the candidates `start[i] .. start[i+1]`."""

    start: Ints  # (rows + 1,)
    next: Ints  # (slots,) ascending inside a row
    count_slot: Ints  # (slots,) where the counts have it, -1 if they have no slot
    reward: Floats  # (slots,) on the transition; 0 where rewards sit on rows
    group: Ints  # (slots,) candidates of one group are listed together
    shown: Bools  # (groups,) whether they are listed
    observation: Ints  # (slots,) its number among what can be seen after (s, a)


@kernel
def list_outcomes(changed, candidates, rows, N_next, longer):
    """List what the rows `changed` have shown; `O(candidates)`.

    With groups that span contexts, these must be a state and action's rows of every context. Those
    whose list has grown go to the front of `longer (len(changed),)`; returns how many.
    """
    start, group, shown = candidates.start, candidates.group, candidates.shown
    for row in changed:
        for k in range(start[row], start[row + 1]):
            count = candidates.count_slot[k]
            if count >= 0 and N_next[count] > 0:
                shown[group[k]] = True
    grown = 0
    for row in changed:
        at = start[row]
        for k in range(start[row], start[row + 1]):
            if shown[group[k]]:
                rows.next[at] = candidates.next[k]
                rows.observation[at] = candidates.observation[k]
                rows.count_slot[at] = candidates.count_slot[k]
                rows.reward[at] = candidates.reward[k]
                at += 1
        if at != rows.stop[row]:
            rows.stop[row] = at
            longer[grown] = row
            grown += 1
    return grown
