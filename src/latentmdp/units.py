"""Units of values: those of a normalised model, and those of the rewards that a person gave."""

from typing import Any, NamedTuple

NORMALISED = "normalised units"
USER = "user units"
USER_WORDS = "the units of the rewards before they were normalised"


class Conversion(NamedTuple):
    """From a model's values of an episode to a person's: `value * scale + shift`."""

    scale: float = 1.0
    shift: float = 0.0

    def value(self, value: Any) -> Any:
        """A value of an episode, or an array of them."""
        return value * self.scale + self.shift

    def difference(self, difference: Any) -> Any:
        """A difference of values (regret, a gap, a standard deviation): the shift cancels."""
        return difference * self.scale
