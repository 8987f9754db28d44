"""Plan and learn in latent MDPs with context in hindsight.

The public names are listed once, in `_HOME`; each is imported from its module at first use, so
that `import latentmdp` is fast.
"""

from importlib import import_module

from latentmdp._version import __version__

_HOME = {
    "ModelError": "errors",
    "LatentMDP": "model.latent_mdp",
    "Layout": "model.labels",
    "PolicyGraph": "policy.graph",
    "transfer": "policy.transfer",
    "Cursor": "policy.cursor",
    "initial_belief": "policy.belief",
    "update_belief": "policy.belief",
    "reach_weights": "policy.belief",
    "Evaluation": "evaluation.evaluate",
    "evaluate": "evaluation.evaluate",
    "return_distribution": "evaluation.evaluate",
    "context_optimal": "evaluation.evaluate",
    "rollout": "evaluation.rollout",
    "load": "formats",
    "save": "formats",
    "load_policy": "formats",
    "save_policy": "formats",
    "make": "builtin_domains",
    "domains": "tables.catalogue",
    "algorithms": "tables.catalogue",
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
    "off_policy": "fitting.off_policy.estimate",
    "max_variance": "theory.variance.maximum",
    "upper_bound": "theory.bounds",
    "lower_bound": "theory.bounds",
    "predecessor_bound": "theory.bounds",
    "play_lower_bound": "theory.lower_bound",
    "symmetrize": "theory.symmetrization",
    "audit": "theory.auditing.audit",
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
    from latentmdp.builtin_domains import make
    from latentmdp.environments import (
        HindsightEnv,
        LatentMDPEnv,
        LatentMDPVectorEnv,
        from_gymnasium,
    )
    from latentmdp.errors import ModelError
    from latentmdp.evaluation.evaluate import (
        Evaluation,
        context_optimal,
        evaluate,
        return_distribution,
    )
    from latentmdp.evaluation.rollout import rollout
    from latentmdp.experiments.study import Study, load_runs, sweep
    from latentmdp.fitting import Fit, fit
    from latentmdp.fitting.off_policy.estimate import off_policy
    from latentmdp.formats import load, load_policy, save, save_policy
    from latentmdp.learning.environment import learn_env
    from latentmdp.learning.learn import learn
    from latentmdp.learning.learner import Learner
    from latentmdp.learning.run import Run, load_run
    from latentmdp.model.labels import Layout
    from latentmdp.model.latent_mdp import LatentMDP
    from latentmdp.optimism import optimistic_plan, pessimistic_plan, pessimistic_value
    from latentmdp.planning.plan import Plan, plan
    from latentmdp.policy.belief import initial_belief, reach_weights, update_belief
    from latentmdp.policy.cursor import Cursor
    from latentmdp.policy.graph import PolicyGraph
    from latentmdp.policy.transfer import transfer
    from latentmdp.report import write_report
    from latentmdp.tables.catalogue import algorithms, domains
    from latentmdp.theory.auditing.audit import audit
    from latentmdp.theory.bounds import lower_bound, predecessor_bound, upper_bound
    from latentmdp.theory.lower_bound import play_lower_bound
    from latentmdp.theory.symmetrization import symmetrize
    from latentmdp.theory.variance.maximum import max_variance


_RENAMED = {"TimedLatentMDP": "LatentMDP"}  # old public names, with a warning


def __getattr__(name: str) -> "Any":
    if name in _RENAMED:
        errors = import_module("latentmdp.errors")
        errors.warn_renamed(f"latentmdp.{name}", f"latentmdp.{_RENAMED[name]}")
        return __getattr__(_RENAMED[name])
    if name in _MODULES:
        return import_module(f"latentmdp.{name}")
    if name in _HOME:
        value = getattr(import_module(f"latentmdp.{_HOME[name]}"), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module 'latentmdp' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
