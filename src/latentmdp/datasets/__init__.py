"""Benchmark problems: `load(name)` for our own six, `load(name, path)` for files of others."""

from latentmdp.datasets.published import (
    DATASETS,
    Dataset,
    Published,
    catalogue,
    dataset,
    facts,
    load,
    locate,
)

__all__ = ["DATASETS", "Dataset", "Published", "catalogue", "dataset", "facts", "load", "locate"]
