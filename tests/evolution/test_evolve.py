"""CMA-ES by asking and telling: it climbs, and going on from its history is going on."""

import subprocess
import sys

import numpy as np
import pytest
import torch

from rl_lightning.errors import ConfigError
from rl_lightning.evolution.cmaes import CMAES
from rl_lightning.extras import pip_command

SHIFT = torch.tensor([0.5, -1.0, 2.0, 0.1])
STRETCH = torch.tensor([1.0, 10.0, 100.0, 1000.0])


def ellipsoid(members: torch.Tensor) -> torch.Tensor:
    """Highest, 0, at SHIFT; a thousand times steeper one way than another."""
    return -(STRETCH * (members - SHIFT).square()).sum(1)


def climb(search, generations: int, fitness=ellipsoid) -> None:
    for _ in range(generations):
        search.tell(fitness(search.ask()))


def begun(size, seed, **settings):
    search = CMAES(size, **settings)
    search.begin(seed)
    return search


def test_a_shifted_ellipsoid_is_climbed_to_its_top():
    search = begun(4, 0, popsize=12, sigma_init=0.5)
    climb(search, 120)
    assert torch.allclose(search.mean, SHIFT, atol=1e-3)


def test_higher_fitness_is_better():
    search = begun(3, 0, popsize=8, sigma_init=0.3)
    climb(search, 40, fitness=lambda members: members.sum(1))
    assert search.mean.sum() > 3.0


@pytest.mark.parametrize("after", [0, 1, 7])
def test_going_on_from_saved_state_gives_the_same_populations(after, tmp_path):
    search = begun(4, 3, popsize=8, sigma_init=0.4)
    climb(search, after)
    search.ask()  # a generation that was cut in the middle
    torch.save(search.state_dict(), tmp_path / "state.pt")
    again = begun(4, 99, popsize=8, sigma_init=0.4)
    again.load_state_dict(torch.load(tmp_path / "state.pt", weights_only=True))
    for _ in range(5):
        left, right = search.ask(), again.ask()
        assert torch.equal(left, right)
        search.tell(ellipsoid(left))
        again.tell(ellipsoid(right))
    assert torch.equal(search.mean, again.mean) and search.sigma == again.sigma


def test_asking_twice_asks_for_the_same_members():
    search = begun(2, 0, popsize=6)
    assert torch.equal(search.ask(), search.ask())


def test_the_global_generator_is_left_alone():
    np.random.seed(5)
    before = np.random.get_state()[1].copy()
    climb(begun(2, 0, popsize=6), 3, lambda m: m.sum(1))
    assert (np.random.get_state()[1] == before).all()


def test_fitness_that_is_no_number_is_the_worst():
    search = begun(2, 0, popsize=12, sigma_init=0.5)

    def fitness(members):
        value = -(members - 1.0).square().sum(1)
        return torch.where(members[:, 0] > 2.0, torch.nan, value)

    climb(search, 60, fitness)
    assert torch.allclose(search.mean, torch.ones(2), atol=0.05)


@pytest.mark.parametrize("given", [{"popsize": 2}, {"sigma_init": 0.0}])
def test_a_search_that_cannot_search_is_refused(given):
    with pytest.raises(ConfigError, match="CMAES needs"):
        CMAES(3, **given)


def test_a_missing_package_is_named():
    code = (
        "import sys; sys.modules['cma'] = None\n"
        "from rl_lightning.evolution.cmaes import CMAES\n"
        "from rl_lightning.errors import ConfigError\n"
        "try: CMAES(3).begin(0)\n"
        "except ConfigError as error: print(error)"
    )
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120).stdout
    assert pip_command("evolve") in told
