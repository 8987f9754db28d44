"""The ids are there once both packages are imported, in either order and by any door."""

import subprocess
import sys

import pytest

ORDERS = {
    "ours first": "import latentmdp, gymnasium",
    "theirs first": "import gymnasium, latentmdp",
    "through our environments": "import latentmdp.environments, gymnasium",
    "through a public name": "import latentmdp; latentmdp.LatentMDPEnv; import gymnasium",
    "their submodule": "import latentmdp, gymnasium.spaces; import gymnasium",
}


@pytest.mark.parametrize("order", ORDERS)
def test_ids_are_registered_in_either_order(order):
    code = f"{ORDERS[order]}; env = gymnasium.make('latentmdp/Maze-v0'); env.reset(seed=0)"
    done = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True)
    assert done.returncode == 0, done.stderr.decode()
