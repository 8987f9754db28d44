"""Latent MDPs as Gymnasium environments, one at a time or in batches.

Importing this module registers `latentmdp/Maze-v0` and the other ids.
"""

from latentmdp.environments.hindsight import HindsightEnv
from latentmdp.environments.registration import IDS, make_env, make_vector_env, register
from latentmdp.environments.single import LatentMDPEnv
from latentmdp.environments.tables import from_gymnasium
from latentmdp.environments.vector import LatentMDPVectorEnv

__all__ = [
    "IDS",
    "HindsightEnv",
    "LatentMDPEnv",
    "LatentMDPVectorEnv",
    "from_gymnasium",
    "make_env",
    "make_vector_env",
    "register",
]

register()
