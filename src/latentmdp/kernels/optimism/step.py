"""One optimistic step of either kind, chosen by the type of the rows: `visit_rows`, `settle`.

Numba compiles each kernel that calls them for the kind at hand; nothing is looked up at run time.
A level of calls costs 0.3 microseconds, as the structs are handed on field by field: so the names
stand for the two kernels themselves, not for functions that call them.
"""

from numba.extending import overload

from latentmdp.kernels.optimism.bonus import visit_bonus_rows
from latentmdp.kernels.optimism.interval import sort_defaults, visit_box_rows
from latentmdp.kernels.structs import BoxRows

BACK_UP, PUSH = False, True  # what to do at the rows: values of nodes, or reach of successors


def visit_rows(rows, nodes, begin, end, wanted, policy, action, m0, m1, valuation, out, pushing,
               through_cap, scratch):  # fmt: skip
    """Back up the nodes `begin .. end` of one step, or push their reach; see the two kernels."""
    chosen = visit_box_rows if isinstance(rows, BoxRows) else visit_bonus_rows
    chosen(rows, nodes, begin, end, wanted, policy, action, m0, m1, valuation, out, pushing,
           through_cap, scratch)  # fmt: skip


def settle(rows, nodes, t, m0, m1, valuation):
    """All values of step `t` are written: bring its default nodes in order where that is needed."""
    if isinstance(rows, BoxRows):
        sort_defaults(rows, nodes, t, m0, m1, valuation)


# prefer_literal: BACK_UP and PUSH are known when compiling, so that each caller has its own half
@overload(visit_rows, prefer_literal=True, jit_options={"error_model": "numpy"})
def _compiled_visit_rows(rows, nodes, begin, end, wanted, policy, action, m0, m1, valuation, out,
                         pushing, through_cap, scratch):  # fmt: skip
    return (visit_box_rows if rows.instance_class is BoxRows else visit_bonus_rows).py_func


@overload(settle, jit_options={"error_model": "numpy"})
def _compiled_settle(rows, nodes, t, m0, m1, valuation):
    if rows.instance_class is BoxRows:
        return sort_defaults.py_func
    return lambda rows, nodes, t, m0, m1, valuation: None
