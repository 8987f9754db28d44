"""Multi-model MDPs as published in CSV: one line per outcome, columns by name.

`idstatefrom, idaction, idoutcome` (the model, our context), `idstateto, probability, reward`; the
ids are numbers from 0 or names. Without `idoutcome` there is one model. Repeated lines add up. A
state without lines in a model ends the episode there; an action without lines in all models is
unavailable in that state.

Beside it lie, for all tables of the folder: `initial.csv` (`idstate, probability`, and `idoutcome`
where they differ by model) with the first state, unless the caller names one; `weights.csv`
(`idoutcome, weight`), unless the table has a column `weight`, or weights are uniform; and
`parameters.csv` (`parameter, value`) with the discount. The horizon must be given: by the caller,
or by a line `horizon` in `parameters.csv`, which `save_csv` writes. With a column
`step`, from 0, the model is step-dependent: a state without lines at a step of a model stays where
it is there, with reward 0. Terminal rewards of `x.csv` lie in `x.terminal.csv` (`idoutcome,
idstate, reward`), 0 where none is given; without `idoutcome` they are those of all models. With a
column `idreading` each line has a reading, and its probability is that of next state and reading.
"""

import csv
import io
import math
import re
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np

from latentmdp.csr import Floats, Ints
from latentmdp.errors import ModelError
from latentmdp.formats.document import NAMES, Options, build_within_limit
from latentmdp.formats.tables import CHUNK_ROWS, CsvTable
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
from latentmdp.tables.outcome_columns import outcomes_of, weight_column
from latentmdp.tables.outcome_table import (
    LONGEST_NAME,
    OutcomeTable,
    as_number,
    build_by_step,
    first_states,
    weights,
)
from latentmdp.tables.to_frame import in_order

if TYPE_CHECKING:
    import pandas as pd

Names = dict[str, tuple[str, ...] | None]  # by the field of the model; None: numbers are written
Labels = dict[str, list[str]]  # by the meaning of the column
COLUMNS = {
    "state": "idstatefrom", "action": "idaction", "context": "idoutcome",
    "next_state": "idstateto", "probability": "probability", "reward": "reward", "step": "step",
    "reading": "idreading",
}  # fmt: skip
PLACE = {"context": "idoutcome", "state": "idstate"}
PARAMETERS = ("discount", "horizon", "observe_rewards", "max_return")
BESIDE = ("initial.csv", "weights.csv", "parameters.csv")


# ---------------------------------------------------------------------- reading


def load_csv(path: PathLike, options: Options) -> LatentMDP:
    """The model in `path`, with the files beside it."""
    table = CsvTable(path, COLUMNS | {"weight": "weight"}, ("context", "weight", "step", "reading"))
    outcomes = outcomes_of(table)
    _check_contexts(outcomes)
    step = table.wholes("step") if "step" in table else None
    folder = as_path(path).parent
    settings = _settings(path, options, None if step is None else 1 + int(step.max()))
    settings["terminal"] = _read_terminal(terminal_path(path), outcomes)
    if "weight" in table:
        w = weight_column(table, outcomes)
    else:
        w = _read_weights(folder / "weights.csv", outcomes)
    if options.start is not None:
        nu = first_states(options.start, outcomes)
    else:
        nu = _read_initial(folder / "initial.csv", outcomes)
    horizon, limit = settings.pop("horizon"), settings.pop("max_return")
    settings["normalize"] = options.normalize
    return build_within_limit(build_by_step, (outcomes, step, w, nu, horizon), settings, limit)


def terminal_path(path: PathLike) -> Path:
    """`x.terminal.csv` beside `x.csv`."""
    return as_path(path).with_suffix(".terminal.csv")


def _check_contexts(o: OutcomeTable) -> None:
    used = np.unique(o.context)
    if len(used) < o.contexts.size:
        missing = int(np.argmax(np.append(used, -1) != np.arange(len(used) + 1)))
        raise ModelError(
            f"every number from 0 to the largest must have lines ({o.contexts.size} by the "
            f"largest found); idoutcome={missing} has none"
        )


def _read_weights(path: Path, o: OutcomeTable) -> Floats:
    """`(M,)` weights from the file; uniform if there is none."""
    if not path.exists():
        return weights(None, o.contexts)
    table = CsvTable(path, {"context": "idoutcome", "weight": "weight"}, labels_as_text=True)
    w = np.zeros(o.contexts.size)
    np.add.at(w, table.numbers_in("context", o.contexts), table.floats("weight"))
    return w


def _read_initial(path: Path, o: OutcomeTable) -> Floats:
    """`(M, S)` first states; lines with probability 0 may name unknown states."""
    if not path.exists():
        raise refusal(
            path,
            "must be beside the model, or the first state must be given (start=, --start)",
        )
    table = CsvTable(
        path, {"probability": "probability"} | PLACE, ("context",), labels_as_text=True
    )
    prob = table.floats("probability")
    some = prob != 0.0
    nu = np.zeros((o.contexts.size, o.states.size))
    np.add.at(nu, _places(table, o, some), prob[some])
    return nu


def _read_terminal(path: Path, o: OutcomeTable) -> Floats | None:
    """`(M, S)` rewards after the last step, 0 where none is given; None if there is no file."""
    if not path.exists():
        return None
    table = CsvTable(path, {"reward": "reward"} | PLACE, ("context",), labels_as_text=True)
    terminal, place = np.zeros((o.contexts.size, o.states.size)), _places(table, o)
    lines = np.zeros_like(terminal)
    np.add.at(lines, place, 1)
    if (lines > 1).any():
        raise refusal(path, "each model and state must have at most one line; one has two")
    terminal[place] = table.floats("reward")
    return terminal


def _places(table: CsvTable, o: OutcomeTable, rows: Any = slice(None)) -> tuple[Any, Ints]:
    """Model and state of each line; all models where the table has no column for them."""
    state = table.numbers_in("state", o.states, rows)
    if "context" not in table:
        return slice(None), state
    return table.numbers_in("context", o.contexts, rows), state


def _settings(path: PathLike, options: Options, steps: int | None) -> dict[str, Any]:
    """Horizon, discount and whether rewards are observed, from the caller or `parameters.csv`."""
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
    """The known lines of `parameters.csv`; others are ignored."""
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
    place of numbers unless a reader would take them for numbers; layout and units are not written.
    Cost: about 1 s per 10^6 outcomes.
    """
    if model.allowed is not None and not model.allowed[..., -1].any():
        raise refusal(path, "CSV lists available actions, the last one is not; use .npz or .json")
    if as_path(path).name in BESIDE:
        raise refusal(path, "this name is reserved for a file beside the model")
    folder = as_path(path).parent
    frame = _numbers(model)
    names = _names_to_write(model, frame)
    labels = _labels(model, names)
    values = (model.discount, model.H, int(model.observe_rewards), model.return_limit)
    parameters = [line for line in zip(PARAMETERS, values, strict=True) if line[1] is not None]
    beside = [
        *_unless_there(folder / "initial.csv", _initial_lines(model, labels)),
        *_unless_there(folder / "parameters.csv", [("parameter", "value"), *parameters]),
        *_weights_beside(folder / "weights.csv", model, labels),
        *_terminal_beside(terminal_path(path), model, labels),
    ]
    write_together([*beside, (path, lambda file: _write_outcomes(frame, labels, file))])


def not_in_csv(model: LatentMDP) -> list[str]:
    """The parts of this model that `save_csv` does not write."""
    written = _names_to_write(model, _numbers(model))
    lost = [part for part in NAMES if getattr(model, part) and written[part] is None]
    lost += ["layout"] * (model.layout is not None)
    return lost + ["units"] * ((model.reward_scale, model.reward_shift) != (1.0, 0.0))


def _numbers(model: LatentMDP) -> "pd.DataFrame":
    """The outcomes, with numbers in place of names."""
    frame = model.to_frame(names=False)
    return frame.astype(dict.fromkeys(("context", "state", "action", "next_state"), np.int64))


def _names_to_write(model: LatentMDP, frame: "pd.DataFrame") -> Names:
    """The names that come back unchanged and in the same order when the file is read."""
    names = {
        part: getattr(model, part) if _writable(getattr(model, part) or ()) else None
        for part in NAMES
    }
    if not in_order(frame.state.to_numpy(), frame.next_state.to_numpy()):
        names["state_names"] = None
    if not in_order(frame.action.to_numpy()) or frame.action.nunique() < model.A:
        names["action_names"] = None  # not in order, or one is never available
    if model.readings > 1 and not in_order(frame.reading.to_numpy()):
        names["reading_names"] = None
    return names


def _writable(names: tuple[str, ...]) -> bool:
    """Whether names can be read back unchanged: not as numbers, not stripped, not merged."""
    plain = all(
        name == name.strip() and name.isprintable() and 0 < len(name) <= LONGEST_NAME
        for name in names
    )
    return plain and not all(map(_reads_as_number, names)) and len(set(names)) == len(names)


def _reads_as_number(name: str) -> bool:
    try:
        as_number(name)
    except ValueError:
        return False
    return True


def _labels(model: LatentMDP, names: Names) -> Labels:
    """The text written for each number: its name, quoted if necessary, or the number."""
    special = re.compile(r'[",\s]')
    sizes = dict(zip(("context", "state", "action"), model.sizes, strict=True))
    sizes["reading"] = model.readings
    labels = {meaning: [str(i) for i in range(size)] for meaning, size in sizes.items()}
    for meaning in sizes:
        if (known := names[f"{meaning}_names"]) is not None:
            labels[meaning] = [
                '"' + name.replace('"', '""') + '"' if special.search(name) else name
                for name in known
            ]
    return labels | {"next_state": labels["state"]}


def _initial_lines(model: LatentMDP, labels: Labels) -> list[tuple[Any, ...]]:
    if (model.nu == model.nu[0]).all():
        pairs = zip(labels["state"], model.nu[0].tolist(), strict=True)
        return [("idstate", "probability"), *pairs]
    entries = zip(*np.nonzero(model.nu), strict=True)
    lines = [(labels["context"][m], labels["state"][s], float(model.nu[m, s])) for m, s in entries]
    return [("idoutcome", "idstate", "probability"), *lines]


def _terminal_beside(path: Path, model: LatentMDP, labels: Labels) -> list[tuple[PathLike, Writer]]:
    """The file of terminal rewards; an error if there is one for a model that has none."""
    terminal = model.terminal
    if terminal is None:
        if path.exists():
            raise refusal(path, "has terminal rewards, and this model has none; remove the file")
        return []
    text = "idoutcome,idstate,reward\n" + "".join(
        f"{context},{state},{reward!r}\n"
        for context, row in zip(labels["context"], terminal.tolist(), strict=True)
        for state, reward in zip(labels["state"], row, strict=True)
    )
    return [(path, lambda file: _write(file, text))]


def _weights_beside(path: Path, model: LatentMDP, labels: Labels) -> list[tuple[PathLike, Writer]]:
    """`weights.csv`, unless weights are uniform and there is no such file."""
    if np.array_equal(model.w, np.full(model.M, 1.0 / model.M)) and not path.exists():
        return []
    pairs = zip(labels["context"], model.w.tolist(), strict=True)
    return _unless_there(path, [("idoutcome", "weight"), *pairs])


def _unless_there(path: Path, lines: Iterable[tuple[Any, ...]]) -> list[tuple[PathLike, Writer]]:
    """The file to write; none if it exists with the same text; an error if the text differs."""
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


def _write_outcomes(frame: "pd.DataFrame", labels: Labels, file: BinaryIO) -> None:
    written = [meaning for meaning in COLUMNS if meaning in frame]
    _write(file, ",".join(COLUMNS[meaning] for meaning in written) + "\n")
    for start in range(0, len(frame), CHUNK_ROWS):
        part = frame[start : start + CHUNK_ROWS]
        texts = [
            map(labels[meaning].__getitem__ if meaning in labels else repr, part[meaning].tolist())
            for meaning in written
        ]
        _write(file, "".join([",".join(line) + "\n" for line in zip(*texts, strict=True)]))
