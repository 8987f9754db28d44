"""What docs say of `estimate={"w"}`: it loses optimism, which known weights keep."""

import pytest
from estimated_weights import least_margin, one_step

import latentmdp as lm
from latentmdp.learning import knowledge

RUNS, EPISODES = 10, 30


def test_frequencies_of_contexts_are_not_optimistic():
    given = [least_margin(one_step(), (), 1.0, seed, EPISODES) for seed in range(RUNS)]
    estimated = [least_margin(one_step(), ("w",), 1.0, seed, EPISODES) for seed in range(RUNS)]
    assert min(given) >= -1e-9
    assert sum(margin < -0.01 for margin in estimated) > RUNS // 2


@pytest.mark.parametrize("name", ["w", "nu"])
def test_people_are_told_where_they_choose(name):
    learner = lm.Learner(one_step(), "mvp", episodes=10, estimate={name})
    assert f"{name} estimated: beyond the theorem, not optimistic" in repr(learner)
    only_rewards = lm.Learner(one_step(), "mvp", episodes=10, estimate={"R"})
    assert "not optimistic" not in repr(only_rewards)
    for text in (lm.Learner.__doc__, knowledge.__doc__, lm.learn_env.__doc__):
        words = " ".join(text.split())
        assert re_says(words), words


def re_says(words):
    return any(found in words for found in ("lose optimism", "loses optimism"))
