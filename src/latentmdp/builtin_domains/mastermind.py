"""`mastermind`: the board game, a hidden code to be found by guesses."""

import numpy as np

from latentmdp.builtin_domains.spec import Domain, Key, require_size
from latentmdp.csr import Ints
from latentmdp.model.latent_mdp import LatentMDP

COLOURS = ("red", "blue", "green", "yellow", "white", "black", "orange", "purple")


def build(
    colours: int,
    balls: int,
    guesses: int,
    white: bool,
    readings: bool | None = None,
    observe_rewards: bool = True,
) -> LatentMDP:
    """The board game Mastermind: find a hidden row of coloured balls within a few guesses.

    Good for: a latent MDP that everybody knows; many tied actions; what is best can be counted.
    Contexts and actions are the codes, `colours ** balls` of them, all equally likely. The answer
    to a guess, together with the number of guesses made, is the next state: so many black pegs
    (right colour, right place) and, with `white=1` as on the board, white ones (right colour, wrong
    place). The guess that is the code pays 1 and ends in `solved`, once: so totals are at most 1,
    and a policy's value is the share of codes that it finds. Watching rewards tells no more than
    the answers do. With `readings=1` there are two states, `playing` and `solved`, and the answer
    is a reading besides them.
    """
    codes = colours**balls
    require_size("mastermind", codes * codes * guesses)
    kinds, kind = np.unique(_answers(colours, balls, white), return_inverse=True)
    kind = kind.reshape(codes, codes)  # (code, guess); the last kind is all black
    if readings:
        return _with_readings(kinds, kind, guesses, balls, white, observe_rewards, colours)
    wrong = len(kinds) - 1
    S, solved = 2 + guesses * wrong, 1 + guesses * wrong
    require_size("mastermind", codes * S * codes)
    # state 0 is the start, state 1 + n * wrong + k the answer k to guess n + 1
    m, s, a = (grid.ravel() for grid in np.indices((codes, S, codes)))
    guesses_made = np.where(s == 0, 0, 1 + (s - 1) // max(wrong, 1))
    after = np.minimum(guesses_made, guesses - 1) * wrong + 1 + kind[m, a]
    found = m == a
    nxt = np.where(found | (s == solved), solved, after)
    nu = np.zeros((codes, S))
    nu[:, 0] = 1.0
    names = tuple(_code_names(colours, balls))
    return LatentMDP.from_rows(
        m,
        s,
        a,
        nxt,
        np.ones(m.size),
        np.where(found & (s != solved), 1.0, 0.0),
        np.full(codes, 1.0 / codes),
        nu,
        guesses,
        n_actions=codes,
        observe_rewards=observe_rewards,
        state_names=(
            "start",
            *(
                f"guess {i + 1}: {_pegs(k, balls, white)}"
                for i in range(guesses)
                for k in kinds[:-1]
            ),
            "solved",
        ),
        action_names=names,
        context_names=names,
    )


def _with_readings(
    kinds: Ints,
    kind: Ints,
    guesses: int,
    balls: int,
    white: bool,
    observe_rewards: bool,
    colours: int,
) -> LatentMDP:
    """The game with states `playing` (0) and `solved` (1); answer `k` is reading `k`."""
    codes = len(kind)
    m, s, a = (grid.ravel() for grid in np.indices((codes, 2, codes)))
    found = m == a
    names = tuple(_code_names(colours, balls))
    return LatentMDP.from_rows(
        m,
        s,
        a,
        np.where(found, 1, s),
        np.ones(m.size),
        np.where(found & (s == 0), 1.0, 0.0),
        np.full(codes, 1.0 / codes),
        [1.0, 0.0],
        guesses,
        reading=np.where(s == 1, len(kinds) - 1, kind[m, a]),
        n_readings=len(kinds),
        n_actions=codes,
        observe_rewards=observe_rewards,
        state_names=("playing", "solved"),
        reading_names=[_pegs(k, balls, white) for k in kinds],
        action_names=names,
        context_names=names,
    )


def _pegs(kind: int, balls: int, white: bool) -> str:
    """An answer in words."""
    return f"{kind // (balls + 1)} black" + f", {kind % (balls + 1)} white" * white


def _answers(colours: int, balls: int, white: bool) -> Ints:
    """`black pegs * (balls + 1) + white pegs`, `(code, guess)`."""
    codes = colours**balls
    ball = np.arange(codes)[:, None] // colours ** np.arange(balls - 1, -1, -1) % colours
    black = np.zeros((codes, codes), dtype=np.int64)
    common = np.zeros((codes, codes), dtype=np.int64)
    for place in range(balls):
        black += ball[:, None, place] == ball[None, :, place]
    for colour in range(colours):
        number = (ball == colour).sum(axis=1)
        common += np.minimum(number[:, None], number)
    return black * (balls + 1) + (common - black) * white


def _code_names(colours: int, balls: int) -> list[str]:
    """Names like `red red blue`, in the order of the codes."""
    names = [COLOURS[i] if i < len(COLOURS) else f"colour{i + 1}" for i in range(colours)]
    rows = [""]
    for _ in range(balls):
        rows = [f"{row} {name}" for row in rows for name in names]
    return [row.strip() for row in rows]


DOMAIN = Domain(
    "mastermind",
    (
        Key("colours", int, 3, 1, 1000, "colours a ball can have"),
        Key("balls", int, 2, 1, 16, "balls of the code"),
        Key("guesses", int, 3, 1, 1000, "guesses allowed: the steps of an episode"),
        Key("white", bool, False, 0, 1, "whether answers have white pegs too"),
        Key("readings", bool, None, 0, 1, "answers are readings besides the state", "0"),
    ),
    build,
)
