"""Registers our environments once `latentmdp` and `gymnasium` are both imported, in either order.

Importing `latentmdp` must stay fast, so it cannot import Gymnasium; and Gymnasium no longer looks
for plugins. So: register at once if Gymnasium is there, else right after its import.
"""

import importlib.util
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType


def register_with_gymnasium() -> None:
    """Register now or when Gymnasium gets imported; a second call changes nothing."""
    if "gymnasium" in sys.modules:
        _register()
    elif not any(isinstance(finder, _AfterImport) for finder in sys.meta_path):
        sys.meta_path.insert(0, _AfterImport())


class _AfterImport:
    """Lets the other finders find Gymnasium, and registers after its module has run."""

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name != "gymnasium":
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.loader is not None:
            run = spec.loader.exec_module

            def exec_module(module: ModuleType) -> None:
                run(module)
                _register()

            spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec


def _register() -> None:
    if "latentmdp.environments" not in sys.modules:  # being imported, it registers by itself
        from latentmdp.environments import register

        register()
