"""Memory nodes in an arena: which contexts can be there, and a policy's own part of the graph."""

from latentmdp.kernels._cache import kernel
from latentmdp.kernels.optimistic_arena import arena_at, child_of


@kernel
def mark_active(here):
    """Mark the contexts that can be at a memory node: some path of slots leads them there."""
    x = arena_at(here)
    I, G, T, M, S, A, D = x.I, x.G, x.T, x.M, x.S, x.A, x.D  # noqa: E741
    for i in range(D * M, x.N * M):
        I[x.active + i] = 0
    for s in range(S):
        for m in range(M):
            if x.P[x.root + m * S + s] > 0.0:
                I[x.active + G[x.first + s] * M + m] = 1
    for n in range(D, x.N):  # children have larger numbers, or are default nodes
        for m in range(M):
            if I[x.active + n * M + m] == 0:
                continue
            for a in range(A):
                row = (m * S + G[n]) * A + a
                first = x.succ + G[x.edge + (n - D) * A + a]
                for k in range(T[row], T[x.stop + row]):
                    child = child_of(x, k, False, first, (G[x.step + n] + 1) * S)
                    I[x.active + child * M + m] = 1


@kernel
def extract(here, policy, obs_start, obs_next, obs_symbol, number, out_step, out_state,
            out_action, out_indptr, out_symbol, out_next, out_node):  # fmt: skip
    """The part of a policy that it can reach itself, as arrays of a policy graph.

    Default nodes are always part of it. `number (N,)` gets the new number of every node, -1 if it
    is not part. Returns `(nodes, edges)`.
    """
    x = arena_at(here)
    I, G, S, A, D = x.I, x.G, x.S, x.A, x.D  # noqa: E741
    for n in range(x.N):
        number[n] = -1
    for s in range(S):
        if G[x.first + s] >= D:
            number[G[x.first + s]] = 0
    nodes, edges = 0, 0
    for t in range(x.H):
        for n in range(t * S, (t + 1) * S):
            number[n] = nodes
            nodes += 1
        for n in range(G[x.span + t], G[x.span + t + 1]):
            if number[n] < 0:
                continue
            number[n] = nodes
            nodes += 1
            if t + 1 == x.H:
                continue
            a = I[policy + n]
            first = x.succ + G[x.edge + (n - D) * A + a]
            width = obs_start[G[n] * A + a + 1] - obs_start[G[n] * A + a]
            for o in range(width):
                if G[first + o] >= D:
                    number[G[first + o]] = 0
    at = 0
    for t in range(x.H):
        for part in range(2):
            n0 = t * S if part == 0 else G[x.span + t]
            n1 = (t + 1) * S if part == 0 else G[x.span + t + 1]
            for n in range(n0, n1):
                if number[n] < 0:
                    continue
                out_step[at], out_state[at], out_action[at] = t, G[n], I[policy + n]
                out_indptr[at] = edges
                at += 1
                if part == 0 or t + 1 == x.H:
                    continue
                row = G[n] * A + I[policy + n]
                first = x.succ + G[x.edge + (n - D) * A + I[policy + n]]
                for o in range(obs_start[row + 1] - obs_start[row]):
                    child = G[first + o]
                    if child >= D:
                        out_symbol[edges] = obs_symbol[obs_start[row] + o]
                        out_next[edges] = obs_next[obs_start[row] + o]
                        out_node[edges] = number[child]
                        edges += 1
    out_indptr[at] = edges
    return nodes, edges
