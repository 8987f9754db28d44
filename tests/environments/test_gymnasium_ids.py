"""The ids are known to Gymnasium after our environments are imported, by us or by Gymnasium."""

import subprocess
import sys

import pytest

WAYS = {
    "our environments first": (
        "import latentmdp.environments, gymnasium",
        "gymnasium.make('latentmdp/Maze-v0')",
    ),
    "our environments last": (
        "import gymnasium, latentmdp.environments",
        "gymnasium.make('latentmdp/Maze-v0')",
    ),
    "a public name of ours": (
        "import gymnasium, latentmdp; latentmdp.LatentMDPEnv",
        "gymnasium.make('latentmdp/Maze-v0')",
    ),
    "imported by Gymnasium": (
        "import gymnasium",
        "gymnasium.make('latentmdp.environments:latentmdp/Maze-v0')",
    ),
    "a batch, imported by Gymnasium": (
        "import gymnasium",
        "gymnasium.make_vec('latentmdp.environments:latentmdp/Maze-v0', num_envs=2,"
        " vectorization_mode='vector_entry_point')",
    ),
}


@pytest.mark.parametrize("way", WAYS)
def test_ids_are_known_after_our_environments_are_imported(way):
    imports, make = WAYS[way]
    code = f"{imports}; env = {make}; env.reset(seed=0)"
    done = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True)
    assert done.returncode == 0, done.stderr.decode()


def test_importing_the_package_leaves_gymnasium_alone():
    code = "import sys, latentmdp, gymnasium; assert 'latentmdp.environments' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
