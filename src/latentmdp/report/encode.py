"""Compact and safe data for the page: arrays as base64, JSON that no name can break out of.

The page decodes them in `page/data.js`:

- whole numbers: `"u8:..."`, `"u16:..."`, `"u32:..."`, little endian, the smallest that fits;
- numbers without loss: `{"values": [...], "index": "u8:..."}` where few differ, else `"f64:..."`;
- numbers in [0, 1] to 1/65535: `"q16:..."`.
"""

import base64
import json
import math
from typing import Any

import numpy as np

WIDTHS: dict[str, type[np.unsignedinteger[Any]]] = {
    "u8": np.uint8,
    "u16": np.uint16,
    "u32": np.uint32,
}


def pack_whole(values: Any) -> str:
    """Whole numbers from 0 to 2^32 - 1."""
    array = np.asarray(values).reshape(-1)
    largest = int(array.max(initial=0))
    assert array.size == 0 or int(array.min()) >= 0
    for name, kind in WIDTHS.items():
        if largest <= np.iinfo(kind).max:
            return f"{name}:{_base64(array.astype(np.dtype(kind).newbyteorder('<')))}"
    raise AssertionError(f"whole numbers must be below 2^32; found {largest}")


def pack_real(values: Any) -> Any:
    """Numbers, to the bit."""
    array = np.asarray(values, dtype=np.float64).reshape(-1)
    distinct, index = np.unique(array, return_inverse=True)
    if len(distinct) < 2**16 and 4 * len(distinct) <= len(array):
        return {"values": distinct.tolist(), "index": pack_whole(index)}
    return f"f64:{_base64(array.astype('<f8'))}"


def pack_unit(values: Any) -> str:
    """Numbers in [0, 1], rounded to 1/65535."""
    array = np.clip(np.asarray(values, dtype=np.float64).reshape(-1), 0.0, 1.0)
    return f"q16:{_base64(np.rint(array * 65535).astype('<u2'))}"


def rounded(values: Any, digits: int = 6) -> list[float | None]:
    """Numbers for curves, to so many significant digits; what is not finite becomes null."""
    found = np.asarray(values, dtype=np.float64).reshape(-1).tolist()
    return [float(f"{x:.{digits}g}") if math.isfinite(x) else None for x in found]


def safe_json(document: Any) -> str:
    """JSON that may stand inside a `<script>` element: no `<`, `>`, `&` or line separators."""
    text = json.dumps(document, allow_nan=False, separators=(",", ":"))  # ASCII only
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


def _base64(array: np.ndarray) -> str:
    return base64.b64encode(array.tobytes()).decode("ascii")
