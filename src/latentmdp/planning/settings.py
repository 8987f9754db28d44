"""How planning searches and divides its time: every number in one place.

None of them decides what is a valid bound, only how work, time and memory are divided. `SETTINGS`
is what planners use; tests pass others. A section names the benchmark that shows what its numbers
cost; they were chosen by trial with it, and where none is named, by trial on small domains.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class PlanningSettings:
    """The numbers; see the module. Shares are of what the comment names."""

    # ---- the driver: `python benchmarks/plan_history.py`, `... plan_infinite.py`
    least_quantum: int = 20_000  # work between two looks at the clock (or a 200th of the work)
    rounding_gap: float = 1e-11  # a gap below this, relative to the largest value, is rounding
    unit_seconds: float = 3e-7  # to write and evaluate a node or edge (1e-7 to 3.6e-7 measured)
    least_unit_seconds: float = 2e-7  # ... at least: large policies take longer per node
    controller_seconds: float = 4e-6  # to write and evaluate a controller's node, per context
    first_measured: float = 0.05  # of the time limit: then a policy is written to measure that
    measured_growth: float = 2.0  # measured again when work has grown by this factor, and time so
    measuring_share: float = 0.1  # that measuring takes about this share of it
    reserve_factor: float = 1.5  # kept back: this many times what writing and evaluating takes,
    # and at most this share of the time limit, before and after the first measurement
    most_kept_back: tuple[float, float] = (0.5, 0.8)
    go_on_factor: float = 1.3  # a search goes on if this many times the reserve is left after all
    baseline_seconds: float = 0.2  # kept back for the comparison with baselines: this,
    baseline_factor: float = 10.0  # and this many times what solving each context took,
    baseline_share: float = 0.1  # and at most this share of the time limit
    fallback_seconds: float = 2e-8  # per outcome and step, for the policy of a single context
    corners_share: float = 0.2  # the same without a last step, of the time limit
    small_policy: int = 20_000  # nodes and edges of a policy that takes no time to write
    policy_node_bytes: int = 160  # of a policy while it is written, and 16 per context
    policy_edge_bytes: int = 140

    # ---- the search `layers`: `python benchmarks/plan_history.py`
    layers_first_cut: float = 1e-6  # nodes reached with less wait until all others are expanded
    layers_drift: float = 1e-3  # of the allowed gap: may be added for sweeps that stop early
    layers_notice: float = 1e-4  # of the allowed gap: smaller changes are passed on later
    layers_batch: float = 0.15  # beliefs expanded per round, relative to those expanded already
    layers_pass_work: int = 200_000  # of expanding or sweeping between two looks at the clock

    # ---- the search `grid`: `python benchmarks/plan_history.py`
    grid_piece_cost: int = 20_000_000  # multiplications (about) between two looks at the clock
    grid_refinement: int = 3  # a finer grid has at least this many times the vertices
    tree_pass_nodes: int = 200_000  # to tighten or back up between two looks at the clock
    first_nodes: int = 4096  # room of a new tree
    room_growth: float = 1.3  # room of a tree or graph that was full, by what is in use

    # ---- both side by side: `python benchmarks/plan_methods.py`
    race_head_start: int = 20_000  # work of the leader before the other starts, at least
    race_first_look: int = 10_000  # work that the other does then, whatever its share
    race_other_share: float = 0.12  # of all work, for the search that does not lead
    race_overtakes: float = 0.5  # the other leads if its gap is at most this times the leader's
    race_catches_up: float = 0.2  # of a grid's cost: for the other before the leader builds it
    race_steps: int = 64  # steps looked at to see whether beliefs come back

    # ---- default nodes (`belief_free.py`)
    default_sweeps: int = 5  # of ascent; 15 more gained at most 0.003 in four domains
    default_evaluations: int = 6  # of ascent without a last step; each takes 2 M linear systems
    default_gain: float = 1e-9  # relative gain for which another table is taken
    default_time: float = 0.05  # of the time limit, for all of it

    # ---- the comparison of plans that ended early with baselines (`safeguard.py`)
    baseline_markov_time: float = 0.3  # of the time that is left, for the Markov policy
    baseline_backups: int = 20_000_000  # row backups for the Markov policy, or
    baseline_sweeps: int = 10  # this many backups of all rows at all steps, if that is more
    baseline_infinite_backups: int = 20_000  # the same without a last step,
    baseline_infinite_sweeps: int = 100  # where a linear system counts as four sweeps
    baseline_backups_share: int = 2  # added to either for each unit of the search's work
    candidate_work: int = 150_000  # of the candidates' graph, about 0.15 seconds,
    candidate_outcome_work: float = 0.5  # and this for each outcome at each step,
    candidate_work_share: float = 0.02  # and this for each unit of the search's work
    interrupted_share: float = 0.1  # of the time so far: may be added after Ctrl-C, or
    interrupted_seconds: float = 0.5  # this, if that is less
    small_model: int = 200_000  # outcomes times steps: up to this size there are always
    small_model_seconds: float = 0.03  # this many seconds
    least_evaluations: float = 6.0  # of the policy: with less time left it does not begin
    baseline_memory: int = 2**24  # bytes that it may take however low the limit is

    # ---- the policy from candidate actions (`candidate_policy.py`)
    candidate_tables: float = 0.4  # of the memory: for values of exits and of knowing the context,
    candidate_graph: float = 0.2  # and for the graph of beliefs; the rest is for the policy
    candidate_exits_time: float = 0.4  # of the time that is left: for values of exits, at most
    candidate_writing: float = 0.3  # of the time: for writing and evaluating the policy
    candidate_least_weight: float = 1e-9  # paths that are less likely are not followed
    candidate_piece: int = 100_000  # work between two looks at the clock
    candidate_outcomes_per_unit: int = 100  # outcomes evaluated for a unit of work
    candidate_chain_work: int = 300  # of a linear system, however small
    candidate_sweeps: int = 400  # of backups where there is no last step
    candidate_node_bytes: int = 700  # of a new graph, for each node that it has room for
    first_room: int = 1024  # nodes of a new graph of candidates, or store of controller nodes

    # ---- infinite horizons: `python benchmarks/plan_infinite.py`
    infinite_safety: float = 1e-13  # added to upper values for rounding, relative to the largest
    infinite_corner_rounds: int = 1_000  # of improving a context's own policy, at most
    infinite_work_share: int = 12  # observations at a vertex in a sweep for a unit of work
    infinite_sweeps: int = 4_000  # of a grid, at most; work limits do not look inside
    infinite_grid_share: float = 0.02  # of the gap: what a grid's upper values may still fall by
    infinite_node_share: float = 0.02  # of the gap, per step: what a new node must gain
    most_tidied: int = 30_000  # nodes; larger controllers are handed out as they are
    tidying: float = 9.0  # evaluations that it takes to tidy and evaluate a controller twice
    tidying_share: float = 0.2  # of the time limit: kept back for tidying, at most
    visits: float = 8.0  # evaluations that it takes to find values and visits for cutting
    cutting_seconds: float = 1.0  # kept back for cutting itself, or
    cutting_share: float = 0.25  # this share of the time limit, if that is less

    # ---- controllers of few nodes (`small_controller.py`)
    small_factors: tuple[int, ...] = (1, 2, 4)  # cutting begins with this many times the nodes
    small_surplus: tuple[float, ...] = (1.0, 1.5, 2.0)  # and leaves this many times, to be merged
    small_most_solved: int = 2_000_000  # numbers in inverse matrices; else nothing is improved
    small_most_dense: int = 500_000  # numbers in the inverse matrices to begin with
    small_batches: int = 30  # in which nodes are taken out
    small_sweeps: int = 100  # of improvement at the end, at most
    small_gain: float = 1e-10  # of a change, relative to the value: less is no gain
    small_table_work: int = 100_000  # row backups for the Markov policy beside it: a second

    # ---- Markov policies: `python benchmarks/plan_markov.py`
    rounding: float = 1e-12  # a gap below this, relative to the largest value, is rounding
    kicks: int = 20  # in a row that gain nothing before ascent is done
    more_kicks: int = 2_000_000  # where a proof follows: this over a sweep's backups
    weight_blur: float = 3.0  # standard deviation of the logarithm of a kick's weights
    shaken_share: float = 0.1  # of the table: it gets random actions in a kick
    evaluation_factor: int = 5  # the last evaluation takes at most this many of a table's
    turn_work: int = 1_000  # row backups that take as long as a turn itself
    memory_unit: int = 100  # row backups that take as long as a unit of planning with memory
    memory_work: int = 50_000  # units of the history planner for its first bound
    memory_gap: float = 1e-3  # relative gap that it is asked for at first
    grid_vertices: tuple[int, ...] = (100, 500, 2_000, 8_000)  # of ever finer grids, per group
    finer_gain: float = 0.001  # of the open gap: a finer grid that gains less is the last one
    refine_price: int = 4  # the search gets this many parts of the work for one of finer grids
    restart_price: int = 10  # and for one of restarts
    short_search: int = 1_000  # nodes: a search with fewer is over before a grid is built
    search_nodes: int = 10_000  # of branch and bound between two looks at the clock, at most

    # ---- levels of branch and bound (`proof_levels.py`): `python benchmarks/plan_markov.py`
    level_first_step: float = 0.02  # of the gap at the beginning: how far the first level goes
    level_smallest_step: float = 0.001  # of the same: a level that goes no further has no limit
    level_small: int = 1_000  # nodes that take no time: the next level goes further
    level_least_limit: int = 20_000  # nodes that a level may take, whatever the last one took
    level_most_growth: float = 20.0  # times the nodes of the last level: more, and it is given up
    level_good_growth: tuple[float, float] = (1.5, 4.0)  # less or more change the step
    level_jump_nodes: int = 500_000  # the last level is tried at once if it should take fewer

    # ---- Markov policies without a last step: `python benchmarks/plan_infinite.py`
    infinite_markov_safety: float = 1e-14  # `infinite_safety` for bounds without interpolation
    bound_sweeps: int = 200  # of a branch's bound, at most
    most_open: int = 200_000  # branches that wait
    branch_tries: int = 50  # branches whose tables are climbed from


SETTINGS = PlanningSettings()
