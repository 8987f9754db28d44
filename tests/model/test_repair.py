"""Distributions that nearly sum to 1, weights of any sum, and what is the same in every context."""

import warnings

import numpy as np
import pytest
from strategies import random_masked

import latentmdp as lm
from latentmdp.commands.cli import run as command
from latentmdp.errors import RepairWarning
from latentmdp.model.rows import sum_tolerance

P = np.array([[[[0.25, 0.75], [1.0, 0.0]], [[0.5, 0.5], [0.1, 0.9]]]] * 2)
R = np.array([[0.1, 0.0], [0.2, 0.3]])
GIVEN = dict(P=P, R=R, w=[0.5, 0.5], nu=[0.5, 0.5], horizon=2)


def build(**changes):
    return lm.LatentMDP.from_arrays(**GIVEN | changes)


def nearly(deviation, *places):
    """`P` whose rows at these places sum to 1 plus the deviation."""
    changed = P.copy()
    for place in places:
        changed[place] *= 1.0 + deviation
    return changed


def test_the_same_in_every_context():
    whole = build(R=np.tile(R, (2, 1, 1)), nu=[[0.5, 0.5]] * 2)
    assert build() == whole
    assert whole.replace(nu=[0.25, 0.75]).nu.tolist() == [[0.25, 0.75]] * 2
    row = np.repeat(np.arange(len(whole.indptr) - 1), np.diff(whole.indptr))
    m, s, a = np.unravel_index(row, whole.sizes)
    columns = (m, s, a, whole.next, whole.prob, whole.reward)
    assert lm.LatentMDP.from_rows(*columns, [0.5, 0.5], [0.5, 0.5], 2) == whole
    with pytest.raises(lm.ModelError, match=r"R must have the shape .* or \(2, 2\) if it is the"):
        build(R=R[:, :1])


def test_published_rows_are_divided_and_named():
    wrong = nearly(-3e-14, (1, 0, 1))
    with pytest.raises(lm.ModelError, match=r"P\[m=1, s=0, a=1\] must sum to 1; .*normalize=1e-6"):
        build(P=wrong)
    with pytest.warns(RepairWarning) as said:
        model = build(P=wrong, normalize=1e-6)
    assert len(said) == 1
    assert str(said[0].message) == (
        "1 distribution does not sum to 1 and was divided by the sum: first P[m=1, s=0, a=1], "
        f"which sums to {float(wrong[1, 0, 1].sum())!r}"
    )
    assert said[0].filename == __file__
    assert model == build()
    with pytest.warns(
        RepairWarning, match=r"^3 dis.*: first P\[m=0, s=1, a=0\].* 2e-07, of P\[m=1"
    ):
        build(P=nearly(1e-9, (0, 1, 0), (0, 1, 1)) * nearly(2e-7, (1, 1, 0)) / P.clip(1e-300),
              normalize=1e-6)  # fmt: skip


@pytest.mark.parametrize("limit", [1e-12, 1e-6, 1e-3])
def test_both_sides_of_the_limit(limit):
    with pytest.warns(RepairWarning):
        build(P=nearly(0.9 * limit, (0, 0, 0)), normalize=limit)
    with pytest.raises(lm.ModelError, match=f"normalize={limit:g} allows less"):
        build(P=nearly(1.2 * limit, (0, 0, 0)), normalize=limit)


def test_what_is_right_keeps_its_bits_and_says_nothing():
    exact = build()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for normalize in (1e-6, True, 0.0):
            assert build(normalize=normalize) == exact
        rounding = nearly(0.5 * float(sum_tolerance(2)), (0, 0, 0))
        assert build(P=rounding, normalize=True).prob[0] == rounding[0, 0, 0, 0]


def test_weights_of_any_sum():
    with pytest.warns(RepairWarning, match=r"first w, which sums to 4.0; .* of nu\[m=0\]"):
        model = build(w=[3, 1], nu=[2.0, 8.0], normalize=True)
    assert model.w.tolist() == [0.75, 0.25]
    assert model.nu.tolist() == [[0.2, 0.8]] * 2
    with pytest.warns(RepairWarning):
        counts = build(P=np.rint(P * 20), normalize=True)
    assert np.allclose(counts.P, P)
    with pytest.raises(
        lm.ModelError, match=r"w must sum to 1; it sums to 4\.0, and normalize=0\.001"
    ):
        build(w=[3, 1], normalize=1e-3)
    with pytest.raises(lm.ModelError, match=r"w must sum to 1; it sums to 0\.0"):
        build(w=[0, 0], normalize=True)
    with pytest.raises(lm.ModelError, match=r"w\[m=1\] must be at least 0"):
        build(w=[2, -1], normalize=True)
    with pytest.raises(lm.ModelError, match="must have outcomes in all contexts"):
        build(P=P * np.array([1, 0])[:, None, None, None], normalize=True)


@pytest.mark.parametrize("wrong", [-1e-9, 1.0, 2, np.nan, np.inf, "yes", None])
def test_normalize_is_a_small_number_or_a_truth_value(wrong):
    with pytest.raises(lm.ModelError, match="normalize must be False, True or how far"):
        build(normalize=wrong)


def test_unavailable_actions_repeat_repaired_rows():
    rng = np.random.default_rng(0)
    for _ in range(30):
        model = random_masked(rng, 2, 3, 3, 2)
        given = dict(w=model.w, nu=model.nu, horizon=model.H, max_return=None)
        given |= dict(observe_rewards=model.observe_rewards, discount=model.discount)
        with pytest.warns(RepairWarning):
            found = lm.LatentMDP.from_arrays(model.P * 3, model.R, normalize=True, **given)
        every = found.unmasked().P
        for s, a in np.argwhere(~found.allowed):
            assert (every[:, s, a] == every[:, s, found.substitute[s, a]]).all()
        assert np.allclose(found.P, model.P, rtol=1e-14)


@pytest.mark.parametrize("ending", ["npz", "json", "csv"])
def test_files_with_nearly_right_rows(tmp_path, capsys, ending):
    model = build()
    file = tmp_path / f"m.{ending}"
    lm.save(model, file)
    if ending == "npz":
        np.savez(file, **dict(np.load(file)) | {"P": nearly(3e-8, (0, 0, 0))})
    else:
        file.write_text(file.read_text().replace("0.25", "0.25000003"))
    with pytest.raises(lm.ModelError, match=r"m\..*P\[m=0, s=0, a=0\].* must sum to 1"):
        lm.load(file)
    with pytest.warns(RepairWarning):
        found = lm.load(file, normalize=1e-6)
    assert np.allclose(found.P, P, atol=1e-7)
    lm.save(found, tmp_path / "good.npz")
    assert lm.load(tmp_path / "good.npz") == found
    assert command(["show", str(file)]) == 2
    assert "--normalize-rows" in capsys.readouterr().err
    for words in (["show"], ["plan", "--json"], ["convert", str(file), str(tmp_path / "o.json")]):
        words = words if len(words) > 2 else [words[0], str(file), *words[1:]]
        with pytest.warns(RepairWarning):
            assert command([*words, "--normalize-rows"]) == 0


@pytest.mark.parametrize("ending", ["csv", "pomdp", "pomdpx"])
def test_files_printed_with_four_digits_on_the_command_line(tmp_path, capsys, ending):
    file = tmp_path / f"m.{ending}"
    lm.save(build(horizon=3, discount=0.5, observe_rewards=False), file)
    file.write_text(file.read_text().replace("0.25", "0.2501"))
    words = ["show", str(file), "--horizon", "3"]
    assert command(words) == 2
    assert "--normalize-rows, divides" in capsys.readouterr().err
    with pytest.warns(RepairWarning):
        assert command([*words, "--normalize-rows"]) == 0
    file.write_text(file.read_text().replace("0.2501", "0.253"))
    assert command([*words, "--normalize-rows"]) == 2


@pytest.mark.parametrize("ending", ["pomdp", "pomdpx"])
def test_pomdps_printed_with_three_digits(tmp_path, ending):
    """Their readers divide by sums that are off in the sixth digit; others must be allowed."""
    file = tmp_path / f"m.{ending}"
    lm.save(build(horizon=np.inf, discount=0.5, observe_rewards=False), file)
    model, text = lm.load(file), file.read_text()
    assert "0.25" in text
    file.write_text(text.replace("0.25", "0.253"))
    with pytest.raises(lm.ModelError, match=r"must sum to 1; .*normalize=1e-2 divides"):
        lm.load(file)
    with pytest.raises(lm.ModelError, match=r"normalize=0\.001 allows less"):
        lm.load(file, normalize=1e-3)
    with pytest.warns(RepairWarning, match="divided by the sum") as said:
        found = lm.load(file, normalize=1e-2)
    assert len(said) == 1
    assert np.allclose(found.P.sum(axis=-1), 1.0, rtol=1e-14)
    assert np.allclose(found.P, model.P, atol=3e-3)
    file.write_text(text.replace("0.25", "0.250001"))
    assert np.allclose(lm.load(file).P, model.P, atol=1e-6)
