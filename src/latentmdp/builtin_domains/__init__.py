"""Families of latent MDPs by spec string: one file per domain, one registry.

`make("maze:size=5,goals=4")` builds a model; `DOMAINS` lists the families with their keys. Every
model has total rewards of at most 1, names, and the same bits for the same spec.
"""

from latentmdp.builtin_domains import (
    bandit,
    deterministic,
    garnet,
    lower_bound,
    mastermind,
    maze,
    riverswim,
    troubleshooting,
)
from latentmdp.builtin_domains.lower_bound import HardInstance, hard_instance
from latentmdp.builtin_domains.spec import Domain, Key, parse_spec, spec_string
from latentmdp.model.latent_mdp import LatentMDP

__all__ = ["DOMAINS", "Domain", "HardInstance", "Key", "complete_spec", "hard_instance", "make"]

DOMAINS: dict[str, Domain] = {
    module.DOMAIN.name: module.DOMAIN
    for module in (
        maze,
        lower_bound,
        garnet,
        riverswim,
        troubleshooting,
        mastermind,
        bandit,
        deterministic,
    )
}
"""The registry: name -> `Domain` (callable with its keys as keyword arguments)."""


def make(spec: str, observe_rewards: bool = True) -> LatentMDP:
    """The model that a spec string `name:key=value,...` describes; unset keys take defaults.

    >>> make("maze:size=3,goals=2,horizon=6").S
    10
    """
    domain, pairs = parse_spec(spec, DOMAINS)
    return domain(observe_rewards=observe_rewards, **pairs)


def complete_spec(spec: str) -> str:
    """The same spec with every default written out, so that a record of it stays true.

    >>> complete_spec("bandit:arms=3")
    'bandit:arms=3,contexts=3,horizon=20,seed=0'
    """
    domain, pairs = parse_spec(spec, DOMAINS)
    return spec_string(domain, domain.complete(pairs))
