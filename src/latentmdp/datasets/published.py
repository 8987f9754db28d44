"""Benchmark problems: source, published values, our own values, and how to load each of them.

Six models of our own are part of this package: `load("maze_n5_M4")`. The other problems are not,
because of their licences: `load(name, path)` reads your copy of the file and checks its SHA-256.
`catalogue()` and `latentmdp datasets` list all of them; `python benchmarks/published.py FOLDER`
solves those that are available.
"""

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from latentmdp.errors import ModelError
from latentmdp.runtime.files import PathLike, as_path, opened, refusal

if TYPE_CHECKING:
    import pandas as pd

    from latentmdp.model.latent_mdp import LatentMDP

PIECE = 1 << 20  # bytes read at a time
OWN_MODELS = Path(__file__).parent / "models"


@dataclass(frozen=True)
class Published:
    """A published value, its meaning, and its source."""

    value: float
    what: str
    provenance: str


@dataclass(frozen=True)
class Dataset:
    """One benchmark problem.

    `files` are its file and those that must be in the same folder, each with its SHA-256. `options`
    are those of `lm.load`, `plan` those of `lm.plan`; `bracket` has the bounds on the optimum of
    the policy class that `command` gave.
    """

    name: str
    title: str
    source: str
    licence: str
    obtain: str
    files: dict[str, str]
    options: dict[str, Any]
    plan: dict[str, Any]
    published: tuple[Published, ...]
    bracket: tuple[float, float]
    command: str

    @property
    def file(self) -> str:
        """The file that is loaded."""
        return next(iter(self.files))

    @property
    def included(self) -> bool:
        """Whether its files come with this package."""
        return (OWN_MODELS / self.file).is_file()


_CADP = (
    "Su and Petrik, code of 'Solving multi-model MDPs by coordinate ascent and dynamic "
    "programming', UAI 2023"
)
_BESIDE = {
    "initial.csv": "6cd812980ee07c43d6cc5d64460f19aeb60b1d030ee5f2aeaa88f35144478451",
    "parameters.csv": "55a7e784301fc6352e882d42f9acff4f0b74e153c4cc7ace0ae9c66dbc82a2c8",
}
_OWN = "made for this project's comparison with SARSOP (docs/planning_history.md)"


def _own(name: str, digest: str, value: float, what: str, bracket: tuple[float, float]) -> Dataset:
    """One of the six models that SARSOP was run on."""
    sarsop = f"SARSOP's C++ implementation on one core, {what}"
    return Dataset(
        name, f"{name}: hidden rewards, the horizon of the file", _OWN, "as this package",
        f"included: lm.datasets.load({name!r})", {f"{name}.npz": digest},
        {"observe_rewards": False}, {"policy_class": "history", "gap": 0.001},
        (Published(value, sarsop, "run by the authors of this package"),), bracket,
        f"latentmdp plan {name}.npz --hidden-rewards --gap 0.001",
    )  # fmt: skip


_ALL = (
    Dataset(
        "riverswim-train",
        "riverswim, 100 training models: 20 states, 2 actions, discount 0.9, horizon 50",
        _CADP,
        "MIT",
        "the folder riverswim of the paper's code: training.csv, initial.csv, parameters.csv",
        {
            "training.csv": "aa92e4a1ed7cbfae0a4fb5fd0e11a96b240621ede7bfbef420070fadeefb2876",
            **_BESIDE,
        },
        {"observe_rewards": False, "horizon": 50},
        {"policy_class": "markov"},
        (
            Published(201.4191, "coordinate ascent (CADP)", "recomputed from the paper's method"),
            Published(200.1847, "weight-select-update", "recomputed from the paper's method"),
        ),
        (201.41909862, 203.16975728),
        "latentmdp plan training.csv --horizon 50 --hidden-rewards --class markov",
    ),
    Dataset(
        "riverswim-test",
        "riverswim, 700 test models: what the policy for the training models earns here",
        _CADP,
        "MIT",
        "the folder riverswim of the paper's code: test.csv, initial.csv, parameters.csv",
        {
            "test.csv": "d77de57edbd6a61d023364f5dc3737f2de8ae32b5c241bbdf18f7d39ebefcfc1",
            **_BESIDE,
        },
        {"observe_rewards": False, "horizon": 50},
        {"policy_class": "markov"},
        (
            Published(204.7445, "CADP's training policy", "recomputed from the paper's method"),
            Published(203.6191, "weight-select-update's", "recomputed from the paper's method"),
            Published(210.6003, "knowing the model", "recomputed from the paper's method"),
        ),
        (204.74447983, 204.74447983),
        "latentmdp plan training.csv --horizon 50 --hidden-rewards --class markov --out p.csv; "
        "latentmdp evaluate test.csv p.csv --horizon 50 --hidden-rewards",
    ),
    Dataset(
        "2states2actions",
        "adaptive management: 2 seen states, 2 actions, 4 hidden models, discount 0.9",
        "conservation-decisions, Universal-Adaptive-Management-Solver",
        "none stated",
        "res/POMDPX/2states2actions.pomdpx in "
        "https://github.com/conservation-decisions/Universal-Adaptive-Management-Solver",
        {
            "2states2actions.pomdpx": (
                "5f8b43ab6eb23aa946c8d8f01c2c5754afe3dd3417b34a566497da9734a4ec21"
            )
        },
        {"horizon": 200},
        {"policy_class": "history", "gap": 1e-4},
        (
            Published(
                41.8128,
                "SARSOP's stored policy, infinite horizon",
                "its own alpha vectors at the prior, data/POLICYX/2states2actions.policyx",
            ),
        ),
        (41.82661096, 41.83056558),
        "latentmdp plan 2states2actions.pomdpx --horizon 200 --gap 1e-4",
    ),
    _own(
        "maze_n5_M4", "c9737ea55f593083f8629012fb103f01ea0dcb25a6771e7caf4c5e06350cb4c0",
        0.92738, "infinite horizon, closed", (0.92737332, 0.92738034),
    ),
    _own(
        "maze_n7_M8", "c23bb94ad098e57fa48d0cd0aa2ff75d9716044bed2d69221b86a177c5fe4f6f",
        0.91068, "H = 80, lower bound after 60 s (upper 0.91080)", (0.90992801, 0.91083451),
    ),
    _own(
        "maze_n10_M16", "aa6a39be99f73fc0d4e3b037a7d5cb38c7c46706864c3a1cbd2a66a98506bf4c",
        0.641, "H = 160, lower bound after 60 s (upper 0.886)", (0.85072253, 0.85156577),
    ),
    _own(
        "garnet_ind", "cf10fe06ab993cb5d61e1222512a72b5028860599d97ee7d1f38579034aaed42",
        0.82896, "H = 20, closed", (0.82856275, 0.82912578),
    ),
    _own(
        "garnet_sup", "ee1e7604e55baa27a8385a2f94ab2fafd35bc6d0cdccbb23bb990e2a03b003af",
        0.84514, "H = 20, lower bound after 60 s (upper 0.84572)", (0.84507213, 0.84588723),
    ),
    _own(
        "garnet_supR", "a84a1c30c0a9e7e36efe6d5534cfb1076a4aebba9bfbf9bd7032e908aaa7c8fe",
        0.7664, "H = 20, lower bound after 60 s (upper 0.8040)", (0.79146598, 0.79224680),
    ),
)  # fmt: skip

DATASETS: dict[str, Dataset] = {dataset.name: dataset for dataset in _ALL}
"""All of them, by name."""


def catalogue() -> "pd.DataFrame":
    """One row per problem: name, title, source, licence, published values, our bracket, and how to
    get it.

    >>> catalogue().set_index("name").loc["riverswim-train", "licence"]
    'MIT'
    """
    import pandas as pd  # loads slowly

    return pd.DataFrame([facts(dataset) for dataset in _ALL])


def facts(dataset: Dataset) -> dict[str, Any]:
    """A problem as plain data."""
    best = dataset.published[0]
    return {
        "name": dataset.name,
        "title": dataset.title,
        "source": dataset.source,
        "licence": dataset.licence,
        "published": best.value,
        "published_what": best.what,
        "provenance": best.provenance,
        "lower": dataset.bracket[0],
        "upper": dataset.bracket[1],
        "command": dataset.command,
        "obtain": dataset.obtain,
        "file": dataset.file,
        "included": dataset.included,
        "sha256": dataset.files[dataset.file],
    }


def dataset(name: str) -> Dataset:
    """The problem of this name; ModelError lists the known names."""
    if name not in DATASETS:
        raise ModelError(f"unknown dataset {name!r}; known: {', '.join(DATASETS)}")
    return DATASETS[name]


def load(name: str, path: PathLike | None = None, **options: Any) -> "LatentMDP":
    """The model of a problem, from its file or the folder that contains it.

    Our own six need no `path`. Refuses files that are not the published ones, byte for byte.
    `options` as in `lm.load`; those of the problem, for example its horizon, are the defaults.

    >>> load("maze_n5_M4").observe_rewards
    False
    """
    from latentmdp.formats import load as load_file

    found = dataset(name)
    if path is None and not found.included:
        raise ModelError(
            f"the files of {name} are not part of this package: give their path, "
            f"lm.datasets.load({name!r}, PATH); to get them: {found.obtain}"
        )
    file = locate(found, OWN_MODELS if path is None else path)
    for part, digest in found.files.items():
        place = file if part == found.file else file.parent / part
        _check_digest(place, digest, name)
    return load_file(file, **{**found.options, **options})


def locate(found: Dataset, path: PathLike) -> Path:
    """The file itself, or the one in a folder or one level below."""
    place = as_path(path)
    if not place.is_dir():
        return place
    for folder in (place, *sorted(child for child in place.iterdir() if child.is_dir())):
        if (folder / found.file).is_file():
            return folder / found.file
    raise refusal(path, f"must hold {found.file}; to get it: {found.obtain}")


def _check_digest(path: Path, digest: str, name: str) -> None:
    seen = hashlib.sha256()
    with opened(path) as file:
        while piece := file.read(PIECE):
            seen.update(piece)
    if seen.hexdigest() != digest:
        raise refusal(
            path,
            f"must be the published file of {name}, with the SHA-256 {digest[:16]}...; it has "
            f"{seen.hexdigest()[:16]}... (lm.load reads other files)",
        )
