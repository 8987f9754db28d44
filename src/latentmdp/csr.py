"""Array types, and compressed sparse rows (CSR): row `r` is `indptr[r] .. indptr[r + 1]`."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Array = NDArray[Any]
