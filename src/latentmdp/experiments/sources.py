"""Where models and code of a study come from: spec strings, files, Python files."""

import hashlib
import importlib
import importlib.util
import os
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

from latentmdp.builtin_domains import DOMAINS, complete_spec, make
from latentmdp.errors import ModelError
from latentmdp.experiments.study_run import Plain
from latentmdp.formats import ENDINGS, load
from latentmdp.model.latent_mdp import LatentMDP, replaced
from latentmdp.runtime.files import opened, refusal, shown


class ModelSources:
    """Identities of models: a spec string with all defaults written out, or a file's content."""

    def __init__(self, base: Path) -> None:
        self._base = base
        self._known: dict[str, tuple[Plain, Plain]] = {}

    def identity(self, text: str, options: Plain) -> tuple[Plain, Plain]:
        """What is hashed of a model, and where a worker finds it.

        The latter also has the units of a normalised model, which are not hashed. Domains that are
        not normalised need not be built.
        """
        if is_spec_string(text) and not options.get("normalize"):
            return {"spec": complete_spec(text), **options}, {}
        name = f"{text} {sorted(options.items())}"
        if name not in self._known:
            self._known[name] = self._opened(text, options)
        return self._known[name]

    def _opened(self, text: str, options: Plain) -> tuple[Plain, Plain]:
        """The identity of a model that must be opened for it."""
        where: Plain = {}
        if is_spec_string(text):
            identity: Plain = {"spec": complete_spec(text), **options}
            model = open_model(identity)
        else:
            path = self._base / text
            if not path.exists() and path.suffix.lower() not in ENDINGS:
                complete_spec(text)  # raises an error that lists the domains
            model = open_model({"file": str(path), **options})
            identity = {"digest": model.digest, **options}
            where["file"] = str(path.resolve())
        if model.units:
            where["conversion"] = list(model.conversion)
        return identity, where


def is_spec_string(text: str) -> bool:
    """Whether the text names a domain and not a file."""
    return text.partition(":")[0].strip() in DOMAINS and Path(text).suffix not in ENDINGS


def open_model(source: Plain) -> LatentMDP:
    """The model of an identity that has a `spec`, or a `file` in place of its digest."""
    observe, horizon = source.get("observe_rewards"), source.get("horizon")
    discount = source.get("discount")
    if "file" in source:
        model = load(source["file"], observe_rewards=observe, horizon=horizon, discount=discount)
    else:
        model = make(source["spec"], observe_rewards=observe is None or observe)
        changes = {"horizon": horizon, "discount": discount}
        changes = {name: value for name, value in changes.items() if value is not None}
        model = replaced(model, **changes) if changes else model
    model = model.normalized() if source.get("normalize") else model
    return model.time_augmented() if source.get("unroll") and model.changes_with_step else model


# ---------------------------------------------------------------------- code


def code_digest(base: Path, text: str) -> tuple[str, str]:
    """The hash of a Python file beside the study, and its path."""
    path = base / text
    with opened(path) as file:
        return hashlib.sha256(file.read()).hexdigest()[:16], os.fspath(path.resolve())


def split_function(text: str) -> tuple[str, str]:
    """`module:function` or `file.py:function` in two."""
    place, colon, name = text.rpartition(":")
    if not colon or not place or not name.isidentifier():
        raise ModelError(f"function must be like module:name or file.py:name; it is {text!r}")
    return place, name


@cache
def import_file(path: str, digest: str) -> ModuleType:
    """The module of a Python file, imported once; its content must be what was hashed.

    A file may add algorithms but not replace existing ones, which other runs use.
    """
    from latentmdp.optimism.confidence import RULES  # loads the kernels

    with opened(path) as file:
        raw = file.read()
    if hashlib.sha256(raw).hexdigest()[:16] != digest:
        raise refusal(
            path, "must not change while its study runs; it has changed: start the study again"
        )
    before = dict(RULES)
    module_spec = importlib.util.spec_from_file_location(f"latentmdp_study_{digest}", path)
    assert module_spec is not None
    assert module_spec.loader is not None
    module = importlib.util.module_from_spec(module_spec)
    module_spec.loader.exec_module(module)
    for name, rule in before.items():
        if RULES[name] is not rule:
            RULES[name] = rule
            raise refusal(path, f"must register new names; it replaces the algorithm {name!r}")
    return module


def find_function(content: Plain, where: Plain) -> Any:
    """The function of a task."""
    if "python" in content:
        module, name = import_file(where["python"], content["python"]), where["function"]
        place = where["python"]
    else:
        place, name = split_function(content["function"])
        try:
            module = importlib.import_module(place)
        except ImportError as error:
            raise ModelError(f"function's module must be importable: {error}") from None
    try:
        return getattr(module, name)
    except AttributeError:
        raise ModelError(f"{shown(place)} has no function {name!r}") from None
