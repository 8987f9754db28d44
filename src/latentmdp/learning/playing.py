"""A run from its beginning or a checkpoint to its end, with checkpoints on the way."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from latentmdp.learning.run import Run
from latentmdp.learning.session import Session
from latentmdp.learning.solvers import Answer

if TYPE_CHECKING:
    from latentmdp.learning.spec import RunSpec
    from latentmdp.model.latent_mdp import LatentMDP
    from latentmdp.policy.graph import PolicyGraph

CHECKPOINT_SECONDS = 5.0


def begin(
    model: LatentMDP, spec: RunSpec, optimal: tuple[float, float],
    policy: PolicyGraph | None = None, seconds_optimal: float = 0.0,
    history_value: float | None = None,
) -> Run:  # fmt: skip
    """A run with no episode played yet."""
    oracle = None if policy is None else Answer(policy, *optimal)
    state = Session(model, spec, oracle).state()
    return Run(model, state, optimal, seconds_optimal, history_value)


def play(
    run: Run,
    stop: Callable[[], bool],
    save: Callable[[Run], None] | None = None,
    show: Callable[[Session], None] | None = None,
    every: float | None = None,
) -> Run:
    """The run continued to its end, or to the next phase (or episodes) after `stop` says so.

    `save` is given the run so far `every` few seconds, `show` the session after each phase.
    """
    every = CHECKPOINT_SECONDS if every is None else every
    session = run.session()

    def now() -> Run:
        state = session.state()
        return Run(run.model, state, run.optimal, run.seconds_optimal, run.history_value)

    saved = time.monotonic()
    while session.done < session.target and not stop():
        session.next_phase(stop=stop)
        if show is not None:
            show(session)
        if save is not None and time.monotonic() - saved > every:
            save(now())
            saved = time.monotonic()
    return now()
