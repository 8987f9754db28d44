"""The wheel: builds, installs into an empty environment, works there."""

import subprocess
import sys
import venv
import zipfile

import pytest
from places import ROOT


def run(*command, **options):
    done = subprocess.run(command, capture_output=True, text=True, **options)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "build", "--wheel", "--no-isolation"]
    run(*build, "--outdir", str(folder), str(ROOT))
    (path,) = folder.glob("*.whl")
    return path


@pytest.mark.slow
def test_wheel_has_the_package_and_nothing_else(wheel):
    names = zipfile.ZipFile(wheel).namelist()
    assert "latentmdp/py.typed" in names
    assert "latentmdp/kernels/policies.py" in names
    assert all(name.startswith(("latentmdp/", "latentmdp-")) for name in names)


@pytest.mark.slow
def test_wheel_installs_into_an_empty_environment_and_works(wheel, tmp_path):
    venv.create(tmp_path / "env", with_pip=True)
    python = str(tmp_path / "env" / "bin" / "python")
    constraints = str(ROOT / "constraints.txt")
    run(python, "-m", "pip", "install", "-q", "-c", constraints, str(wheel))
    code = (
        "import latentmdp as lm, numpy as np\n"
        "model = lm.make('maze:size=3,goals=2,horizon=6,seed=0')\n"
        "policy = lm.PolicyGraph.from_table(np.zeros((6, model.S), dtype=int))\n"
        "print(lm.__file__, lm.evaluate(model, policy).value)\n"
    )
    out = run(python, "-c", code, cwd=tmp_path)
    assert str(tmp_path / "env") in out
    command = str(tmp_path / "env" / "bin" / "latentmdp")
    assert "maze" in run(command, "domains", cwd=tmp_path)
    made = "gym.make('latentmdp.environments:latentmdp/Maze-v0').reset(seed=0)"
    run(python, "-c", f"import gymnasium as gym; {made}")


def test_no_hosts_or_machine_paths_in_the_constraints():
    text = (ROOT / "constraints.txt").read_text(encoding="utf-8")
    assert "://" not in text
    assert "/" not in text
