"""How planning searches and divides its time: every number in one place.

None of them decides what is a valid bound, only how work, time and memory are divided. `SETTINGS`
is what planners use; tests pass others. A section names the benchmark that shows what its numbers
cost; numbers without one were chosen by trial.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class PlanningSettings:
    """The numbers; see the module."""

    # ---- the driver: `python benchmarks/plan_history.py`, `... plan_infinite.py`
    least_quantum: int = 20_000
    """Work between two looks at the clock, at least; else a 200th of the work so far."""
    rounding_gap: float = 1e-11
    """A gap this small, relative to the largest value, is rounding error."""
    unit_seconds: float = 3e-7
    """To write and evaluate a node or edge, until measured; 1e-7 to 3.6e-7 were measured."""
    least_unit_seconds: float = 2e-7
    """... and at least: large policies take longer per node than those of middling size."""
    controller_seconds: float = 4e-6
    """To write and evaluate a node of a controller, per context, until measured."""
    first_measured: float = 0.05
    """Share of the time limit after which policies are written to measure how long it takes."""
    measured_growth: float = 2.0
    """A search that has grown by this factor is measured again ..."""
    measuring_share: float = 0.1
    """... if that takes no more than this share of the time so far."""
    reserve_factor: float = 1.5
    """Kept back: this many times what writing and evaluating the policy should take ..."""
    most_kept_back: tuple[float, float] = (0.5, 0.8)
    """... and at most this share of the time limit, before and after the first measurement."""
    go_on_factor: float = 1.3
    """With more than this many times the reserve left, a search that stopped for it goes on."""
    baseline_seconds: float = 0.2
    """Kept back for the comparison with baselines: this ..."""
    baseline_factor: float = 10.0
    """... and this many times what solving each context took ..."""
    baseline_share: float = 0.1
    """... and at most this share of the time limit."""
    fallback_seconds: float = 2e-8
    """Kept back while contexts are solved: per outcome and step, for a policy of one context."""
    corners_share: float = 0.2
    """The same without a last step, as a share of the time limit."""
    small_policy: int = 20_000
    """Nodes and edges of a policy that is always written: it takes no time."""
    policy_node_bytes: int = 160
    """Memory of a node while a policy is written, and 16 per context."""
    policy_edge_bytes: int = 140
    """Memory of an edge."""

    # ---- the search `layers`: `python benchmarks/plan_history.py`
    layers_first_cut: float = 1e-6
    """Nodes reached with less are not followed while there are others to expand."""
    layers_drift: float = 1e-3
    """Share of the allowed gap that may be added for sweeps that stop early."""
    layers_notice: float = 1e-4
    """Changes below this share of the allowed gap are not passed on at once."""
    layers_batch: float = 0.15
    """Beliefs expanded per round, relative to those expanded already."""
    layers_pass_work: int = 200_000
    """Work of expanding or sweeping between two looks at the clock."""

    # ---- the search `grid`: `python benchmarks/plan_history.py`
    grid_piece_cost: int = 20_000_000
    """Multiplications (about) between two looks at the clock."""
    grid_refinement: int = 3
    """A finer grid has at least this many times the vertices."""
    tree_pass_nodes: int = 200_000
    """Nodes to tighten or back up between two looks at the clock."""
    first_nodes: int = 4096
    """Room of a new tree."""
    room_growth: float = 1.3
    """Room of a tree or graph that was full, by what is in use."""

    # ---- both side by side: `python benchmarks/plan_methods.py`
    race_head_start: int = 20_000
    """Work that the leader does before the other starts; more in large models."""
    race_first_look: int = 10_000
    """Work that the other does then, whatever its share."""
    race_other_share: float = 0.12
    """Of all work, for the search that does not lead."""
    race_overtakes: float = 0.5
    """The other leads when its gap is at most this times the leader's, for less work."""
    race_catches_up: float = 0.2
    """Share of a grid's cost that the other may spend before the leader builds it."""
    race_steps: int = 64
    """Steps looked at to see whether beliefs come back."""

    # ---- default nodes (`belief_free.py`)
    default_sweeps: int = 5
    """Of coordinate ascent; 15 more gained at most 0.003 in four domains."""
    default_evaluations: int = 6
    """Of ascent without a last step; each takes 2 M linear systems."""
    default_gain: float = 1e-9
    """Relative gain for which another table is taken."""
    default_time: float = 0.05
    """Share of the time limit that all of it may take."""

    # ---- the comparison of plans that ended early with baselines (`safeguard.py`)
    baseline_markov_time: float = 0.3
    """Share of the time that is left, for the Markov policy."""
    baseline_backups: int = 20_000_000
    """Row backups for the Markov policy, or ..."""
    baseline_sweeps: int = 10
    """... this many backups of all rows at all steps, if that is more."""
    baseline_infinite_backups: int = 20_000
    """The same without a last step, ..."""
    baseline_infinite_sweeps: int = 100
    """... where a linear system counts as four sweeps."""
    baseline_backups_share: int = 2
    """Added to either: this for each unit of the search's work."""
    candidate_work: int = 150_000
    """Of the candidates' graph, about 0.15 seconds, ..."""
    candidate_outcome_work: float = 0.5
    """... and this for each outcome at each step, ..."""
    candidate_work_share: float = 0.02
    """... and this for each unit of the search's work."""
    interrupted_share: float = 0.1
    """Share of the time so far that may be added after Ctrl-C, or ..."""
    interrupted_seconds: float = 0.5
    """... this, if that is less."""
    small_model: int = 200_000
    """Outcomes times steps: for models of this size there are always ..."""
    small_model_seconds: float = 0.03
    """... this many seconds."""
    least_evaluations: float = 6.0
    """Of the plan's policy: with less time left the comparison does not begin."""
    baseline_memory: int = 2**24
    """Bytes that it may take however low the limit is."""

    # ---- the policy from candidate actions (`candidate_policy.py`)
    candidate_tables: float = 0.4
    """Share of the memory for the values of exits and of knowing the context, ..."""
    candidate_graph: float = 0.2
    """... and for the graph of beliefs; the rest is for the policy."""
    candidate_exits_time: float = 0.4
    """Share of the time that is left for the values of exits, at most."""
    candidate_writing: float = 0.3
    """Share of the time kept back for writing and evaluating the policy."""
    candidate_least_weight: float = 1e-9
    """Paths that are less likely are not followed."""
    candidate_piece: int = 100_000
    """Work between two looks at the clock."""
    candidate_outcomes_per_unit: int = 100
    """Outcomes of a table that is evaluated for a unit of work."""
    candidate_chain_work: int = 300
    """Work of a linear system, however small."""
    candidate_sweeps: int = 400
    """Backups where there is no last step."""
    candidate_node_bytes: int = 700
    """Memory of a new graph, for each node that it has room for."""
    first_room: int = 1024
    """Nodes of a new graph of candidates, or of a new store of controller nodes."""

    # ---- infinite horizons: `python benchmarks/plan_infinite.py`
    infinite_safety: float = 1e-13
    """Added to upper values for rounding, relative to the largest."""
    infinite_corner_rounds: int = 1_000
    """Of improving a context's own policy, at most."""
    infinite_work_share: int = 12
    """Observations at a vertex in a sweep that take a unit of work."""
    infinite_sweeps: int = 4_000
    """Of a grid, at most; work limits do not look inside."""
    infinite_grid_share: float = 0.02
    """Share of the gap that the upper values of a grid may still be able to fall."""
    infinite_node_share: float = 0.02
    """Share of the gap, per step, that a new controller node must gain."""
    most_tidied: int = 30_000
    """Nodes; larger controllers are handed out as they are."""
    tidying: float = 9.0
    """Evaluations: as long as it takes to tidy a controller and evaluate it twice, ..."""
    tidying_share: float = 0.2
    """... and at most this share of the time limit is kept back for it."""
    visits: float = 8.0
    """Evaluations: as long as it takes to find values and visits for cutting."""
    cutting_seconds: float = 1.0
    """Kept back for cutting itself, or ..."""
    cutting_share: float = 0.25
    """... this share of the time limit, if that is less."""

    # ---- controllers of few nodes (`small_controller.py`)
    small_factors: tuple[int, ...] = (1, 2, 4)
    """Times the nodes to be left: how many the cutting begins with."""
    small_surplus: tuple[float, ...] = (1.0, 1.5, 2.0)
    """Times the nodes asked for: how many are left before equal ones are merged."""
    small_most_solved: int = 2_000_000
    """Numbers in the inverse matrices; larger controllers are not improved."""
    small_most_dense: int = 500_000
    """Numbers in the inverse matrices to begin with."""
    small_batches: int = 30
    """Batches in which nodes are taken out."""
    small_sweeps: int = 100
    """Of improvement at the end, at most."""
    small_gain: float = 1e-10
    """Of a change, relative to the value: less is no gain."""
    small_table_work: int = 100_000
    """Row backups, about a second: for the Markov policy beside a small controller."""

    # ---- Markov policies: `python benchmarks/plan_markov.py`
    rounding: float = 1e-12
    """Gaps of Markov plans below this, relative to the largest value, are rounding error."""
    kicks: int = 20
    """Kicks in a row that gain nothing before ascent is done."""
    more_kicks: int = 2_000_000
    """Where a proof follows: this many over a sweep's backups, from `kicks` to ten times that."""
    weight_blur: float = 3.0
    """Standard deviation of the logarithm of a kick's weights."""
    shaken_share: float = 0.1
    """Share of the steps and states that get random actions in a kick."""
    evaluation_factor: int = 5
    """The last evaluation takes at most this many times a valuation of a table."""
    turn_work: int = 1_000
    """Row backups that take as long as a turn itself."""
    memory_unit: int = 100
    """Row backups that take as long as a unit of work of planning with memory."""
    memory_work: int = 50_000
    """Units of the history planner for its first bound."""
    memory_gap: float = 1e-3
    """Relative gap that it is asked for at first."""
    grid_vertices: tuple[int, ...] = (100, 500, 2_000, 8_000)
    """Per group and state, of ever finer grids."""
    finer_gain: float = 0.001
    """Share of the open gap that a grid beside the search must gain, or it is the last."""
    refine_price: int = 4
    """The search gets this many parts of the work for one of finer grids ..."""
    restart_price: int = 10
    """... and for one of restarts."""
    short_search: int = 1_000
    """Nodes: a search that ends with fewer is over before a grid is built."""
    search_nodes: int = 10_000
    """Nodes of branch and bound between two looks at the clock, at most."""

    # ---- levels of branch and bound (`proof_levels.py`): `python benchmarks/plan_markov.py`
    level_first_step: float = 0.02
    """Share of the gap at the beginning: how far the first level goes."""
    level_smallest_step: float = 0.001
    """Share of the same: a level that goes no further has no limit."""
    level_small: int = 1_000
    """Nodes that take no time: the next level goes further."""
    level_least_limit: int = 20_000
    """Nodes that a level may take, whatever the last one took."""
    level_most_growth: float = 20.0
    """Times the nodes of the last level: more, and a smaller step is tried."""
    level_good_growth: tuple[float, float] = (1.5, 4.0)
    """Times the nodes of the last level: less or more change the step."""
    level_jump_nodes: int = 500_000
    """The last level is tried at once if it is expected to take fewer."""

    # ---- Markov policies without a last step: `python benchmarks/plan_infinite.py`
    infinite_shaken_share: float = 0.2
    """Share of the states that get random actions in a kick."""
    infinite_markov_safety: float = 1e-14
    """Added to bounds for rounding, relative to the largest value."""
    infinite_memory_work: int = 200_000
    """Units of the history planner for its bound."""
    bound_sweeps: int = 200
    """Of a branch's bound, at most."""
    most_open: int = 200_000
    """Branches that wait."""
    branch_tries: int = 50
    """Branches whose tables are climbed from."""


SETTINGS = PlanningSettings()
