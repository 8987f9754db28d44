"""One optimistic step of either kind: `backup` and `push`, chosen by the type of the rows.

Numba compiles each kernel that calls them for the kind at hand; nothing is looked up at run time.
"""

from numba.extending import overload

from latentmdp.kernels.optimistic_bonus import bonus_backup, bonus_push
from latentmdp.kernels.optimistic_interval import box_backup, box_push
from latentmdp.kernels.structs import BoxRows


def backup(rows, nodes, begin, end, wanted, policy, action, m0, m1, valuation, out, scratch):
    """Optimistic values of the nodes `begin .. end` of one step; arguments as in `bonus_backup`."""
    chosen = box_backup if isinstance(rows, BoxRows) else bonus_backup
    chosen(rows, nodes, begin, end, wanted, policy, action, m0, m1, valuation, out, scratch)


def push(rows, nodes, begin, end, policy, valuation, reach, through_cap, scratch):
    """Push the reach of the nodes `begin .. end` of one step to their successors."""
    chosen = box_push if isinstance(rows, BoxRows) else bonus_push
    chosen(rows, nodes, begin, end, policy, valuation, reach, through_cap, scratch)


@overload(backup)
def _compiled_backup(
    rows, nodes, begin, end, wanted, policy, action, m0, m1, valuation, out, scratch
):
    return (box_backup if rows.instance_class is BoxRows else bonus_backup).py_func


@overload(push)
def _compiled_push(rows, nodes, begin, end, policy, valuation, reach, through_cap, scratch):
    return (box_push if rows.instance_class is BoxRows else bonus_push).py_func
