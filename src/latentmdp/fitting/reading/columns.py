"""Which column of a log is what: those that were named, and those with a usual name."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields

from latentmdp.errors import ModelError, quoted

USUAL = {  # optional columns that are used where they are there and nothing else was said
    "step": ("step",),
    "next_state": ("next_state",),
    "terminated": ("terminated",),
    "truncated": ("truncated",),
}
MEANING = {
    "step": "was taken as the step",
    "next_state": "was taken as the next state",
    "terminated": "says where episodes ended for good",
    "truncated": "says where episodes were cut off",
}
LISTED = 200  # characters of a list of columns in a message
NEEDED = ("episode", "state", "action", "reward")
ASKED = ("context", "reading")  # optional, and used only if they were named


@dataclass(frozen=True)
class Columns:
    """The names of a log's columns; None where there is none."""

    episode: str = "episode"
    state: str = "state"
    action: str = "action"
    reward: str = "reward"
    context: str | None = "context"
    step: str | None = None
    next_state: str | None = None
    terminated: str | None = None
    truncated: str | None = None
    reading: str | None = None
    extra: tuple[str, ...] = ()  # numbers that go along with the rows
    said: tuple[str, ...] = ()  # what was found without being named, in words

    @property
    def used(self) -> list[str]:
        """All columns to be read, each once."""
        named = [getattr(self, f.name) for f in fields(self) if f.name not in ("extra", "said")]
        return list(dict.fromkeys([name for name in named if name is not None] + [*self.extra]))

    @property
    def names(self) -> list[str]:
        """The columns that hold names."""
        named = [self.state, self.action, self.context, self.next_state, self.reading]
        return [name for name in named if name is not None]

    def found_in(self, present: Sequence[str]) -> Columns:
        """The same columns, checked against those of a log, and the usual optional ones added."""
        there = [str(name) for name in present]
        if len(there) == 1 and (";" in there[0] or "\t" in there[0]):
            raise ModelError(
                "the columns of a log must be separated by commas; its header is "
                f"{quoted(there[0])}"
            )
        missing = {
            role: name
            for role in (*NEEDED, *ASKED, *USUAL)
            if (name := getattr(self, role)) is not None and name not in there
        }
        if missing:
            wanted = (
                f"{name!r} for the {role.replace('_', ' ')}" for role, name in missing.items()
            )
            options = (f"--{role.replace('_', '-')}" for role in missing)
            raise ModelError(
                f"the log must have a column {', '.join(wanted)}; its columns are "
                f"{_listed(there)} (name others with "
                f"{', '.join(f'{role}=' for role in missing)} or {', '.join(options)})"
            )
        for name in self.used:
            if there.count(name) > 1:
                raise ModelError(f"the log must have one column {quoted(name)}; it has several")
        for name in self.extra:
            if name not in there:
                raise ModelError(f"the log must have a column {name!r}; there is none")
        roles = [role for role in (*NEEDED, *ASKED, *USUAL) if getattr(self, role) is not None]
        taken = [getattr(self, role) for role in roles]
        twice = [name for name in taken if taken.count(name) > 1]
        if twice and sorted(r for r in roles if getattr(self, r) == twice[0]) != [
            "episode",
            "step",
        ]:
            raise ModelError(f"each column must have one meaning; {twice[0]!r} was named twice")
        changes: dict[str, str] = {}
        for role, names in USUAL.items():
            free = [name for name in names if name in there and name not in taken]
            if getattr(self, role) is None and free:
                changes[role] = free[0]
        said = [f"column {name!r} {MEANING[role]}" for role, name in changes.items()]
        if self.step is None and "step" not in changes:
            said.append("rows of an episode were taken to stand in time order (no step column)")
        if self.next_state is None and "next_state" not in changes:
            said.append("the next state was taken from the next row (no next_state column)")
        kept = {f.name: getattr(self, f.name) for f in fields(self)}
        return Columns(**kept | changes | {"said": tuple(said)})


def _listed(names: Sequence[str]) -> str:
    """Names of columns, as many as a message has room for."""
    shown: list[str] = []
    left = LISTED
    for name in names:
        short = name if len(name) <= 30 else f"{name[:30]}..."
        left -= len(short) + 2
        if left < 0:
            return f"{', '.join(shown)} ... ({len(names):,} columns)"
        shown.append(short)
    return ", ".join(shown)
