"""Models in npz: the contract's dense arrays while they are small, our sparse rows beyond."""

from latentmdp.formats.archive import npz_writer, read_npz
from latentmdp.formats.document import Options, dense_entries, document_model, model_document
from latentmdp.model.latent_mdp import LatentMDP
from latentmdp.runtime.files import PathLike, Writer, write_atomically

LARGEST_DENSE = 1 << 22  # entries of P; beyond, the sparse form


def load_npz(path: PathLike, options: Options) -> LatentMDP:
    """The model in an npz file, dense or sparse."""
    return document_model(read_npz(path), options)


def save_npz(model: LatentMDP, path: PathLike) -> None:
    """Write a model, all or nothing."""
    write_atomically(path, model_writer(model))


def model_writer(model: LatentMDP) -> Writer:
    """Dense and compressed while `P` is small; else sparse and plain, which is quick to read."""
    document = model_document(model, dense=dense_entries(model) <= LARGEST_DENSE)
    return npz_writer(document, level=6 if "P" in document else 0)
