"""A model as named values, dense or sparse, and back; npz and JSON are two ways to write them down.

Dense, the contract's interchange: `P (M,S,A,S)`, `R (M,S,A)` or `(M,S,A,S)`, `w`, `nu`, `H`,
`discount`, `observe_rewards`; `H` may be infinite. Sparse, for models that are too large to be
dense: in place of `P` and `R` the rows, `indptr (M*S*A+1,)`, `next (nnz,)`, `prob (nnz,)`, and
`reward`, `(nnz,)` where rewards sit on transitions, else `(M*S*A,)`. Both: `allowed (S,A)`, names,
layout, the limit on totals, units, where there are any. The rows of unavailable actions are zero,
or empty. Step-dependent models have `P (H,M,S,A,S)` (sparse: the rows of `(step, state)`, and
`steps`), `allowed (H,S,A)` and rewards `terminal (M,S)` after the last step. A model that is the
time-augmented one of such a model has `states_per_step`, and a layout of that many states. Readings
besides the next state are `reading (nnz,)` and their number `readings`, in sparse rows.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from latentmdp.errors import ModelError
from latentmdp.formats.schema import Fields
from latentmdp.model.labels import Layout, TimeAugmented
from latentmdp.model.latent_mdp import LatentMDP
from latentmdp.runtime.files import memory_budget

MODEL_FORMAT = "latentmdp model"
OUTCOME_BYTES = 64  # that a model takes for each outcome, while it is built
LARGEST_GRID = 10**6  # cells of a layout: every one is drawn
NAMES = ("state_names", "action_names", "context_names", "reading_names")
COMMON = (
    *("format", "w", "nu", "H", "discount", "observe_rewards", "max_return"),
    *("reward_scale", "reward_shift", "allowed", "terminal", "steps", *NAMES),
    *("states_per_step", "layout_shape", "layout_positions", "layout_walls", "layout_marks"),
)
DENSE = ("P", "R")
SPARSE = ("indptr", "next", "prob", "reward", "rewards_on_transitions", "reading", "readings")


@dataclass(frozen=True)
class Options:
    """Values that the caller gives; None: the value stored in the file."""

    observe_rewards: bool | None = None
    horizon: int | None = None
    discount: float | None = None
    normalize: bool | float = False  # as in `LatentMDP.from_arrays`
    start: Any = None  # the first state, by name or number


def dense_entries(model: LatentMDP) -> int:
    """How many entries `P` has."""
    return model.steps * model.M * model.S * model.A * model.S


def model_document(model: LatentMDP, *, dense: bool) -> dict[str, Any]:
    """The named values of a model; `document_model` builds an equal model from them.

    Never dense where a next state has several rewards or readings, for which `P` has no room.
    """
    document: dict[str, Any]
    if dense and model.readings == 1 and not model.repeats_next:
        document = {"P": model.P, "R": model.R}
    else:
        document = sparse_rows(model)
    for key in ("allowed", "terminal"):
        if getattr(model, key) is not None:
            document[key] = getattr(model, key)
    document |= {"w": model.w, "nu": model.nu, "H": model.H, "discount": model.discount}
    document["observe_rewards"] = model.observe_rewards
    if model.return_limit is not None:
        document["max_return"] = model.return_limit
    if (model.reward_scale, model.reward_shift) != (1.0, 0.0):
        document |= {"reward_scale": model.reward_scale, "reward_shift": model.reward_shift}
    for key in NAMES:
        if getattr(model, key) is not None:
            document[key] = _storable_names(key, getattr(model, key))
    layout = model.layout
    if model.augmented is not None:
        document["states_per_step"], layout = model.augmented.states, model.augmented.layout
    if layout is not None:
        document |= _layout_document(layout)
    return document


def sparse_rows(model: LatentMDP) -> dict[str, Any]:
    """The outcomes of a model, without the repeated ones of unavailable actions.

    Rows by context, step, state and action; where they depend on the step, states and next states
    are numbered `step * S + state`, and those after the last step stay there.
    """
    (M, S, A), T = model.sizes, model.steps
    on_transitions = model.rewards_on_transitions
    c = model.outcome_columns()
    row = ((c["context"] * T + c["step"]) * S + c["state"]) * A + c["action"]
    order = np.argsort(row, kind="stable")
    following = np.minimum(c["step"] + 1, T - 1) * S + c["next"]
    on_rows = np.where(model.listed_rows, model.row_reward, 0.0)
    by_row = on_rows.reshape(T, M, S * A).swapaxes(0, 1).reshape(-1)
    document = {
        "format": MODEL_FORMAT,
        "indptr": np.searchsorted(row[order], np.arange(T * M * S * A + 1)),
        "next": following[order],
        "prob": c["prob"][order],
        "reward": c["reward"][order] if on_transitions else by_row,
        "rewards_on_transitions": on_transitions,
    }
    if T > 1:
        document["steps"] = T
    if model.readings > 1:
        document |= {"reading": c["reading"][order], "readings": model.readings}
    return document


def document_model(values: Mapping[str, Any], options: Options) -> LatentMDP:
    """The model that a document describes, checked like any other input."""
    fields = Fields(values, (*COMMON, *DENSE, *SPARSE))
    if "root" in fields and "default" in fields:
        raise ModelError("holds a policy; a model was asked for")
    if "format" in fields and fields.text("format") != MODEL_FORMAT:
        raise ModelError(f"holds {fields.text('format')[:80]!r}; a model was asked for")
    horizon = fields.horizon("H") if options.horizon is None else options.horizon
    keywords: dict[str, Any] = {
        "observe_rewards": _chosen(options.observe_rewards, fields, "observe_rewards", True),
        "discount": _chosen(options.discount, fields, "discount", 1.0),
        "normalize": options.normalize,
    }
    if "allowed" in fields:
        keywords["allowed"] = fields.truths("allowed")
    keywords |= {key: fields.names(key) for key in NAMES if key in fields}
    keywords |= {k: fields.number(k) for k in ("reward_scale", "reward_shift") if k in fields}
    layout = _layout(fields) if "layout_shape" in fields else None
    if "states_per_step" not in fields:
        keywords["layout"] = layout
    elif horizon == fields.horizon("H"):
        keywords["augmented"] = TimeAugmented(fields.whole("states_per_step"), layout)
    limit = fields.number("max_return") if "max_return" in fields else None
    dense = "P" in fields or "indptr" not in fields
    if "terminal" in fields:
        keywords["terminal"] = fields.floats("terminal")
    if "steps" in fields and not dense:
        arguments, keywords["step"] = _arguments_by_step(fields)
    else:
        arguments = _dense_arguments(fields) if dense else _sparse_arguments(fields)
    build = LatentMDP.from_arrays if dense else LatentMDP.from_rows
    if not dense:  # the last ones may be available nowhere
        layers = fields.whole("steps") if "steps" in fields else 1
        keywords["n_actions"] = (fields.wholes("indptr").size - 1) // (layers * arguments[-1].size)
        if "reading" in fields:
            keywords["reading"] = fields.wholes("reading")
            keywords["n_readings"] = fields.whole("readings")
    if "step" in keywords or (dense and np.ndim(arguments[0]) == 5):
        return _by_step_within_limit(fields, build, arguments, horizon, keywords, limit)
    return build_within_limit(build, (*arguments, horizon), keywords, limit)


def _by_step_within_limit(
    fields: Fields, build: Any, arguments: Any, horizon: Any, keywords: Any, limit: Any
) -> LatentMDP:
    """A model with rows by step has all steps first; a smaller horizon takes the first ones."""
    model = build_within_limit(build, (*arguments, fields.whole("H")), keywords, limit)
    return model if horizon == model.H else model.replace(horizon=horizon)


def build_within_limit(
    build: Any, arguments: tuple[Any, ...], keywords: dict[str, Any], limit: float | None = None
) -> Any:
    """A model with any finite rewards; it keeps the limit it was saved with if it still holds.

    (Another horizon may be asked for than the one it was saved with.)
    """
    with np.errstate(all="ignore"):
        if limit is not None:
            try:
                return build(*arguments, max_return=limit, **keywords)
            except ModelError:
                pass  # too small a limit, or another fault, which is then named below
        return build(*arguments, max_return=None, **keywords)


def _chosen(option: Any, fields: Fields, key: str, default: Any) -> Any:
    if option is not None:
        return option
    if key not in fields:
        return default
    return fields.truth(key) if isinstance(default, bool) else fields.number(key)


def _dense_arguments(fields: Fields) -> tuple[Any, ...]:
    read = fields.numbers if "allowed" in fields else fields.floats  # rows may hold NaN then
    return read("P"), read("R"), fields.floats("w"), fields.floats("nu")


def _arguments_by_step(fields: Fields) -> tuple[tuple[Any, ...], np.ndarray]:
    """The arguments of a step-dependent model, in the original states, and the steps."""
    nu, steps = fields.floats("nu"), fields.whole("steps")
    S = nu.shape[1] if nu.ndim == 2 else 0
    if nu.ndim != 2 or 0 in nu.shape or not 1 <= steps <= fields.wholes("indptr").size // S:
        raise ModelError(f"nu must have the shape (M, S) and steps count layers; found {steps}")
    rows = _sparse_arguments(fields, np.tile(nu, steps))
    context, number, action, following, prob, reward, w, _ = rows
    return (context, number % S, action, following % S, prob, reward, w, nu), number // S


def _sparse_arguments(fields: Fields, states: np.ndarray | None = None) -> tuple[Any, ...]:
    """The arguments of `from_rows`; `states (M, S)` in place of `nu` says how many there are."""
    nu = fields.floats("nu") if states is None else states
    indptr, following = fields.wholes("indptr"), fields.wholes("next")
    prob, reward = fields.floats("prob"), fields.floats("reward")
    if nu.ndim != 2 or 0 in nu.shape:
        raise ModelError(f"nu must have the shape (M, S), none of them 0; it is {nu.shape}")
    (M, S), n_rows = nu.shape, indptr.size - 1
    A = n_rows // (M * S)
    if indptr.ndim != 1 or A < 1 or n_rows != M * S * A:
        raise ModelError(f"indptr must have M*S*A+1 entries; M={M}, S={S}, found {indptr.size}")
    lengths = np.diff(indptr)
    if indptr[0] != 0 or (lengths < 0).any() or indptr[-1] != following.size:
        raise ModelError(f"indptr must rise from 0 to the length of next, {following.size}")
    if fields.truth("rewards_on_transitions"):
        wanted = following.shape
    else:
        wanted = (n_rows,)
        if reward.shape == wanted:
            reward = np.repeat(reward, lengths)
    shapes = {"next": following.shape, "prob": prob.shape, "reward": reward.shape}
    if following.ndim != 1 or len(set(shapes.values())) != 1:
        raise ModelError(f"next, prob, reward must go with indptr; their shapes are {shapes}")
    if "allowed" in fields:
        mask = fields.truths("allowed")
        by_step = states is not None and mask.ndim == 3
        mask = mask.reshape(-1, mask.shape[-1]) if by_step else mask
        _check_room(mask, lengths.reshape(M, S, A))
    row = np.repeat(np.arange(n_rows), lengths)
    pair, action = np.divmod(row, A)
    context, state = np.divmod(pair, S)
    return context, state, action, following, prob, reward, fields.floats("w"), nu


def _check_room(allowed: np.ndarray, lengths: np.ndarray) -> None:
    """Refuse a model whose unavailable actions, which repeat others, take too much memory."""
    if allowed.shape == lengths.shape[1:]:
        first = allowed.argmax(axis=1)
        once = np.take_along_axis(lengths, first[None, :, None], axis=2)[:, :, 0].sum(axis=0)
        needed = float(lengths.sum() + (once * (~allowed).sum(axis=1)).sum(dtype=np.float64))
        if needed * OUTCOME_BYTES > memory_budget():
            raise ModelError(f"{needed:.3g} outcomes are too many for this machine")


def _storable_names(key: str, names: tuple[str, ...]) -> list[str]:
    for name in names:
        if "\0" in name or not name.isascii():
            try:
                name.encode("utf-8")
            except UnicodeEncodeError:
                raise ModelError(f"{key} must be valid Unicode text; {name!r} is not") from None
            if "\0" in name:
                raise ModelError(f"{key} must not hold null characters; {name!r} does")
    return list(names)


def _layout_document(layout: Layout) -> dict[str, Any]:
    document: dict[str, Any] = {
        "layout_shape": np.array(layout.shape, dtype=np.int64),
        "layout_positions": np.array(layout.positions, dtype=np.int64).reshape(-1, 2),
        "layout_walls": np.array(layout.walls, dtype=np.int64).reshape(-1, 2),
    }
    if layout.marks is not None:
        pairs = [(m, s) for m, states in enumerate(layout.marks) for s in states]
        document["layout_marks"] = np.array(pairs, dtype=np.int64).reshape(-1, 2)
    return document


def _layout(fields: Fields) -> Layout:
    """Back from arrays; `layout_marks` lists pairs `(context, state)`."""
    shape = fields.wholes("layout_shape")
    if shape.shape != (2,) or (shape < 1).any() or (shape > LARGEST_GRID // shape[::-1]).any():
        raise ModelError(
            f"layout_shape must be (rows, columns), at least 1, and at most {LARGEST_GRID} cells"
        )
    positions = _pairs(fields, "layout_positions")
    walls = _pairs(fields, "layout_walls") if "layout_walls" in fields else positions[:0]
    inside = ((positions >= 0) & (positions < shape)).all(axis=1) | (positions == -1).all(axis=1)
    if not inside.all():
        s = int(np.argmin(inside))
        raise ModelError(f"layout_positions[{s}] must lie on the grid or be (-1, -1)")
    if not ((walls >= 0) & (walls < shape)).all():
        raise ModelError("layout_walls must lie on the grid")
    marks: tuple[tuple[int, ...], ...] | None = None
    if "layout_marks" in fields:
        marks = _marks(_pairs(fields, "layout_marks"), fields.floats("nu").shape)
    return Layout(
        shape=(int(shape[0]), int(shape[1])),
        positions=tuple((r, c) for r, c in positions.tolist()),
        walls=tuple((r, c) for r, c in walls.tolist()),
        marks=marks,
    )


def _marks(pairs: np.ndarray, shape: tuple[int, ...]) -> tuple[tuple[int, ...], ...]:
    if len(shape) != 2 or not ((pairs >= 0) & (pairs < shape)).all():
        raise ModelError("layout_marks must be pairs (context, state) of the model")
    by_context: list[list[int]] = [[] for _ in range(shape[0])]
    for m, s in pairs.tolist():
        by_context[m].append(s)
    return tuple(tuple(states) for states in by_context)


def _pairs(fields: Fields, key: str) -> np.ndarray:
    values = fields.wholes(key)
    if values.size == 0:
        return values.reshape(0, 2)
    if values.ndim != 2 or values.shape[1] != 2:
        raise ModelError(f"{key} must be a list of pairs; its shape is {values.shape}")
    return values
