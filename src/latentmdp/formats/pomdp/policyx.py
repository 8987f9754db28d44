"""SARSOP's `.policyx`: alpha vectors, read as the policy that plays the action of the best vector.

A vector has a number for every joint value of the hidden variables, an action, and `obsValue`, the
joint value of the fully observable variables to which it applies.
"""

from math import isfinite

import numpy as np

from latentmdp.csr import Floats, Ints
from latentmdp.errors import ModelError
from latentmdp.formats.pomdp.belief_policy import policy_from_beliefs
from latentmdp.formats.pomdp.hidden_static import NOWHERE
from latentmdp.formats.pomdp.rules import Allowance
from latentmdp.formats.pomdp.xml_stream import Attributes, XmlStream
from latentmdp.model.labels import Origin
from latentmdp.model.latent_mdp import LatentMDP
from latentmdp.policy.graph import PolicyGraph
from latentmdp.runtime.files import PathLike, as_path

CHILDREN = {
    "Policy": ("AlphaVector",),
    "AlphaVector": ("Vector", "SparseVector"),
    "SparseVector": ("Entry",),
}
BELIEFS_AT_A_TIME = 16  # more do not fit into the processor's cache with their values


def load_policyx(path: PathLike, model: LatentMDP | None) -> PolicyGraph:
    """The policy of a `.policyx` file in a model that was read from its `.pomdpx` or `.pomdp`.

    It knows beliefs to as many digits as `belief_policy.MOST_NODES` nodes allow.
    """
    if model is None:
        raise ModelError("alpha vectors are a policy for one model only; give the model as well")
    choose = AlphaVectors(path, model).choose
    if model.allowed is None:
        return policy_from_beliefs(model, choose)

    def available(state: Ints, belief: Floats) -> Ints:  # the file does not know which are
        action = choose(state, belief)
        return np.where(action < 0, action, model.substitute[state, action])

    return policy_from_beliefs(model, available)


class AlphaVectors:
    """The vectors of a file, by the states of a model."""

    def __init__(self, path: PathLike, model: LatentMDP) -> None:
        action, seen, vectors = read_vectors(path)
        origin = model.origin
        if origin is None:  # from another file: contexts and states in the same order
            every = np.arange(model.S) * model.M + np.arange(model.M)[:, None]
            origin = Origin(every, model.M)
        if vectors.shape[1] != origin.hidden:
            raise ModelError(
                f"the vectors must have {origin.hidden} numbers, one for each value of what is "
                f"hidden in the model; they have {vectors.shape[1]} (is it the policy of another "
                "model, or the model not as `load` gave it?)"
            )
        if action.max() >= model.A:
            raise ModelError(
                f"actions must be from 0 to {model.A - 1}, as in the model; found {action.max()}"
            )
        self._action, self._values = [], []
        for x in range(model.S):
            state = origin.state[:, x]
            shown = np.unique(state[state != NOWHERE] // origin.hidden)[:1]
            mine = np.flatnonzero(seen == shown[0]) if len(shown) else np.zeros(0, dtype=np.int64)
            hidden = np.where(state == NOWHERE, 0, state % origin.hidden)
            self._action.append(action[mine])
            self._values.append(vectors[np.ix_(mine, hidden)].T.copy())  # (M, vectors)

    def choose(self, state: Ints, belief: Floats) -> Ints:
        """The actions of the best vectors at beliefs `(n, M)` in states `(n,)`; -1 if none."""
        chosen = np.full(len(state), -1)
        for x in np.unique(state):
            if len(self._action[x]) == 0:
                continue
            (here,) = np.nonzero(state == x)
            for k in range(0, len(here), BELIEFS_AT_A_TIME):
                some = here[k : k + BELIEFS_AT_A_TIME]
                best = (belief[some] @ self._values[x]).argmax(axis=1)
                chosen[some] = self._action[x][best]
        return chosen


def read_vectors(path: PathLike) -> tuple[Ints, Ints, Floats]:
    """`(action (n,), obsValue (n,), vectors (n, length))` of a file."""
    allowance = Allowance(as_path(path).stat().st_size)
    stream = XmlStream("Policy", CHILDREN, ("Vector", "Entry"))
    vectors: list[Floats] = []
    labels: list[tuple[int, int]] = []
    length = 0

    def on_start(name: str, attributes: Attributes) -> None:
        nonlocal length
        if name == "AlphaVector":
            length = _whole(name, attributes, "vectorLength")
        elif name == "SparseVector":
            begin(name, attributes)

    def begin(name: str, attributes: Attributes) -> None:
        labels.append(
            (_whole(name, attributes, "action"), _whole(name, attributes, "obsValue", "0"))
        )
        allowance.check(len(labels) * length, f"{len(labels)} vectors of {length} numbers")
        vectors.append(np.zeros(length))

    def on_text(name: str, text: str, attributes: Attributes) -> None:
        words = text.split()
        try:
            values = list(map(float, words))
        except ValueError:
            values = [float("nan")]
        if not all(map(isfinite, values)):
            raise ModelError(f"<{name}> must have finite numbers; it is {text.strip()[:80]!r}")
        if name == "Vector":
            begin(name, attributes)
            if len(values) != length:
                raise ModelError(
                    f"<Vector> must have vectorLength={length} numbers; it has {len(values)}"
                )
            vectors[-1][:] = values
        elif len(values) != 2 or not words[0].isdecimal() or not values[0] < length:
            raise ModelError(
                f"<Entry> must be a place from 0 to {length - 1} and a number; it is "
                f"{text.strip()[:80]!r}"
            )
        else:
            vectors[-1][int(words[0])] = values[1]

    stream.on_start, stream.on_text = on_start, on_text
    stream.read(path)
    if not vectors:
        raise ModelError("the file must have a <Vector>; it has none")
    if len({len(vector) for vector in vectors}) > 1:
        raise ModelError("all vectors must have the same length; they have not")
    action, seen = np.array(labels, dtype=np.int64).T
    return action, seen, np.array(vectors)


def _whole(element: str, attributes: Attributes, name: str, default: str = "") -> int:
    text = attributes.get(name, default).strip()
    if not text.isdecimal() or len(text) > 18:
        raise ModelError(f"<{element}> must have a whole number as {name}; it is {text[:80]!r}")
    return int(text)
