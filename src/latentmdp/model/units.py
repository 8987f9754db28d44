"""Units of values: those of a normalised model, and those of the rewards that a person gave."""

from typing import TYPE_CHECKING, Any, NamedTuple

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


class InUnits:
    """What models say of their units."""

    if TYPE_CHECKING:

        @property
        def reward_scale(self) -> float:
            """The user's reward is `reward * reward_scale + reward_shift`."""

        @property
        def reward_shift(self) -> float:
            """See `reward_scale`."""

        @property
        def conversion(self) -> Conversion:
            """From values of the model to those of the rewards before `normalized()`."""

    def in_user_units(self, value: Any) -> Any:
        """A value of an episode (or an array) in the units of the rewards before `normalized()`.

        For values only: what is a difference of values has `difference_in_user_units`.
        """
        return self.conversion.value(value)

    def difference_in_user_units(self, difference: Any) -> Any:
        """A difference of values in those units: regret, a gap, the value of information.

        The shift of the rewards cancels in it.
        """
        return self.conversion.difference(difference)

    @property
    def units(self) -> str:
        """`normalised units` where values are not in the units of the rewards that were given."""
        given = (self.reward_scale, self.reward_shift) == (1.0, 0.0)
        return "" if given else NORMALISED

    @property
    def units_in_words(self) -> str:
        """What 1 stands for; empty where rewards are as they were given."""
        if not self.units:
            return ""
        shift = f", after adding {-self.reward_shift:.6g} at every step" * (self.reward_shift != 0)
        return f"{self.units}: a reward of 1 stands for {self.reward_scale:.6g} of yours{shift}"
