"""Distributions that do not quite sum to 1, as published ones often do: checked, or divided.

Strict unless the caller asks otherwise; then what was divided is said in one warning.
"""

import math
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from latentmdp.errors import ModelError, RepairWarning

Floats = NDArray[np.float64]
NEARLY = 1e-2  # a sum that is off by less is likely meant to be 1
PRINTED = 1e-3  # what --normalize-rows allows: sums of a few numbers printed with four digits


class Repairs:
    """What `normalize` allows, and what was divided by its sum so far."""

    def __init__(self, normalize: bool | float = False) -> None:
        """False: nothing; a number: sums may differ from 1 by that much; True: any sum above 0."""
        if isinstance(normalize, (bool, np.bool_)):
            self.limit = math.inf if normalize else 0.0
        elif isinstance(normalize, (int, float, np.integer, np.floating)) and 0 <= normalize < 1:
            self.limit = float(normalize)
        else:
            raise ModelError(
                "normalize must be False, True or how far a sum may be from 1 (at least 0, below "
                f"1); it is {normalize!r}"
            )
        self.count = 0
        self.first = ""
        self.worst = ("", 1.0)

    def divisors(
        self, total: Floats, tolerance: Any, name_of: Callable[[int], str]
    ) -> Floats | None:
        """`(n,)` what to divide distributions by that sum to `total`; None if all are right.

        Those within the `tolerance` of rounding error keep their bits. Refuses the first sum that
        is further from 1 than is allowed.
        """
        off = np.abs(total - 1.0)
        wrong = ~(off <= tolerance)
        if not wrong.any():
            return None
        refused = wrong & ~((off <= self.limit) & (total > 0.0) & np.isfinite(total))
        if refused.any():
            i = int(np.argmax(refused))
            raise ModelError(f"{name_of(i)} must sum to 1; {self._found(float(total[i]))}")
        at = np.flatnonzero(wrong)
        largest = int(at[np.argmax(off[at])])
        if not self.count:
            self.first = f"{name_of(int(at[0]))}, which sums to {float(total[at[0]])!r}"
        if off[largest] > abs(self.worst[1] - 1.0):
            self.worst = (name_of(largest), float(total[largest]))
        self.count += len(at)
        return np.where(wrong, total, 1.0)

    def _found(self, total: float) -> str:
        found, off = f"it sums to {total!r}", abs(total - 1.0)
        if self.limit == 0.0 and off <= NEARLY:
            option = ", --normalize-rows," if off <= PRINTED else ""
            enough = f"1e{max(math.ceil(math.log10(off)), -6)}"
            return f"{found} (normalize={enough}{option} divides nearly right ones by it)"
        if 0.0 < self.limit < math.inf:
            return f"{found}, and normalize={self.limit:g} allows less difference"
        return found

    def warn(self, stacklevel: int = 2) -> None:
        """Say what was divided, if anything was."""
        if not self.count:
            return
        many = f"{self.count} distributions do" if self.count > 1 else "1 distribution does"
        where, total = self.worst
        worst = f"; the largest difference is {abs(total - 1.0):.3g}, of {where}"
        warnings.warn(
            f"{many} not sum to 1 and {'were' if self.count > 1 else 'was'} divided by the sum: "
            f"first {self.first}{worst * (self.count > 1)}",
            RepairWarning,
            stacklevel=stacklevel + 1,
        )
