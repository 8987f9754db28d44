"""Multi-model MDPs as published in CSV: one line per outcome, columns by name, counted from 0.

`idstatefrom, idaction, idoutcome` (the model, our context), `idstateto, probability, reward`.
Repeated lines add up; an action without lines in all models is unavailable in that state; weights
are uniform; `initial.csv` beside it (`idstate, probability`) has
the first state, `parameters.csv` (`parameter, value`) the discount. The horizon must be given: by
the caller, or by a line `horizon` in `parameters.csv`, which `save_csv` writes.

A step-dependent model has a column `step`, from 0, and as many steps as are found there. Terminal
rewards lie beside `x.csv` in `x.terminal.csv`: `idoutcome, idstate, reward`, 0 where none is given.
"""

import csv
import io
import math
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from latentmdp.canonical import Ints
from latentmdp.errors import ModelError
from latentmdp.formats.document import OUTCOME_BYTES, Options, build_within_limit
from latentmdp.formats.files import (
    PathLike,
    Writer,
    as_path,
    memory_budget,
    read_text,
    refusal,
    write_together,
)
from latentmdp.formats.tables import CsvTable
from latentmdp.horizons import is_infinite
from latentmdp.model import LatentMDP
from latentmdp.timed import AnyModel, TimedLatentMDP

TERMINAL = ("idoutcome", "idstate", "reward")
COLUMNS = ("idstatefrom", "idaction", "idoutcome", "idstateto", "probability", "reward")
PARAMETERS = ("discount", "horizon", "observe_rewards", "max_return")


def load_csv(path: PathLike, options: Options) -> AnyModel:
    """The model in `path`, with `initial.csv` and `parameters.csv` from the same folder."""
    table = CsvTable(path, COLUMNS, ("step",))
    step = table.ids("step") if "step" in table else None
    state, action, context, following = (table.ids(name) for name in COLUMNS[:4])
    first, first_prob = _read_initial(as_path(path).parent / "initial.csv")
    S = 1 + max(int(x.max()) for x in (state, following, first))
    M, A = 1 + int(context.max()), 1 + int(action.max())
    steps = None if step is None else 1 + int(step.max())
    settings = _settings(path, options, steps)
    if step is None:
        _check_rows(M, S, A, context, state, action)
    elif steps is not None:
        _check_rows_by_step(step, steps, M, S, A, context, state, action)
    terminal = _read_terminal(path, M, S)
    nu = np.zeros(S)
    np.add.at(nu, first, first_prob)
    arguments = (
        context, state, action, following, table.floats("probability"), table.floats("reward"),
        np.full(M, 1.0 / M), np.tile(nu, (M, 1)), settings.pop("horizon"),
    )  # fmt: skip
    settings["normalize"] = options.normalize
    limit, horizon = settings.pop("max_return"), arguments[-1]
    settings |= {"step": step, "terminal": terminal}
    if steps is None:
        return build_within_limit(LatentMDP.from_rows, arguments, settings, limit)
    model = build_within_limit(LatentMDP.from_rows, (*arguments[:-1], steps), settings, limit)
    return model if horizon == steps else model.replace(horizon=horizon)


def save_csv(model: AnyModel, path: PathLike) -> None:
    """Write `path`, and `initial.csv` and `parameters.csv` beside it (never over different ones).

    Refuses what CSV cannot hold: weights that are not uniform, first states that depend on the
    context, a last action that is available nowhere. Names, layout and units are not written. Cost:
    about 3 s per 10^6 outcomes.
    """
    if not (model.w == model.w[0]).all():
        raise refusal(path, "CSV has uniform weights only; use .npz or .json")
    if not (model.nu == model.nu[0]).all():
        raise refusal(path, "CSV has one initial distribution; use .npz or .json")
    if model.allowed is not None and not model.allowed[..., -1].any():
        raise refusal(path, "CSV lists available actions, the last one is not; use .npz or .json")
    folder = as_path(path).parent
    initial = [("idstate", "probability"), *enumerate(model.nu[0].tolist())]
    values = (model.discount, model.H, int(model.observe_rewards), model.return_limit)
    parameters = [("parameter", "value"), *zip(PARAMETERS, values, strict=True)]
    parameters = [line for line in parameters if line[1] is not None]
    beside = [
        *_unless_there(folder / "initial.csv", initial),
        *_unless_there(folder / "parameters.csv", parameters),
    ]
    if as_path(path).name in ("initial.csv", "parameters.csv"):
        raise refusal(path, "this name is taken by the file beside the model")
    beside += _terminal_file(model, path)
    write_together([*beside, (path, lambda file: _write_outcomes(model, file))])


def not_in_csv(model: AnyModel) -> list[str]:
    """What `save_csv` leaves out of this model."""
    parts = ("state_names", "action_names", "context_names", "layout")
    lost = [name for name in parts if getattr(model, name) is not None]
    return lost + ["units"] * ((model.reward_scale, model.reward_shift) != (1.0, 0.0))


def _check_rows(M: int, S: int, A: int, context: Ints, state: Ints, action: Ints) -> None:
    """Refuse missing lines before memory is taken for rows, whose number the largest ids claim."""
    if len(state) >= M * S * A:
        return  # `from_rows` finds what is missing
    for name, ids, count in (("idoutcome", context, M), ("idstatefrom", state, S)):
        used = np.unique(ids)
        if len(used) < count:
            gaps = np.flatnonzero(used != np.arange(len(used)))
            missing = int(gaps[0]) if len(gaps) else len(used)
            raise ModelError(
                f"every number from 0 to the largest must have lines ({count} by the largest "
                f"found); {name}={missing} has none"
            )
    pair, number = np.unique(np.stack([state, action]), axis=1, return_inverse=True)
    lines, n_pairs = np.bincount(number), pair.shape[1]
    rows = np.unique(context * n_pairs + number)
    if len(rows) < M * n_pairs:
        gaps = np.flatnonzero(rows != np.arange(len(rows)))
        m, i = divmod(int(gaps[0]) if len(gaps) else len(rows), n_pairs)
        s, a = (int(x) for x in pair[:, i])
        raise ModelError(
            "an action must have outcomes in all models, or in none of them (then it is "
            f"unavailable there); idoutcome={m}, idstatefrom={s}, idaction={a} has none"
        )
    first = np.flatnonzero(np.diff(pair[0], prepend=-1))  # the first pair of each state
    unavailable = A - np.diff(np.append(first, n_pairs))
    needed = len(state) + sum(
        int(k) * int(n) for k, n in zip(unavailable, lines[first], strict=True)
    )
    if needed * OUTCOME_BYTES > memory_budget():
        raise ModelError(
            f"{M} models x {S} states x {A} actions by the largest numbers found are too many for "
            f"this machine; idaction={int(action.max())} is the largest action"
        )


def _check_rows_by_step(
    step: Ints, steps: int, M: int, S: int, A: int, context: Ints, state: Ints, action: Ints
) -> None:
    """`_check_rows` of every step; the numbers of steps, too, are only claimed."""
    if steps * M * S > len(step):  # every state of a model has at least one line at every step
        used = np.unique(step)
        gaps = np.flatnonzero(used != np.arange(len(used)))
        missing = int(gaps[0]) if len(gaps) else -1
        found = f"step={missing} has none" if missing >= 0 else f"there are {len(step)} lines"
        raise ModelError(
            f"every step, model and state must have lines, {steps} x {M} x {S} by the largest "
            f"numbers found; {found}"
        )
    if len(step) < steps * M * S * A:
        for t in range(steps):
            now = step == t
            try:
                _check_rows(M, S, A, context[now], state[now], action[now])
            except ModelError as error:
                raise ModelError(f"at step {t}: {error}") from None
        if steps * M * S * A * OUTCOME_BYTES > memory_budget():
            raise ModelError(
                f"{steps} steps x {M} models x {S} states x {A} actions by the largest numbers "
                "found are too many for this machine"
            )


def _terminal_path(path: PathLike) -> Path:
    """`x.terminal.csv` beside `x.csv`."""
    return as_path(path).with_suffix(".terminal.csv")


def _read_terminal(path: PathLike, M: int, S: int) -> np.ndarray | None:
    """`(M, S)` rewards after the last step, if there is a file of them."""
    file = _terminal_path(path)
    if not file.exists() or as_path(path) == file:
        return None
    table = CsvTable(file, TERMINAL)
    context, state, reward = table.ids(TERMINAL[0]), table.ids(TERMINAL[1]), table.floats("reward")
    for name, ids, count in ((TERMINAL[0], context, M), (TERMINAL[1], state, S)):
        if (ids >= count).any():
            row = int(np.argmax(ids >= count))
            raise refusal(
                file,
                f"{name} must be from 0 to {count - 1}; in data row {row + 1} it is {ids[row]}",
            )
    if len(np.unique(context * S + state)) < len(state):
        raise refusal(file, "each model and state must have one line at most; one has two")
    terminal = np.zeros((M, S))
    terminal[context, state] = reward
    return terminal


def _terminal_file(model: AnyModel, path: PathLike) -> list[tuple[PathLike, Writer]]:
    """What to write of terminal rewards; a file of another model's is never left beside it."""
    file = _terminal_path(path)
    terminal = model.terminal if isinstance(model, TimedLatentMDP) else None
    if terminal is None:
        if file.exists():
            raise refusal(file, "has terminal rewards, this model none; remove it, or write into "
                          "another folder")  # fmt: skip
        return []
    lines = [",".join(TERMINAL)]
    lines += [
        f"{m},{s},{x!r}" for m, row in enumerate(terminal.tolist()) for s, x in enumerate(row)
    ]
    return [(file, lambda opened: _write(opened, "\n".join(lines) + "\n"))]


def _read_initial(path: Path) -> tuple[Any, Any]:
    if not path.exists():
        raise refusal(path, "must lie beside the model; there is no such file")
    table = CsvTable(path, ("idstate", "probability"))
    first, prob = table.ids("idstate"), table.floats("probability")
    if (first >= 10**8).any():
        raise refusal(path, f"idstate must be below 10^8; found {first.max()}")
    return first, prob


def _settings(path: PathLike, options: Options, steps: int | None) -> dict[str, Any]:
    """Horizon, discount and whether rewards are seen: the caller's word, else the folder's."""
    file = as_path(path).parent / "parameters.csv"
    found = _read_parameters(file) if file.exists() else {}
    horizon = options.horizon if options.horizon is not None else found.get("horizon", steps)
    if horizon is None:
        raise refusal(path, "the horizon must be given; CSV does not hold it")
    observe = options.observe_rewards
    if observe is None:
        observe = bool(found.get("observe_rewards", 1.0))
    discount = options.discount if options.discount is not None else found.get("discount", 1.0)
    return {
        "horizon": horizon,
        "discount": discount,
        "observe_rewards": observe,
        "max_return": found.get("max_return"),
    }


def _read_parameters(path: Path) -> dict[str, float]:
    """The known lines of `parameters.csv`; others are passed over."""
    try:
        lines = [line for line in csv.reader(io.StringIO(read_text(path)), strict=True) if line]
    except csv.Error as error:
        raise refusal(path, f"cannot be read: {error}") from None
    if not lines or [name.strip() for name in lines[0]] != ["parameter", "value"]:
        raise refusal(path, "the header must be parameter,value")
    found: dict[str, float] = {}
    for name, *values in lines[1:]:
        name = name.strip()
        if name not in PARAMETERS:
            continue
        if name in found:
            raise refusal(path, f"each parameter may appear once; {name} appears twice")
        try:
            (text,) = values
            found[name] = float(text)
            endless = name == "horizon" and is_infinite(found[name])
            if not (math.isfinite(found[name]) or endless):
                raise ValueError
        except ValueError:
            raise refusal(path, f"{name} must be one number; it is {values}") from None
    if found.get("observe_rewards", 1.0) not in (0.0, 1.0):
        raise refusal(path, "observe_rewards must be 0 or 1")
    return found


def _unless_there(path: Path, lines: list[tuple[Any, ...]]) -> list[tuple[PathLike, Writer]]:
    """What to write; nothing if the file says the same already; refuses if it says otherwise."""
    text = "".join(",".join(str(value) for value in line) + "\n" for line in lines)
    if not path.exists():
        return [(path, lambda file: _write(file, text))]
    if read_text(path) != text:
        raise refusal(path, "belongs to other models and differs; write into another folder")
    return []


def _write(file: BinaryIO, text: str) -> None:
    file.write(text.encode("ascii"))


def _write_outcomes(model: AnyModel, file: BinaryIO) -> None:
    if isinstance(model, TimedLatentMDP):
        _write_steps(model, file)
        return
    _write(file, ",".join(COLUMNS) + "\n")
    row = np.repeat(np.arange(len(model.indptr) - 1), np.diff(model.indptr))
    listed = np.flatnonzero(model.listed_rows[row])  # not what unavailable actions repeat
    for start in range(0, len(listed), 1 << 16):
        part = listed[start : start + (1 << 16)]
        pair, action = np.divmod(row[part], model.A)
        context, state = np.divmod(pair, model.S)
        columns = (state, action, context, model.next[part], model.prob[part], model.reward[part])
        lines = zip(*(column.tolist() for column in columns), strict=True)
        _write(file, "".join([f"{s},{a},{m},{n},{p!r},{r!r}\n" for s, a, m, n, p, r in lines]))


def _write_steps(model: TimedLatentMDP, file: BinaryIO) -> None:
    _write(file, ",".join((*COLUMNS, "step")) + "\n")
    c = model.columns
    columns = (c.state, c.action, c.context, c.next, c.prob, c.reward, c.step)
    for start in range(0, len(c.step), 1 << 16):
        part = [column[start : start + (1 << 16)].tolist() for column in columns]
        rows = zip(*part, strict=True)
        _write(file, "".join([",".join(map(repr, row)) + "\n" for row in rows]))
