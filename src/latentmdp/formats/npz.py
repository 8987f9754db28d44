"""Models in npz: the contract's dense arrays while they are small, our sparse rows beyond."""

from latentmdp.formats.archive import npz_writer, read_npz
from latentmdp.formats.document import Options, document_model, model_document
from latentmdp.formats.files import PathLike, Writer, write_atomically
from latentmdp.model import LatentMDP

LARGEST_DENSE = 1 << 22  # entries of P; beyond, the sparse form


def load_npz(path: PathLike, options: Options) -> LatentMDP:
    """The model in an npz file, dense or sparse."""
    return document_model(read_npz(path), options)


def save_npz(model: LatentMDP, path: PathLike) -> None:
    """Write a model, all or nothing."""
    write_atomically(path, model_writer(model))


def model_writer(model: LatentMDP) -> Writer:
    """Dense and compressed while `P` is small; else sparse and plain, which is quick to read."""
    dense = model.M * model.S * model.A * model.S <= LARGEST_DENSE
    return npz_writer(model_document(model, dense=dense), level=6 if dense else 0)
