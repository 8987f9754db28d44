"""`ReadingOptions`: what to do with doubtful rows, copies of rows, and spellings of names."""

from __future__ import annotations

from dataclasses import dataclass

from latentmdp.errors import ModelError

ON_BAD = ("raise", "skip", "cut")
DUPLICATES = ("refuse", "drop", "keep")


@dataclass(frozen=True)
class ReadingOptions:
    """How a log is read, apart from its columns.

    `on_bad`: `raise`; `skip` leaves out episodes with doubtful rows; `cut` uses them up to the
    first doubtful cell. `duplicates`: of a row that equals the row before it. `strip` and
    `casefold`: names of contexts, states and actions are compared without blanks around them, or
    in lower case. `date_format`: of the step column, as for `datetime.strptime`.
    """

    on_bad: str = "raise"
    duplicates: str = "refuse"
    strip: bool = False
    casefold: bool = False
    date_format: str | None = None

    def __post_init__(self) -> None:
        for name, allowed in (("on_bad", ON_BAD), ("duplicates", DUPLICATES)):
            value = getattr(self, name)
            if value not in allowed:
                words = f"{', '.join(allowed[:-1])} or {allowed[-1]}"
                raise ModelError(f"{name} must be {words}; it is {value!r}")
        if self.date_format is not None and not isinstance(self.date_format, str):
            raise ModelError(
                f"date_format must be text such as '%d/%m/%Y'; it is {self.date_format!r}"
            )

    @property
    def cuts(self) -> bool:
        """Whether an episode is used up to its first doubtful cell."""
        return self.on_bad == "cut"

    @property
    def drops_copies(self) -> bool:
        """Whether a row that is certainly a copy of the row before it is dropped."""
        return self.duplicates == "drop" or (self.cuts and self.duplicates == "refuse")

    def spelled(self, name: str) -> str:
        """The form in which a name is compared with others."""
        if self.strip:
            name = name.strip()
        return name.casefold() if self.casefold else name
