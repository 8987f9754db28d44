"""Compile ahead, in other processes: small runs of everything that uses kernels.

Machine code is kept on disk, so it does not matter which process compiles it. `latentmdp compile`
runs all tasks; a first `learn` runs those of its learner beside the planning of the optimum.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, NamedTuple

from latentmdp.errors import ModelError
from latentmdp.runtime.calls import Call, Calls
from latentmdp.runtime.files import reason
from latentmdp.runtime.notice import notice
from latentmdp.runtime.worker import find_function

TINY = "garnet:contexts=2,states=3,actions=2,branching=2,horizon=3"
SMALL = "garnet:contexts=3,states=4,actions=2,branching=2,horizon=8,shared_support=1"
DEEP = "bandit"  # with memory, its tables grow


# ---------------------------------------------------------------- the small runs


def plan(policy_class: str) -> None:
    """Plan by all methods of a class."""
    import latentmdp as lm
    from latentmdp.planning.history.planner import HISTORY_METHODS
    from latentmdp.planning.markov.planner import MARKOV_METHODS

    methods = HISTORY_METHODS if policy_class == "history" else MARKOV_METHODS
    for spec in (TINY, SMALL, DEEP):
        for method in methods:
            lm.plan(lm.make(spec), policy_class, None, None, method=method, work_limit=10**5)
    lm.plan(lm.make(SMALL), policy_class, None, None, work_limit=1)  # ends early


def plan_without_end() -> None:
    """Plan, cut down and evaluate stationary controllers, a large one too."""
    import math

    import numpy as np

    import latentmdp as lm

    for spec in (TINY, SMALL):
        model = lm.make(spec, observe_rewards=False)
        model = model.replace(discount=0.95, horizon=math.inf, max_return=None)
        found = lm.plan(model, gap=None, time_limit=None, work_limit=10**5, max_nodes=model.S + 2)
        lm.plan(model, gap=None, time_limit=None, work_limit=1)  # ends early
        lm.plan(model, "markov", None, None, work_limit=10**6)
        lm.evaluate(model, found.policy)
    state, none = np.tile(np.arange(model.S), 1000), np.zeros(0, dtype=np.int64)
    zeros, first = np.zeros(len(state), dtype=np.int64), np.arange(model.S)
    large = lm.PolicyGraph.from_arrays(
        zeros, state, zeros, np.append(zeros, 0), none, none, none, first, first[None],
        stationary=True,
    )  # fmt: skip
    lm.evaluate(model, large)
    lm.reach_weights(model, large)
    slow = lm.make("garnet:contexts=1,states=2500,actions=1,branching=2")  # for GMRES
    slow = slow.replace(discount=1.0 - 1e-6, horizon=math.inf, max_return=None)
    table = np.zeros(slow.S, dtype=np.int64)
    lm.evaluate(slow, lm.PolicyGraph.from_table(table, stationary=True))


def update(algorithm: str, policy_class: str) -> None:
    """Let a learner plan for what it has seen, without a simulator."""
    import latentmdp as lm

    for spec in (TINY, SMALL):
        model = lm.make(spec)
        env = lm.LatentMDPEnv(model)
        learner = lm.Learner(
            model, algorithm, episodes=100, policy_class=policy_class, bonus_scale=0.01
        )  # a small bonus: nothing is capped for long, so that every kernel is called
        for episode in range(100):
            state, _ = env.reset(seed=episode)
            action: int | None = learner.begin(int(state))
            while action is not None:
                state, reward, _, _, info = env.step(action)
                action = learner.step(float(reward), int(state))
            learner.end(info["context"])


def plan_optimistically(algorithm: str, policy_class: str) -> None:
    """Plan for counts that are drawn."""
    import numpy as np

    import latentmdp as lm

    for spec in (TINY, SMALL):
        model = lm.make(spec)
        visits = np.random.default_rng(0).integers(1000, size=(model.M, model.S, model.A, model.S))
        lm.optimistic_plan(model, visits, algorithm, policy_class, bonus_scale=0.01)


def simulate() -> None:
    """Simulate episodes one by one, in blocks, and for people."""
    import numpy as np

    import latentmdp as lm
    from latentmdp.learning.simulation import simulate_counts, simulate_episodes
    from latentmdp.learning.spec import SIMULATORS

    model = lm.make(TINY)
    for simulator in SIMULATORS:
        lm.learn(model, "random", 10**5, simulator=simulator, optimal=(0.0, 1.0))
    policy = lm.PolicyGraph.from_table(np.zeros((model.H, model.S), dtype=int))
    simulate_counts(model, policy, 1000)
    simulate_episodes(model, policy, 1000)


def evaluate() -> None:
    """Evaluate policies and bound the variance."""
    import latentmdp as lm

    model = lm.make(TINY)
    for policy_class in ("markov", "history"):
        policy = lm.plan(model, policy_class).policy
        lm.evaluate(model, policy)
        lm.return_distribution(model, policy)
        lm.reach_weights(model, policy)
        lm.max_variance(model, policy_class)
    lm.context_optimal(model)


def audit(algorithm: str, policy_class: str) -> None:
    """Learn and audit the run."""
    import latentmdp as lm

    model = lm.make(TINY)
    run = lm.learn(model, algorithm, 10**4, policy_class, bonus_scale=0.01, optimal=(0.0, 1.0))
    lm.audit(run)


class Task(NamedTuple):
    """A small run with its arguments."""

    function: Callable[..., None]
    arguments: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """Also of the note that says that it has been done."""
        return "-".join((self.function.__name__, *self.arguments))


KINDS = {"bonus": "mvp", "interval": "bernstein"}  # of optimistic models, each with an algorithm
TASKS = [  # what takes long comes first, and not beside what needs the same kernels
    Task(plan, ("history",)),
    Task(update, ("mvp", "markov")),
    Task(plan, ("markov",)),
    Task(update, ("bernstein", "markov")),
    Task(simulate),
    Task(update, ("mvp", "history")),
    Task(evaluate),
    Task(plan_without_end),
    Task(update, ("bernstein", "history")),
    *(
        Task(function, (algorithm, policy_class))
        for function in (plan_optimistically, audit)
        for algorithm in KINDS.values()
        for policy_class in ("markov", "history")
    ),
]


# ---------------------------------------------------------------- in other processes


def compile_all() -> None:
    """Do all tasks in two processes. What was compiled is kept if it is stopped."""
    from latentmdp.runtime.compile import write_note

    with _in_processes(min(2, os.cpu_count() or 1), TASKS) as work:
        for number in _wait(work):
            write_note(TASKS[number].name)


def _in_processes(jobs: int, tasks: list[Task]) -> Calls:
    functions = [f"{t.function.__module__}:{t.function.__name__}" for t in tasks]
    calls = zip(functions, tasks, strict=True)
    return Calls(jobs, [Call(f"{__name__}:compile_task", (f, *t.arguments)) for f, t in calls])


def compile_task(function: str, *arguments: Any) -> None:
    """In a worker: call the function of a task; a full disk is named by its folder."""
    from latentmdp.runtime.compile import notes

    try:
        find_function(function)(*arguments)
    except OSError as error:  # Numba's own, which does not name the place
        folder = notes()
        place = error.filename if folder is None else folder.parent
        raise ModelError(
            f"{place} must have room for compiled kernels: {reason(error)}; what was compiled "
            "until then is kept"
        ) from None


@contextmanager
def compiling_ahead(algorithm: str, policy_class: str) -> Iterator[None]:
    """Compile the learner's kernels beside what goes on inside; wait for them at its end."""
    from latentmdp.optimism.confidence import RULES
    from latentmdp.runtime.compile import load_all, notes, read_note, write_note

    tasks = [Task(simulate)]
    if algorithm in RULES:
        tasks.append(Task(update, (KINDS[RULES[algorithm].kind], policy_class)))
    tasks = [task for task in tasks if read_note(task.name) is None]
    if not tasks or notes() is None or (os.cpu_count() or 1) < 2:
        yield
        return
    load_all()  # to count what the others compile
    with _in_processes(len(tasks), tasks) as work:
        yield
        with suppress(ModelError, RuntimeError):  # this process will meet what failed there
            for number in _wait(work):
                write_note(tasks[number].name)


def _wait(work: Calls) -> Iterator[int]:
    """The number of each task when it is done; a line says how far it is."""
    from latentmdp.runtime.compile import notes
    from latentmdp.runtime.kernel_cache import progress

    folder = notes()
    notice.begin(*progress(), folder and folder.parent)
    try:
        for number, _ in work.results(lambda: notice.update(*progress())):
            yield number
    finally:
        notice.end(*progress())
