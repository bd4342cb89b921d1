"""The table itself."""

from contracts.case import made_of
from contracts.cases import BY_NAME, CASES

from rl_lightning import algorithms
from rl_lightning.algorithms import ModelModule, PolicyModule, RLModule


def test_every_algorithm_has_a_row():
    exported = {getattr(algorithms, name) for name in algorithms.__all__}
    assert exported - {RLModule, PolicyModule, ModelModule} == {made_of(case.model)[0] for case in CASES}


def test_rows_have_names_of_their_own():
    assert len(BY_NAME) == len(CASES)


def test_what_acts_and_is_trained_in_an_env_learns_it():
    """A row without a toy stands beside one of the same algorithm that has one, or models, or only plays."""
    proven = {made_of(case.model)[0] for case in CASES if case.toy}
    unproven = {made_of(case.model)[0].__name__ for case in CASES if case.optimizers} - {
        kind.__name__ for kind in proven
    }
    models = {"Density", "Dynamics", "FQE", "MDNRNN", "NextFrame", "RewardModel", "VAE"}
    planned = {
        "PlaNet",
        "TDMPC",
        "TDMPC2",
        "DiceGuidance",
        "COMBO",
        "MOBILE",
    }  # taught their toys in tests of their own
    assert unproven == models | planned
