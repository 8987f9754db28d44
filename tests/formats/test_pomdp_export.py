"""Models written as POMDPs and read again: the same best value, and row by row the same."""

import os

import brute
import numpy as np
import pomdp_brute
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from strategies import models, random_model

import latentmdp as lm
from latentmdp.formats.pomdp.export import Export, plain_names
from latentmdp.formats.pomdp.pomdpx import read_pomdpx
from latentmdp.formats.pomdp.text import read_pomdp_text
from latentmdp.formats.pomdp.text_write import first_state_is_known

READ = {".pomdpx": read_pomdpx, ".pomdp": read_pomdp_text}


def steps(model, ending):
    """How long an episode of the written POMDP is: `.pomdp` may show the first state first."""
    return model.H + (ending == ".pomdp" and not first_state_is_known(model))


@pytest.mark.parametrize("ending", READ)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
@given(model=models(M=2, S=2, A=2, H=3))
def test_the_best_value_is_kept(tmp_path, ending, model):
    """By an oracle for POMDPs from what was written, by one for latent MDPs from what is read."""
    file = tmp_path / f"model{ending}"
    lm.save(model, file)
    assert os.listdir(tmp_path) == [file.name]
    expected = brute.best_history_value(model)
    horizon = steps(model, ending)
    again = lm.load(file, horizon=horizon)
    assert brute.best_history_value(again) == pytest.approx(expected, abs=1e-9)
    assert again.discount == model.discount
    written = READ[ending](file)
    if written.S <= 16:
        assert pomdp_brute.best_value(written, horizon) == pytest.approx(expected, abs=1e-9)
        assert pomdp_brute.best_value(written, horizon + 1) == pytest.approx(expected, abs=1e-9)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
@given(model=models(M=3, S=4, A=3, H=3))
def test_rows_are_the_same_up_to_naming(tmp_path, model):
    lm.save(model, tmp_path / "m.pomdpx")
    again = lm.load(tmp_path / "m.pomdpx", horizon=model.H)
    export, H = Export(model), model.H
    assert again.sizes == (model.M, len(export.looks) * (H + 1), model.A)
    for m, v, a, row in export.rows():
        expected = list(export.outcomes(row))
        for t in range(H):
            k = (m * again.S + v * (H + 1) + t) * model.A + a
            part = slice(again.indptr[k], again.indptr[k + 1])
            found = sorted(zip(again.next[part], again.prob[part], again.reward[part], strict=True))
            expect = sorted((to * (H + 1) + t + 1, p, r) for to, p, r in expected)
            assert [x[:2] for x in found] == [x[:2] for x in expect]  # to the last bit
            assert np.allclose([x[2] for x in found], [x[2] for x in expect], rtol=1e-12)
    assert np.allclose(again.w, model.w, rtol=1e-15)
    nu = np.zeros((model.M, len(export.looks), H + 1))
    nu[:, export.first, 0] = model.nu
    of_weight = model.w > 0.0
    assert np.allclose(again.nu[of_weight], nu.reshape(model.M, -1)[of_weight], rtol=1e-12)


@pytest.mark.parametrize("ending", READ)
def test_names_are_written(tmp_path, ending):
    model = lm.LatentMDP.from_arrays(
        [[[[0, 1], [1, 0]], [[1, 0], [0, 1]]]] * 2, [[[0, 0.1]] * 2, [[0.2, 0]] * 2], [0.5, 0.5],
        [[1, 0]] * 2, 2, observe_rewards=False, state_names=("dry & low", "wet"),
        action_names=("do it", "T"), context_names=("7th", "7th?"),
    )  # fmt: skip
    lm.save(model, tmp_path / f"m{ending}")
    again = lm.load(tmp_path / f"m{ending}", horizon=2)
    assert again.action_names == ("do_it", "T_1")
    if ending == ".pomdpx":
        assert again.context_names == ("m_7th", "m_7th_")
        assert again.state_names[0] == "dry___low, t0"
    else:
        assert again.context_names == ("m_7th-dry___low-t0", "m_7th_-dry___low-t0")
        assert "wet-t1" in again.state_names
    policy = lm.PolicyGraph.from_table(np.zeros((2, again.S), dtype=int))
    first = lm.PolicyGraph.from_table([[0, 0], [0, 0]])
    assert lm.evaluate(again, policy).value == lm.evaluate(model, first).value


@given(st.lists(st.text(max_size=4), max_size=8))
def test_plain_names_are_different_and_plain(names):
    plain = plain_names(tuple(names), "s", len(names))
    assert len(set(plain)) == len(names)
    assert all(name.isascii() and name.replace("_", "a").isalnum() for name in plain)
    assert all(name[0].isalpha() for name in plain)


def test_what_is_left_out_is_said(tmp_path):
    from latentmdp.formats import not_held

    model = lm.make("maze:size=2,goals=2,horizon=3")
    assert not_held(model, tmp_path / "m.pomdpx") == ["layout"]
    units = lm.make("garnet").replace(max_return=None, horizon=50).normalized()
    assert not_held(units, tmp_path / "m.pomdp") == ["units"]


def test_too_many_lines_are_refused_before_they_are_written(tmp_path, monkeypatch):
    monkeypatch.setattr("latentmdp.formats.pomdp.text_write.MOST_LINES", 100)
    with pytest.raises(lm.ModelError, match=r"a \.pomdpx file is shorter"):
        lm.save(lm.make("garnet:horizon=50"), tmp_path / "m.pomdp")
    assert os.listdir(tmp_path) == []


def test_planning_on_a_file_read_back(tmp_path):
    """Observed rewards that tell contexts apart are readings of the POMDP."""
    model = random_model(np.random.default_rng(5), M=3, S=3, A=2, H=3, observe=True)
    lm.save(model, tmp_path / "m.pomdpx")
    plans = [lm.plan(x, gap=None) for x in (model, lm.load(tmp_path / "m.pomdpx", horizon=model.H))]
    assert plans[1].lower == pytest.approx(plans[0].lower, abs=1e-9)
    assert plans[1].upper == pytest.approx(plans[0].upper, abs=1e-9)
