"""Latent MDPs as Gymnasium environments, one at a time or in batches.

Importing this module registers `latentmdp/Maze-v0` and the other ids.
"""

from latentmdp.environments.registration import IDS, make_env, make_vector_env, register
from latentmdp.environments.single import LatentMDPEnv
from latentmdp.environments.vector import LatentMDPVectorEnv

__all__ = ["IDS", "LatentMDPEnv", "LatentMDPVectorEnv", "make_env", "make_vector_env", "register"]

register()
