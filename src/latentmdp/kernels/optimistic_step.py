"""One optimistic step of either kind, chosen by the type of the rows: `backup`, `push`, `settle`.

Numba compiles each kernel that calls them for the kind at hand; nothing is looked up at run time.
"""

from numba.extending import overload

from latentmdp.kernels.optimistic_bonus import bonus_backup, bonus_push
from latentmdp.kernels.optimistic_interval import box_backup, box_push, sort_defaults
from latentmdp.kernels.structs import BoxRows


def backup(rows, nodes, begin, end, wanted, policy, action, m0, m1, valuation, out, scratch):
    """Optimistic values of the nodes `begin .. end` of one step; arguments as in `bonus_backup`."""
    chosen = box_backup if isinstance(rows, BoxRows) else bonus_backup
    chosen(rows, nodes, begin, end, wanted, policy, action, m0, m1, valuation, out, scratch)


def push(rows, nodes, begin, end, policy, valuation, reach, through_cap, scratch):
    """Push the reach of the nodes `begin .. end` of one step to their successors."""
    chosen = box_push if isinstance(rows, BoxRows) else bonus_push
    chosen(rows, nodes, begin, end, policy, valuation, reach, through_cap, scratch)


def settle(rows, nodes, t, m0, m1, valuation):
    """All values of step `t` are written: bring its default nodes in order where that is needed."""
    if isinstance(rows, BoxRows):
        sort_defaults(nodes, t, m0, m1, valuation)


@overload(backup)
def _compiled_backup(
    rows, nodes, begin, end, wanted, policy, action, m0, m1, valuation, out, scratch
):
    return (box_backup if rows.instance_class is BoxRows else bonus_backup).py_func


@overload(push)
def _compiled_push(rows, nodes, begin, end, policy, valuation, reach, through_cap, scratch):
    return (box_push if rows.instance_class is BoxRows else bonus_push).py_func


@overload(settle)
def _compiled_settle(rows, nodes, t, m0, m1, valuation):
    if rows.instance_class is BoxRows:
        return lambda rows, nodes, t, m0, m1, valuation: sort_defaults(nodes, t, m0, m1, valuation)
    return lambda rows, nodes, t, m0, m1, valuation: None
