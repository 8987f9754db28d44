"""Multi-model MDPs as published in CSV: one line per outcome, columns by name.

`idstatefrom, idaction, idoutcome` (the model, our context), `idstateto, probability, reward`; the
ids are numbers from 0 or names. Without `idoutcome` there is one model. Repeated lines add up. A
state without lines in a model ends the episode there; an action without lines in all models is
unavailable in that state.

Beside it lie, for all tables of the folder: `initial.csv` (`idstate, probability`, and `idoutcome`
where they differ by model) with the first state, unless the caller names one; `weights.csv`
(`idoutcome, weight`), unless the table has a column `weight`, or weights are uniform; and
`parameters.csv` (`parameter, value`) with the discount. The horizon must be given: by the caller,
or by a line `horizon` in `parameters.csv`, which `save_csv` writes. Step-dependent models and
terminal rewards: see `csv_steps`.
"""

import csv
import io
import math
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from latentmdp.csr import Floats, Ints
from latentmdp.errors import ModelError
from latentmdp.formats.csv_steps import read_terminal, terminal_path
from latentmdp.formats.document import Options
from latentmdp.formats.tables import CsvTable
from latentmdp.model.horizons import is_infinite
from latentmdp.model.latent_mdp import LatentMDP
from latentmdp.runtime.files import (
    PathLike,
    Writer,
    as_path,
    read_text,
    refusal,
    write_together,
)
from latentmdp.tables.outcome_table import (
    LONGEST_NAME,
    Axis,
    Outcomes,
    agreed,
    build_by_step,
    check_size,
    first_states,
    weights,
)
from latentmdp.tables.to_frame import in_order

COLUMNS = ("idstatefrom", "idaction", "idoutcome", "idstateto", "probability", "reward")
LABELS = ("idstatefrom", "idaction", "idoutcome", "idstateto", "idstate")
PARAMETERS = ("discount", "horizon", "observe_rewards", "max_return")
BESIDE = ("initial.csv", "weights.csv", "parameters.csv")


# ---------------------------------------------------------------------- reading


def load_csv(path: PathLike, options: Options) -> LatentMDP:
    """The model in `path`, with what lies beside it in the same folder."""
    needed = [name for name in COLUMNS if name != "idoutcome"]
    table = CsvTable(path, needed, ("idoutcome", "weight", "step"), LABELS)
    outcomes = _outcomes(table)
    step = table.ids("step") if "step" in table else None
    folder = as_path(path).parent
    settings = _settings(path, options, None if step is None else 1 + int(step.max()))
    settings["terminal"] = read_terminal(path, outcomes)
    w = _weights(table, folder / "weights.csv", outcomes)
    if options.start is not None:
        nu = first_states(options.start, outcomes)
    else:
        nu = _read_initial(folder / "initial.csv", outcomes)
    horizon, limit = settings.pop("horizon"), settings.pop("max_return")
    settings["normalize"] = options.normalize
    if limit is not None:
        try:
            return build_by_step(outcomes, step, w, nu, horizon, max_return=limit, **settings)
        except ModelError:
            pass  # too small a limit, or another fault, which is then named below
    return build_by_step(outcomes, step, w, nu, horizon, max_return=None, **settings)


def _outcomes(table: CsvTable) -> Outcomes:
    states, (state, following) = table.labels("state", "idstatefrom", "idstateto")
    actions, (action,) = table.labels("action", "idaction")
    contexts, context = Axis("context", 1), np.zeros(len(table), dtype=np.int64)
    if "idoutcome" in table:
        contexts, (context,) = table.labels("context", "idoutcome")
    used = np.unique(context)
    if len(used) < contexts.size:
        missing = int(np.argmax(np.append(used, -1) != np.arange(len(used) + 1)))
        raise ModelError(
            f"every number from 0 to the largest must have lines ({contexts.size} by the largest "
            f"found); idoutcome={missing} has none"
        )
    prob, reward = table.floats("probability"), table.floats("reward")
    o = Outcomes(context, state, action, following, prob, reward, contexts, states, actions)
    check_size(o)
    return o


def _weights(table: CsvTable, path: Path, o: Outcomes) -> Floats:
    if "weight" in table:
        given = table.floats("weight")
        w, differs = agreed(given, o.context, o.contexts.size)
        table.refuse_where(differs, "weight", "must be the same in all lines of a model")
        return w
    if not path.exists():
        return weights(None, o.contexts)
    beside = CsvTable(path, ("idoutcome", "weight"), (), LABELS)
    try:
        context = beside.numbers_in("idoutcome", o.contexts)
    except ModelError as error:
        raise refusal(path, str(error)) from None
    w = np.zeros(o.contexts.size)
    np.add.at(w, context, beside.floats("weight"))
    return w


def _read_initial(path: Path, o: Outcomes) -> Floats:
    """`(M, S)` first states; lines with probability 0 may name states that the table does not."""
    if not path.exists():
        raise refusal(
            path, "must lie beside the model, or a start be named (start=, --start); there is none"
        )
    table = CsvTable(path, ("idstate", "probability"), ("idoutcome",), LABELS)
    prob = table.floats("probability")
    some = prob != 0.0
    by_context = "idoutcome" in table
    try:
        state = table.numbers_in("idstate", o.states, some)
        context = np.zeros_like(state)
        if by_context:
            context = table.numbers_in("idoutcome", o.contexts, some)
    except ModelError as error:
        raise refusal(path, str(error)) from None
    nu = np.zeros((o.contexts.size if by_context else 1, o.states.size))
    np.add.at(nu, (context, state), prob[some])
    return nu if by_context else np.tile(nu, (o.contexts.size, 1))


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


# ---------------------------------------------------------------------- writing


def save_csv(model: LatentMDP, path: PathLike) -> None:
    """Write `path` and, beside it, `initial.csv`, `parameters.csv` and, unless weights are uniform,
    `weights.csv` (never over different ones), and `x.terminal.csv` if it has terminal rewards.

    Refuses what CSV cannot hold: a last action that is available nowhere. Names are written in
    place of numbers where a reader can tell them from numbers; layout and units are not written.
    Cost: about 3 s per 10^6 outcomes.
    """
    if model.allowed is not None and not model.allowed[..., -1].any():
        raise refusal(path, "CSV lists available actions, the last one is not; use .npz or .json")
    if as_path(path).name in BESIDE:
        raise refusal(path, "this name is taken by the file beside the model")
    folder = as_path(path).parent
    labels = _Labels(model)
    values = (model.discount, model.H, int(model.observe_rewards), model.return_limit)
    parameters = [line for line in zip(PARAMETERS, values, strict=True) if line[1] is not None]
    beside = [
        *_unless_there(folder / "initial.csv", _initial_lines(model, labels)),
        *_unless_there(folder / "parameters.csv", [("parameter", "value"), *parameters]),
        *_weights_beside(folder / "weights.csv", model, labels),
        *_terminal_beside(terminal_path(path), model, labels),
    ]
    write_together([*beside, (path, lambda file: _write_outcomes(model, labels, file))])


def not_in_csv(model: LatentMDP) -> list[str]:
    """What `save_csv` leaves out of this model."""
    written = _names_to_write(model)
    parts = ("state_names", "action_names", "context_names")
    lost = [part for part in parts if getattr(model, part) and written[part] is None]
    lost += ["layout"] * (model.layout is not None)
    return lost + ["units"] * ((model.reward_scale, model.reward_shift) != (1.0, 0.0))


def _names_to_write(model: LatentMDP) -> dict[str, tuple[str, ...] | None]:
    """The names that come back as they are and in the same order, as they first appear."""
    names = {
        part: getattr(model, part) if _writable(getattr(model, part) or ()) else None
        for part in ("context_names", "state_names", "action_names")
    }
    if any(names.values()):
        state, action, following = _columns_in_file(model)
        if not in_order(state, following):
            names["state_names"] = None
        if not in_order(action) or len(np.unique(action)) < model.A:  # one is available nowhere
            names["action_names"] = None
    return names


def _columns_in_file(model: LatentMDP) -> tuple[Ints, Ints, Ints]:
    """States, actions and next states of all lines."""
    c = model.outcome_columns()
    return c["state"], c["action"], c["next"]


def _writable(names: tuple[str, ...]) -> bool:
    """Whether names come back from a file as they are: not as numbers, nor stripped, nor merged."""
    plain = all(
        name == name.strip() and name.isprintable() and 0 < len(name) <= LONGEST_NAME
        for name in names
    )
    return plain and not all(map(_reads_as_number, names)) and len(set(names)) == len(names)


def _reads_as_number(name: str) -> bool:
    try:
        float(name)  # also takes `INF` and `NaN`, as those who read the file do
    except ValueError:
        return False
    return True


class _Labels:
    """Contexts, states and actions as a file has them: names, in quotes if need be, or numbers."""

    def __init__(self, model: LatentMDP) -> None:
        names = zip(_names_to_write(model).values(), model.sizes, strict=True)
        self.contexts, self.states, self.actions = (self._texts(*part) for part in names)

    @staticmethod
    def _texts(names: tuple[str, ...] | None, size: int) -> list[str]:
        if names is None:
            return [str(i) for i in range(size)]
        quoted = re.compile(r'[",\s]')
        return [
            '"' + name.replace('"', '""') + '"' if quoted.search(name) else name for name in names
        ]


def _initial_lines(model: LatentMDP, labels: _Labels) -> list[tuple[Any, ...]]:
    if (model.nu == model.nu[0]).all():
        pairs = zip(labels.states, model.nu[0].tolist(), strict=True)
        return [("idstate", "probability"), *pairs]
    entries = zip(*np.nonzero(model.nu), strict=True)
    lines = [(labels.contexts[m], labels.states[s], float(model.nu[m, s])) for m, s in entries]
    return [("idoutcome", "idstate", "probability"), *lines]


def _terminal_beside(
    path: Path, model: LatentMDP, labels: _Labels
) -> list[tuple[PathLike, Writer]]:
    """What to write of terminal rewards; those of another model are never left beside one."""
    terminal = model.terminal
    if terminal is None:
        if path.exists():
            raise refusal(path, "has terminal rewards, and this model has none; remove the file")
        return []
    text = "idoutcome,idstate,reward\n" + "".join(
        f"{context},{state},{reward!r}\n"
        for context, row in zip(labels.contexts, terminal.tolist(), strict=True)
        for state, reward in zip(labels.states, row, strict=True)
    )
    return [(path, lambda file: _write(file, text))]


def _weights_beside(path: Path, model: LatentMDP, labels: _Labels) -> list[tuple[PathLike, Writer]]:
    """`weights.csv`, where weights are not uniform or a file says something about them."""
    if np.array_equal(model.w, np.full(model.M, 1.0 / model.M)) and not path.exists():
        return []
    pairs = zip(labels.contexts, model.w.tolist(), strict=True)
    return _unless_there(path, [("idoutcome", "weight"), *pairs])


def _unless_there(path: Path, lines: Iterable[tuple[Any, ...]]) -> list[tuple[PathLike, Writer]]:
    """What to write; nothing if the file says the same already; refuses if it says otherwise."""
    text = "".join(",".join(str(value) for value in line) + "\n" for line in lines)
    if not path.exists():
        return [(path, lambda file: _write(file, text))]
    if read_text(path) != text:
        raise refusal(path, "belongs to other models and differs; write into another folder")
    return []


def _write(file: BinaryIO, text: str) -> None:
    try:
        file.write(text.encode("utf-8"))
    except UnicodeEncodeError:
        raise ModelError("names must be valid Unicode text; one is not") from None


def _write_outcomes(model: LatentMDP, labels: _Labels, file: BinaryIO) -> None:
    if model.steps > 1:
        _write_steps(model, labels, file)
        return
    _write(file, ",".join(COLUMNS) + "\n")
    row = np.repeat(np.arange(len(model.indptr) - 1), np.diff(model.indptr))
    listed = np.flatnonzero(model.listed_rows[row])  # not what unavailable actions repeat
    contexts, states, actions = labels.contexts, labels.states, labels.actions
    for start in range(0, len(listed), 1 << 16):
        part = listed[start : start + (1 << 16)]
        pair, action = np.divmod(row[part], model.A)
        context, state = np.divmod(pair, model.S)
        columns = (state, action, context, model.next[part], model.prob[part], model.reward[part])
        lines = zip(*(column.tolist() for column in columns), strict=True)
        _write(
            file,
            "".join(
                [
                    f"{states[s]},{actions[a]},{contexts[m]},{states[n]},{p!r},{r!r}\n"
                    for s, a, m, n, p, r in lines
                ]
            ),
        )


def _write_steps(model: LatentMDP, labels: _Labels, file: BinaryIO) -> None:
    _write(file, ",".join((*COLUMNS, "step")) + "\n")
    contexts, states, actions = labels.contexts, labels.states, labels.actions
    c = model.outcome_columns()
    names = ("state", "action", "context", "next", "prob", "reward", "step")
    columns = [c[name] for name in names]
    for start in range(0, len(c["step"]), 1 << 16):
        part = [column[start : start + (1 << 16)].tolist() for column in columns]
        lines = [
            f"{states[s]},{actions[a]},{contexts[m]},{states[n]},{p!r},{r!r},{t}\n"
            for s, a, m, n, p, r, t in zip(*part, strict=True)
        ]
        _write(file, "".join(lines))
