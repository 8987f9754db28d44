"""Models in JSON: the same named values as in npz, as lists, for people and other programs."""

from typing import Any

import numpy as np

from latentmdp.formats.document import (
    MODEL_FORMAT,
    Options,
    dense_entries,
    document_model,
    model_document,
)
from latentmdp.model.horizons import is_infinite
from latentmdp.model.latent_mdp import LatentMDP
from latentmdp.runtime.files import PathLike
from latentmdp.runtime.strict_json import read_json, write_json

LARGEST_DENSE = 1 << 14  # entries of P; beyond, the sparse form


def load_json(path: PathLike, options: Options) -> LatentMDP:
    """The model in a JSON file, dense or sparse."""
    return document_model(read_json(path), options)


def save_json(model: LatentMDP, path: PathLike) -> None:
    """Numbers in full precision: the model reads back equal."""
    document = {"format": MODEL_FORMAT} | model_document(
        model, dense=dense_entries(model) <= LARGEST_DENSE
    )
    if is_infinite(model.horizon):
        document["H"] = "inf"  # JSON has no infinite numbers
    write_json(path, as_lists(document))


def as_lists(document: dict[str, Any]) -> dict[str, Any]:
    """The document with arrays as nested lists."""
    return {
        key: value.tolist() if isinstance(value, np.ndarray) else value
        for key, value in document.items()
    }
