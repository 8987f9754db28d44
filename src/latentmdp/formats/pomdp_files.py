"""Latent MDPs from files of POMDPs: `.pomdp` (Cassandra) and `.pomdpx` (SARSOP)."""

from latentmdp.formats.document import Options
from latentmdp.formats.files import PathLike, as_path
from latentmdp.formats.hidden_static import finite_horizon, latent_mdp
from latentmdp.formats.pomdp_text import read_pomdp_text
from latentmdp.formats.pomdpx import read_pomdpx
from latentmdp.formats.rules import Allowance
from latentmdp.model import LatentMDP


def load_pomdp(path: PathLike, options: Options) -> LatentMDP:
    """The latent MDP in a `.pomdp` file; the horizon must be given, rewards are hidden."""
    finite_horizon(options)
    pomdp = read_pomdp_text(path, options.discount)
    return latent_mdp(pomdp, options, Allowance(as_path(path).stat().st_size))


def load_pomdpx(path: PathLike, options: Options) -> LatentMDP:
    """The latent MDP in a `.pomdpx` file; the horizon must be given, rewards are hidden."""
    finite_horizon(options)
    pomdp = read_pomdpx(path, options.discount)
    return latent_mdp(pomdp, options, Allowance(as_path(path).stat().st_size))
