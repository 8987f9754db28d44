"""Which outcomes the rows of an optimistic model list: a function of the visits alone.

A row has room for *candidates*: next states that the counts could record for it, in ascending
order. It lists those that are shown, at the front of its room. Where the counts have room for an
outcome that nobody has seen, the row does not list it, so a plan cannot depend on the storage.
"""

from typing import NamedTuple

from latentmdp.canonical import Floats, Ints
from latentmdp.kernels._cache import kernel


class Candidates(NamedTuple):
    """What rows may list. Row `i` has the candidates `start[i] .. start[i+1]`."""

    start: Ints  # (rows + 1,)
    next: Ints  # (slots,) ascending inside a row
    count_slot: Ints  # (slots,) where the counts have it, -1 if they have no slot
    reward: Floats  # (slots,) on the transition; 0 where rewards sit on rows
    group: Ints  # (slots,) candidates of one group are listed together
    shown: Ints  # (groups,) 1 if listed
    observation: Ints  # (slots,) its number among what the memory tells apart, -1 for none


class Listed(NamedTuple):
    """What rows list. Row `i` has the slots `start[i] .. stop[i]` of these arrays."""

    stop: Ints  # (rows,)
    next: Ints  # (slots,)
    observation: Ints  # (slots,)
    count_slot: Ints  # (slots,)
    slot: Floats  # (slots, 4): here only the reward, in column 1


@kernel
def list_outcomes(rows, candidates, listed, N_next, longer):
    """List what these rows have shown; `O(candidates)`.

    With groups that span contexts, `rows` must hold a state and action's rows of every context. The
    rows whose list has grown go to the front of `longer (len(rows),)`; returns how many.
    """
    start, group, shown = candidates.start, candidates.group, candidates.shown
    for row in rows:
        for k in range(start[row], start[row + 1]):
            count = candidates.count_slot[k]
            if count >= 0 and N_next[count] > 0:
                shown[group[k]] = 1
    grown = 0
    for row in rows:
        at = start[row]
        for k in range(start[row], start[row + 1]):
            if shown[group[k]] == 1:
                listed.next[at] = candidates.next[k]
                listed.observation[at] = candidates.observation[k]
                listed.count_slot[at] = candidates.count_slot[k]
                listed.slot[at, 1] = candidates.reward[k]
                at += 1
        if at != listed.stop[row]:
            listed.stop[row] = at
            longer[grown] = row
            grown += 1
    return grown
