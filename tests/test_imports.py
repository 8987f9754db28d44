"""Arrows between parts point one way, and the public list is exact."""

import ast
from pathlib import Path

import latentmdp

SOURCE = Path(latentmdp.__file__).parent
LAYERS = [
    {
        "availability",
        "errors",
        "printing",
        "repair",
        "_version",
        "_workers",
        "_interrupts",
        "_notice",
        "_sealed",
    }
    | {"canonical", "totals", "kernels", "model", "description", "counts", "policy_class"}
    | {"choices", "notebook", "horizons", "timed", "timed_rows", "reward_states", "either_kind"}
    | {"outcome_table", "frames", "to_frame", "units", "labels", "building", "model_rows"},
    {"cursor", "policy", "policy_expand", "policy_dot", "belief", "formats", "builtin_domains"}
    | {"numbering", "sampling", "policy_stationary", "policy_frame", "evaluation_stationary"}
    | {"alpha_vectors", "folding", "policy_fold", "policy_check", "policy_simplify"}
    | {"policy_transfer"},
    {"evaluation", "drawing", "environments", "trajectories", "datasets"},
    {"planning", "advice"},
    {"optimism"},
    {"learning", "fitting"},
    {"theory", "catalogue"},
    {"experiments"},
    {"report", "plot", "demo"},
    {"commands", "cli", "__main__"},
]


def imports(file):
    """Names of our parts that a file imports, wherever in it."""
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        names = []
        if isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            names = [node.module]
            if node.module == "latentmdp":
                names = [f"latentmdp.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        for name in names:
            if name.startswith("latentmdp."):
                yield name.split(".")[1]


def part(file):
    relative = file.relative_to(SOURCE)
    return relative.parts[0].removesuffix(".py")


def test_imports_point_one_way():
    level = {name: i for i, layer in enumerate(LAYERS) for name in layer}
    for file in sorted(SOURCE.rglob("*.py")):
        here = part(file)
        if here == "__init__":
            continue
        assert here in level, f"{here} has no place in LAYERS"
        for there in imports(file):
            ok = level.get(there, 99) <= level[here]
            assert ok, f"{file.relative_to(SOURCE)} imports {there}, which lies above it"


def test_only_kernels_import_numba():
    for file in sorted(SOURCE.rglob("*.py")):
        if part(file) != "kernels":
            text = file.read_text(encoding="utf-8")
            assert "import numba" not in text, file
            assert "from numba" not in text, file


def test_public_names_are_exact_and_all_there():
    for name in latentmdp.__all__:
        assert getattr(latentmdp, name) is not None
    source = (SOURCE / "__init__.py").read_text(encoding="utf-8")
    typed = [
        alias.name
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.ImportFrom) and node.module not in ("importlib", "typing")
        for alias in node.names
    ]
    assert sorted(typed) == sorted(latentmdp.__all__)
