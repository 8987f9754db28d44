"""Loading `.pomdp` and `.pomdpx` files of about a hundred megabytes, and SARSOP's alpha vectors.

Run: python benchmarks/pomdp_files.py [--megabytes N] [--policy FILE.policyx]

The model of a policy is the `.pomdpx` file of the same name beside it.
"""

import argparse
import resource
import tempfile
import time
from pathlib import Path

import numpy as np

import latentmdp as lm
from latentmdp.formats.pomdp.belief_policy import policy_from_beliefs
from latentmdp.formats.pomdp.policyx import AlphaVectors

CONTEXTS, ACTIONS, OUTCOMES = 10, 4, 5


def rows(states: int):
    """`(context, action, state, next states, probabilities, reward)` of a random model."""
    rng = np.random.default_rng(0)
    for m in range(CONTEXTS):
        for a in range(ACTIONS):
            prob = rng.dirichlet(np.ones(OUTCOMES), states)
            steps = np.arange(1, OUTCOMES + 1) ** 2
            for s in range(states):
                yield m, a, s, (s + steps) % states, prob[s], (s % 7) / 7


def sparse_text(file, states: int) -> None:
    """One line per transition, with names."""
    names = [f"c{m}-s{s}" for m in range(CONTEXTS) for s in range(states)]
    file.write("discount: 0.95\nvalues: reward\n")
    file.write(f"states: {' '.join(names)}\nactions: {ACTIONS}\n")
    file.write(f"observations: {' '.join(f's{s}' for s in range(states))}\n")
    file.write(f"start include: {' '.join(f'c{m}-s0' for m in range(CONTEXTS))}\n")
    for m in range(CONTEXTS):
        for s in range(states):
            file.write(f"O: * : c{m}-s{s} : s{s} 1.0\n")
    for m, a, s, following, prob, reward in rows(states):
        for n, p in zip(following.tolist(), prob.tolist(), strict=True):
            file.write(f"T: {a} : c{m}-s{s} : c{m}-s{n} {p}\n")
        file.write(f"R: {a} : c{m}-s{s} : * : * {reward}\n")


def dense_text(file, states: int) -> None:
    """Matrices, mostly of zeros."""
    S = CONTEXTS * states
    file.write(f"discount: 0.95\nvalues: reward\nstates: {S}\nactions: {ACTIONS}\n")
    file.write(f"observations: {states}\nstart include: ")
    file.write(" ".join(str(m * states) for m in range(CONTEXTS)) + "\n")
    for m in range(CONTEXTS):
        for s in range(states):
            file.write(f"O: * : {m * states + s} : {s} 1.0\n")
    found = {(m, a, s): (following, prob) for m, a, s, following, prob, _ in rows(states)}
    for a in range(ACTIONS):
        file.write(f"T: {a}\n")
        for m in range(CONTEXTS):
            for s in range(states):
                line = ["0"] * S
                for n, p in zip(*found[m, a, s], strict=True):
                    line[m * states + n] = repr(float(p))
                file.write(" ".join(line) + "\n")


def sparse_xml(file, states: int) -> None:
    """One entry per transition."""
    file.write('<?xml version="1.0"?><pomdpx><Discount>0.95</Discount><Variable>\n')
    for name, seen, count in (("state", "true", states), ("context", "false", CONTEXTS)):
        file.write(f'<StateVar vnamePrev="{name}_0" vnameCurr="{name}_1" fullyObs="{seen}">\n')
        file.write(f"<NumValues>{count}</NumValues></StateVar>\n")
    file.write(f'<ActionVar vname="action"><NumValues>{ACTIONS}</NumValues></ActionVar>\n')
    file.write('<RewardVar vname="reward"/></Variable>\n<InitialStateBelief>\n')
    for name, first in (("state", "s0 1.0"), ("context", "- uniform")):
        instance, value = first.split()
        file.write(f"<CondProb><Var>{name}_0</Var><Parent>null</Parent><Parameter><Entry>")
        file.write(f"<Instance>{instance}</Instance><ProbTable>{value}</ProbTable>")
        file.write("</Entry></Parameter></CondProb>\n")
    file.write("</InitialStateBelief>\n<StateTransitionFunction>\n<CondProb><Var>context_1</Var>")
    file.write("<Parent>context_0</Parent><Parameter><Entry><Instance>- -</Instance>")
    file.write("<ProbTable>identity</ProbTable></Entry></Parameter></CondProb>\n")
    file.write("<CondProb><Var>state_1</Var><Parent>action context_0 state_0</Parent><Parameter>\n")
    rewards = []
    for m, a, s, following, prob, reward in rows(states):
        rewards.append(f"<Entry>\n<Instance>a{a} s{m} s{s}</Instance>\n")
        rewards.append(f"<ValueTable>{reward}</ValueTable></Entry>\n")
        for n, p in zip(following.tolist(), prob.tolist(), strict=True):
            file.write(f"<Entry>\n<Instance>a{a} s{m} s{s} s{n}</Instance>\n")
            file.write(f"<ProbTable>{p}</ProbTable></Entry>\n")
    file.write("</Parameter></CondProb>\n</StateTransitionFunction>\n<RewardFunction><Func>")
    file.write("<Var>reward</Var><Parent>action context_0 state_0</Parent><Parameter>\n")
    file.writelines(rewards)
    file.write("</Parameter></Func></RewardFunction></pomdpx>\n")


def measure(name: str, write, states: int) -> None:
    """Print the size of a file and the seconds that loading it takes."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / name
        with open(path, "w", encoding="ascii") as file:
            write(file, states)
        start, cpu = time.perf_counter(), time.process_time()
        model = lm.load(path, horizon=20)
        seconds, cpu = time.perf_counter() - start, time.process_time() - cpu
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
        print(
            f"{write.__name__:12} {path.stat().st_size / 1e6:6.1f} MB  {seconds:6.2f} s "
            f"({cpu:6.2f} s of processor time)  {model!r}  peak memory so far {peak:.2f} GiB"
        )


def measure_policy(path: Path, horizon: int = 200) -> None:
    """Print what alpha vectors are worth with more and more nodes, and how long that takes."""
    model = lm.load(path.with_suffix(".pomdpx"), horizon=horizon)
    start = time.process_time()
    vectors = AlphaVectors(path, model)
    print(f"{path.name}: read in {time.process_time() - start:.2f} s of processor time")
    for most in (20_000, 50_000, 100_000, 200_000, 1_000_000):
        start = time.process_time()
        policy = policy_from_beliefs(model, vectors.choose, most)
        seconds = time.process_time() - start
        value = lm.evaluate(model, policy).value
        print(f"{policy.N:>9} nodes  {seconds:6.2f} s of processor time  value {value:.5f}")


def main() -> None:
    """All three kinds of file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--megabytes", type=float, default=100.0)
    parser.add_argument("--policy", type=Path)
    arguments = parser.parse_args()
    if arguments.policy is not None:
        measure_policy(arguments.policy)
        return
    size = arguments.megabytes * 1e6
    measure("model.pomdp", dense_text, int((size / 2.0 / ACTIONS) ** 0.5 / CONTEXTS))
    measure("model.pomdp", sparse_text, int(size / (CONTEXTS * ACTIONS * OUTCOMES) / 55))
    measure("model.pomdpx", sparse_xml, int(size / (CONTEXTS * ACTIONS * OUTCOMES) / 113))


if __name__ == "__main__":
    main()
