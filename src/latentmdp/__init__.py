"""Plan and learn in latent MDPs with context in hindsight.

The public names are listed once, in `_HOME`; each is imported from its module at first use, so
that `import latentmdp` is fast.
"""

from importlib import import_module

from latentmdp._version import __version__

_HOME = {
    "ModelError": "errors",
    "LatentMDP": "model",
    "Layout": "labels",
    "TimedLatentMDP": "timed",
    "PolicyGraph": "policy",
    "transfer": "policy_transfer",
    "Cursor": "cursor",
    "initial_belief": "belief",
    "update_belief": "belief",
    "reach_weights": "belief",
    "Evaluation": "evaluation",
    "evaluate": "evaluation",
    "return_distribution": "evaluation",
    "context_optimal": "evaluation",
    "rollout": "trajectories",
    "load": "formats",
    "save": "formats",
    "load_policy": "formats",
    "save_policy": "formats",
    "make": "builtin_domains",
    "domains": "catalogue",
    "algorithms": "catalogue",
    "Plan": "planning.plan",
    "plan": "planning.plan",
    "Adviser": "advice",
    "adviser": "advice",
    "optimistic_plan": "optimism",
    "pessimistic_plan": "optimism",
    "pessimistic_value": "optimism",
    "Learner": "learning.learner",
    "Run": "learning.run",
    "learn": "learning.learn",
    "learn_env": "learning.environment",
    "load_run": "learning.run",
    "Fit": "fitting",
    "fit": "fitting",
    "off_policy": "fitting.off_policy",
    "max_variance": "theory.variance",
    "upper_bound": "theory.bounds",
    "lower_bound": "theory.bounds",
    "predecessor_bound": "theory.bounds",
    "play_lower_bound": "theory.lower_bound",
    "symmetrize": "theory.symmetrization",
    "audit": "theory.audit",
    "Study": "experiments.study",
    "sweep": "experiments.study",
    "load_runs": "experiments.study",
    "write_report": "report",
    "from_gymnasium": "environments",
    "HindsightEnv": "environments",
    "LatentMDPEnv": "environments",
    "LatentMDPVectorEnv": "environments",
}

_MODULES = ("datasets", "plot")  # of functions: latentmdp.plot.regret and the like

__all__ = ["__version__", *_MODULES, *_HOME]

TYPE_CHECKING = False  # type checkers know the name; loading `typing` is half of our import
if TYPE_CHECKING:
    from typing import Any

    from latentmdp import datasets, plot
    from latentmdp.advice import Adviser, adviser
    from latentmdp.belief import initial_belief, reach_weights, update_belief
    from latentmdp.builtin_domains import make
    from latentmdp.catalogue import algorithms, domains
    from latentmdp.cursor import Cursor
    from latentmdp.environments import (
        HindsightEnv,
        LatentMDPEnv,
        LatentMDPVectorEnv,
        from_gymnasium,
    )
    from latentmdp.errors import ModelError
    from latentmdp.evaluation import Evaluation, context_optimal, evaluate, return_distribution
    from latentmdp.experiments.study import Study, load_runs, sweep
    from latentmdp.fitting import Fit, fit
    from latentmdp.fitting.off_policy import off_policy
    from latentmdp.formats import load, load_policy, save, save_policy
    from latentmdp.labels import Layout
    from latentmdp.learning.environment import learn_env
    from latentmdp.learning.learn import learn
    from latentmdp.learning.learner import Learner
    from latentmdp.learning.run import Run, load_run
    from latentmdp.model import LatentMDP
    from latentmdp.optimism import optimistic_plan, pessimistic_plan, pessimistic_value
    from latentmdp.planning.plan import Plan, plan
    from latentmdp.policy import PolicyGraph
    from latentmdp.policy_transfer import transfer
    from latentmdp.report import write_report
    from latentmdp.theory.audit import audit
    from latentmdp.theory.bounds import lower_bound, predecessor_bound, upper_bound
    from latentmdp.theory.lower_bound import play_lower_bound
    from latentmdp.theory.symmetrization import symmetrize
    from latentmdp.theory.variance import max_variance
    from latentmdp.timed import TimedLatentMDP
    from latentmdp.trajectories import rollout


def __getattr__(name: str) -> "Any":
    if name in _MODULES:
        return import_module(f"latentmdp.{name}")
    if name in _HOME:
        value = getattr(import_module(f"latentmdp.{_HOME[name]}"), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module 'latentmdp' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
