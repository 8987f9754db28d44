"""Memory nodes: which contexts can be there, and a policy's own part of the graph."""

from latentmdp.runtime.kernel_cache import kernel


@kernel
def mark_possible_contexts(search):
    """Mark the contexts that can be at a memory node: some path of slots leads them there."""
    nodes, rows, possible = search.nodes, search.rows, search.nodes.possible
    S, A, M, span = search.S, search.A, search.M, search.nodes.span
    for t in range(search.H + 1):
        for n in range(span[t] + S, span[t + 1]):
            possible[n] = False
    for s in range(S):
        for m in range(M):
            if search.root[m, s] > 0.0:
                possible[nodes.first[s], m] = True
    for t in range(search.H):
        for n in range(span[t] + S, span[t + 1]):  # default nodes lead to default nodes
            for m in range(M):
                if not possible[n, m]:
                    continue
                for a in range(A):
                    row = (m * S + nodes.state[n]) * A + a
                    for k in range(rows.start[row], rows.stop[row]):
                        possible[nodes.succ[nodes.edge[n, a] + rows.observation[k]], m] = True


@kernel
def extract(nodes, policy, start, next_state, symbol, number, graph):
    """The part of a policy that it can reach itself, in the arrays of `graph` (`PolicyNodes`).

    Observations after `(s, a)` are `start[s * A + a] .. start[s * A + a + 1]`, with these next
    states and symbols. Default nodes are always part of it. `number (N,)` gets the new number of
    every node, -1 if it is not part. Returns `(nodes, edges)`.
    """
    span, S, A, H = nodes.span, len(nodes.first), nodes.edge.shape[1], len(nodes.span) - 2
    number[:] = -1
    for s in range(S):
        number[nodes.first[s]] = 0
    count = 0
    for t in range(H):
        for n in range(span[t], span[t + 1]):
            if number[n] < 0 and n >= span[t] + S:
                continue
            number[n] = count
            count += 1
            if t + 1 < H:
                row = nodes.state[n] * A + policy[n]
                for o in range(start[row + 1] - start[row]):
                    number[nodes.succ[nodes.edge[n, policy[n]] + o]] = 0
    edges = 0
    for t in range(H):
        for n in range(span[t], span[t + 1]):
            at = number[n]
            if at < 0:
                continue
            graph.step[at], graph.state[at], graph.action[at] = t, nodes.state[n], policy[n]
            graph.indptr[at] = edges
            if t + 1 == H:
                continue
            row, edge = nodes.state[n] * A + policy[n], nodes.edge[n, policy[n]]
            for o in range(start[row + 1] - start[row]):
                child = nodes.succ[edge + o]
                if child >= span[t + 1] + S:  # default nodes need no edge
                    graph.symbol[edges] = symbol[start[row] + o]
                    graph.next[edges] = next_state[start[row] + o]
                    graph.node[edges] = number[child]
                    edges += 1
    graph.indptr[count] = edges
    return count, edges
