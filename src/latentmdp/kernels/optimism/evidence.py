"""`N` and `P_hat` (Alg. 1, l. 15, 16) of some rows, for the rules of `optimism/confidence.py`."""

from latentmdp.runtime.kernel_cache import kernel


@kernel
def collect(rows, start, stop, count_slot, N, N_next, local, at, n_next, p_hat, n, support):
    """Fill `local, at, n_next, p_hat` per slot and `n, support` per row. `O(slots of the rows)`.

    `local` numbers the rows given, `at` is the slot in the model; a slot that the counts do not
    have (`count_slot` -1) has no visits.
    """
    j = 0
    for i in range(len(rows)):
        row = rows[i]
        n[i] = N[row]
        support[i] = 0
        for k in range(start[row], stop[row]):
            local[j] = i
            at[j] = k
            n_next[j] = N_next[count_slot[k]] if count_slot[k] >= 0 else 0
            p_hat[j] = n_next[j] / max(n[i], 1)
            if n_next[j] > 0:
                support[i] += 1
            j += 1
