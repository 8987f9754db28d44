"""Arrows between parts point one way, and the public list is exact."""

import ast
from pathlib import Path

import latentmdp

SOURCE = Path(latentmdp.__file__).parent
LAYERS = (  # from below; each folder imports only itself and folders before it
    *("_version", "errors", "csr", "runtime", "kernels", "model", "tables", "policy"),
    *("builtin_domains", "evaluation", "formats", "datasets", "drawing", "environments"),
    *("planning", "advice", "optimism", "learning", "fitting", "theory", "experiments", "plot"),
    *("report", "commands", "__main__"),
)
CONVENIENCES = {  # methods that open a folder above their own, when they are called
    ("model", "tables"): "model.describe(), to_frame(), from_frame() and notebooks",
    ("policy", "evaluation"): "beliefs without a last step; default nodes of a cursor",
    ("policy", "formats"): "policy.save() and load()",
    ("planning", "advice"): "plan.adviser()",
    ("tables", "builtin_domains"): "lm.domains()",
    ("tables", "optimism"): "lm.algorithms() lists registered rules",
}


def imports(file):
    """`(part, whether only when a function is called)` for each part of ours that a file imports.

    Imports for type checkers alone do not count: nothing is imported when the program runs.
    """
    tree = ast.parse(file.read_text(encoding="utf-8"))
    called, skipped = set(), set()
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            called |= set(ast.walk(node))
        elif isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            skipped |= set(ast.walk(node))
    for node in ast.walk(tree):
        names = []
        if node in skipped:
            continue
        if isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            names = [node.module]
            if node.module == "latentmdp":
                names = [f"latentmdp.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        for name in names:
            if name.startswith("latentmdp."):
                yield name.split(".")[1], node in called


def part(file):
    relative = file.relative_to(SOURCE)
    return relative.parts[0].removesuffix(".py")


def test_imports_point_one_way():
    for file in sorted(SOURCE.rglob("*.py")):
        here = part(file)
        if here == "__init__":
            continue
        assert here in LAYERS, f"{here} has no place in LAYERS"
        for there, called in imports(file):
            below = LAYERS.index(there) <= LAYERS.index(here)
            ok = below or (called and (here, there) in CONVENIENCES)
            assert ok, f"{file.relative_to(SOURCE)} imports {there}, which lies above it"


def test_only_kernels_and_their_cache_import_numba():
    for file in sorted(SOURCE.rglob("*.py")):
        if part(file) not in ("kernels", "runtime"):  # the cache of kernels is in runtime
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
