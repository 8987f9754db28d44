"""The registered ids: `gymnasium.make("latentmdp.environments:latentmdp/Maze-v0", size=7)`."""

from typing import Any

import gymnasium

from latentmdp.builtin_domains import DOMAINS
from latentmdp.environments.single import LatentMDPEnv
from latentmdp.environments.vector import LatentMDPVectorEnv

IDS = {
    "latentmdp/Maze-v0": "maze",
    "latentmdp/Hard-v0": "hard",
    "latentmdp/Garnet-v0": "garnet",
    "latentmdp/RiverSwim-v0": "riverswim",
    "latentmdp/Troubleshoot-v0": "troubleshoot",
    "latentmdp/Mastermind-v0": "mastermind",
    "latentmdp/Bandit-v0": "bandit",
    "latentmdp/Deterministic-v0": "deterministic",
}
"""Gymnasium id -> domain."""


def register() -> None:
    """Tell Gymnasium the ids; a second call changes nothing."""
    for name, domain in IDS.items():
        if name not in gymnasium.registry:
            gymnasium.register(
                name,
                entry_point="latentmdp.environments:make_env",
                vector_entry_point="latentmdp.environments:make_vector_env",
                kwargs={"domain": domain},
            )


def make_env(
    domain: str, render_mode: str | None = None, observe_rewards: bool = True, **keys: Any
) -> LatentMDPEnv:
    """An environment of a domain; `keys` are the domain's keys."""
    return LatentMDPEnv(DOMAINS[domain](observe_rewards=observe_rewards, **keys), render_mode)


def make_vector_env(
    domain: str, num_envs: int = 1, observe_rewards: bool = True, **keys: Any
) -> LatentMDPVectorEnv:
    """A batch of one domain; `keys` are the domain's keys, and `autoreset_mode`."""
    options = {k: keys.pop(k) for k in ("autoreset_mode",) if k in keys}
    model = DOMAINS[domain](observe_rewards=observe_rewards, **keys)
    return LatentMDPVectorEnv(model, num_envs, **options)
