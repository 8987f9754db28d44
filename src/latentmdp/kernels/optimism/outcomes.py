"""Which outcomes the rows of an optimistic model list: a function of the visits alone.

A row has room for *candidates*: next states that the counts could record for it, in ascending
order. It lists those that are shown, at the front of its room. Where the counts have room for an
outcome that nobody has seen, the row does not list it, so a plan cannot depend on the storage.
"""

from latentmdp.runtime.kernel_cache import kernel


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
