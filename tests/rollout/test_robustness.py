"""A policy behind noise: what is played, what is compared, and how it is told."""

import pytest

from rl_lightning.envs.make import EnvConfig
from rl_lightning.errors import ConfigError
from rl_lightning.rollout.evaluate import evaluate
from rl_lightning.rollout.robustness import NoiseRow, cvar, noise_table, robustness

PENDULUM = EnvConfig("Pendulum-v1", max_episode_steps=40)
CART = EnvConfig("CartPole-v1", max_episode_steps=60)


class Player:
    """Acts by a fixed rule and remembers the envs it was given."""

    def __init__(self, act):
        self.act, self.given = act, []

    def run_episodes(self, envs, episodes, seed, max_steps=None):
        self.given.append((envs.num_envs, seed))
        return evaluate(self.act, lambda n: (), envs, episodes, seed)


def balance(obs, carry, generator, mask=None):
    return (obs[:, 2] + 0.3 * obs[:, 3] > 0).long(), carry


def swing(obs, carry, generator, mask=None):
    return (-obs[:, 2:3] / 8).clamp(-1, 1), carry


def test_every_cell_is_played_from_the_same_seed_and_zero_noise_only_once():
    player = Player(balance)
    rows = robustness(player, CART, (0, 0.5, 1.0), (0.0, 0.2), ("observations", "both"), episodes=5, seed=5)
    assert [(r.kind, r.rate, r.scale) for r in rows] == [
        ("none", 0.0, 0.0),
        ("observations", 0.5, 0.2),
        ("observations", 1.0, 0.2),
        ("both", 0.5, 0.2),
        ("both", 1.0, 0.2),
    ]
    assert player.given == [(5, 5)] * 5
    assert all(row.episodes == 5 and row.cvar <= row.mean and row.low <= row.mean <= row.high for row in rows)


def test_strong_noise_hurts_and_weak_noise_does_not():
    rows = robustness(Player(balance), CART, (1.0,), (1e-6, 3.0), ("observations",), episodes=5)
    clean, weak, strong = (row.mean for row in rows)
    assert clean == weak == 60.0 and strong < 40.0


def test_one_seed_one_table():
    first, again = (robustness(Player(swing), PENDULUM, (1.0,), (0.3,), episodes=2, seed=1) for _ in range(2))
    assert first == again and first[0] != first[1]


def test_scales_are_shares_of_the_datas_spread_where_it_is_given():
    options = {"rates": (1.0,), "scales": (0.5,), "episodes": 2}
    silent = robustness(Player(swing), PENDULUM, stds=[0.0, 0.0, 0.0], kinds=("observations",), **options)
    assert silent[1].mean == silent[0].mean and silent[1].relative
    unit = robustness(Player(swing), PENDULUM, stds=[1.0, 1.0, 1.0], kinds=("observations",), **options)
    plain = robustness(Player(swing), PENDULUM, kinds=("observations",), **options)
    assert unit[1].mean == plain[1].mean and not plain[1].relative
    actions = robustness(Player(swing), PENDULUM, stds=[1.0, 1.0, 1.0], kinds=("actions",), **options)
    assert not actions[1].relative


def test_the_noise_of_the_config_itself_does_not_count():
    from rl_lightning.envs.wrappers.env_noise import EnvNoise

    noisy = EnvConfig("Pendulum-v1", max_episode_steps=40, noise=EnvNoise(noise_prob=1.0, noise_std=1.0))
    assert (
        robustness(Player(swing), noisy, (), (), episodes=2)[0]
        == robustness(Player(swing), PENDULUM, (), (), episodes=2)[0]
    )


def test_wrong_arguments_are_refused():
    with pytest.raises(ConfigError, match="rewards"):
        robustness(Player(balance), CART, kinds=("rewards",))
    with pytest.raises(ConfigError, match="episodes"):
        robustness(Player(balance), CART, episodes=0)


@pytest.mark.parametrize(
    ("values", "expected"),
    [(range(20), 0.5), (range(10), 0.0), (range(11), 0.5), ([7.0], 7.0), ([3.0, -1.0, 2.0], -1.0)],
)
def test_cvar_is_the_mean_of_the_worst_tenth(values, expected):
    assert cvar([float(v) for v in values]) == pytest.approx(expected)


def test_the_table_as_text():
    clean = NoiseRow("none", 0.0, 0.0, False, 20, 200.0, 150.0, 190.0, 210.0, 40.0)
    noisy = NoiseRow("observations", 1.0, 0.3, True, 20, 50.0, 10.0, 40.0, 60.0, 12.5)
    lines = noise_table([clean, noisy]).splitlines()
    assert len({len(line) for line in lines}) == 1 and len(lines) == 3
    assert "0.3 std" in lines[2] and "25%" in lines[2] and "100%" in lines[1]
    assert "%" not in noise_table([clean._replace(mean=-5.0), noisy]).splitlines()[2], (
        "no share of a negative return"
    )


def test_noise_on_discrete_actions_has_no_scale():
    """They are drawn anew at a rate; rows of other scales would be the same again."""
    rows = robustness(Player(balance), CART, (0.5, 1.0), (0.1, 0.3), ("actions",), episodes=2)
    assert [(row.kind, row.rate) for row in rows] == [("none", 0.0), ("actions", 0.5), ("actions", 1.0)]
    assert noise_table(rows).splitlines()[2].split()[:3] == ["actions", "0.5", "-"]
    assert rows[0].low is None, "two episodes have no interval"
    assert noise_table(rows).splitlines()[1].split()[3:5] == [f"{rows[0].mean:.2f}", "-"]
