"""Control through a learned ensemble, and the film of a dream."""

import numpy as np
import pytest
import torch
from contracts.artifacts import FOLDER, dynamics_artifact, policy_artifact, target_file
from contracts.cases import BY_NAME
from contracts.harness import bare

from rl_lightning.algorithms import EnsembleMPC
from rl_lightning.datamodules.offline_data import OfflineData
from rl_lightning.envs.termination import NoTermination, Termination
from rl_lightning.errors import ConfigError
from rl_lightning.models.dynamics.ensemble_dynamics import ModelStep
from rl_lightning.planning.mpc import ensemble_score, explores
from rl_lightning.planning.planners import CEM, MPPI
from rl_lightning.rollout.video import record_episode, side_by_side
from rl_lightning.types import EnvSpec

SPEC = EnvSpec("x", (1,), action_shape=(1,))
PLANNER = MPPI(horizon=3, num_samples=64, num_elites=8, iterations=4, num_pi_trajs=0)


class Line:
    """A point that moves by half its action; being at 0 pays best; it is unsure where it is positive."""

    obs_dim = action_dim = 1

    def step(self, obs, action, generator, spread=False):
        moved = obs + 0.5 * action
        doubt = moved[:, 0].clamp(min=0.0) if spread else None
        return ModelStep(moved, -moved[:, 0].square(), doubt)

    def to(self, device):
        return self


class Beyond(Termination):
    def is_terminal(self, next_obs):
        return next_obs[..., 0] > 0.9


def scored(actions, obs=0.5, doubt=0.0, termination=None, gamma=0.9):
    draw = torch.Generator().manual_seed(0)
    score = ensemble_score(Line(), torch.tensor([[obs]]), termination or NoTermination(), gamma, draw, doubt)
    return score(torch.tensor(actions).reshape(1, 1, -1, 1)).item()


def test_scores_by_hand():
    assert scored([-1.0, 1.0]) == pytest.approx(-0.0 - 0.9 * 0.25)
    assert scored([1.0, 1.0]) == pytest.approx(-1.0 - 0.9 * 2.25)
    assert scored([1.0, 1.0], termination=Beyond()) == pytest.approx(-1.0), "nothing is earned after the end"
    assert scored([1.0, -1.0], doubt=2.0) == pytest.approx(-1.0 - 2.0 + 0.9 * (-0.25 - 1.0))


@pytest.mark.parametrize(
    "planner", [PLANNER, CEM(horizon=3, num_samples=64, num_elites=8, iterations=4, min_std=0.02)]
)
def test_the_best_action_through_the_model_is_taken(planner):
    agent = EnsembleMPC(SPEC, "nowhere", planner=planner, termination=NoTermination())
    agent.__dict__["dynamics"] = Line()
    obs = torch.tensor([[0.3], [-0.4]])
    action, carry = agent.act(obs, agent.initial_carry(2), None)
    assert torch.allclose(action, -2 * obs, atol=0.25)
    again, _ = agent.act(obs, agent.initial_carry(2), None)
    assert torch.equal(action, again) and carry[0].shape == (2, 3, 1)


def test_an_ensemble_and_a_proposing_policy_from_products():
    dynamics, policy = (
        dynamics_artifact(FOLDER / "proposed-dynamics"),
        policy_artifact(FOLDER / "proposed-policy"),
    )
    data = OfflineData(target_file(FOLDER / "mpc.npz"))
    planner = MPPI(horizon=2, num_samples=12, num_elites=4, iterations=2, num_pi_trajs=3)
    agent = EnsembleMPC(
        data.spec._replace(env_id="x"),
        dynamics,
        policy,
        planner,
        uncertainty_penalty=0.5,
        termination=NoTermination(),
    )
    agent.setup("fit")
    action, _ = agent.act(torch.zeros(3, 1), agent.initial_carry(3), torch.Generator().manual_seed(0))
    assert action.shape == (3, 1) and action.abs().max() <= 1.0
    assert not list(agent.parameters()) and agent.update(None) == {}
    other = EnsembleMPC(
        EnvSpec("y", (4,), action_shape=(1,)), dynamics, planner=PLANNER, termination=NoTermination()
    )
    with pytest.raises(ConfigError, match="dynamics of 1 observations"):
        other.setup("fit")


def test_what_cannot_be_planned_is_refused():
    with pytest.raises(ConfigError, match=r"needs policy"):
        EnsembleMPC(SPEC, "x", planner=MPPI(), termination=NoTermination())
    with pytest.raises(ConfigError, match="not be negative"):
        EnsembleMPC(SPEC, "x", uncertainty_penalty=-1.0, termination=NoTermination())
    with pytest.raises(ConfigError, match="continuous actions"):
        EnsembleMPC(EnvSpec("x", (1,), action_kind="discrete", action_sizes=(2,)), "x")


def test_the_film_shows_game_reconstruction_and_dream():
    run = bare(BY_NAME["evolve-dream"])
    run.model.setup("fit")
    env = run.data.render_env()
    frames, fps = record_episode(run.model, env, seed=0, max_steps=6)
    env.close()
    assert len(frames) == 6 and fps == 15
    assert frames[0].shape == (256, 3 * 256 + 2 * 4, 3) and frames[0].dtype == np.uint8
    assert not np.array_equal(frames[0][:, 260:516], frames[0][:, :256]), "a picture of its own"
    assert not np.array_equal(frames[4][:, 520:], frames[1][:, 520:]), "the dream goes on"


def test_pictures_of_other_sizes_are_laid_beside_each_other():
    big, small = np.zeros((8, 8, 3), np.uint8), np.full((4, 6, 3), 9, np.uint8)
    joined = side_by_side([big, small], gap=2)
    assert joined.shape == (8, 8 + 2 + 12, 3)
    assert (joined[:, 8:10] == 255).all() and (joined[:, 10:] == 9).all()


@pytest.mark.parametrize("name", ["tdmpc", "tdmpc2"])
def test_an_evaluated_plan_is_searched_anew_and_adds_no_noise(name):
    """The originals draw the search's candidates afresh in evaluation; fixed numbers always look at the same plans."""
    case = BY_NAME[name]
    model = case.model(case.data().spec).eval()
    torch.manual_seed(0)
    obs, carry = torch.randn(1, *model.spec.obs_shape).repeat(2, 1), model.initial_carry(2)
    draw = model.evaluation_draw(0)
    first, second = (model.act(obs, carry, draw)[0] for _ in range(2))
    assert not torch.equal(first, second), "every step has numbers of its own"
    again = model.act(obs, carry, model.evaluation_draw(0))[0]
    assert torch.equal(first, again), "and a seed repeats them"
    assert torch.equal(model.act(obs, carry, None)[0], model.act(obs, carry, None)[0])
    assert explores(torch.Generator()) and not explores(draw) and not explores(None)


@pytest.mark.parametrize("name", ["tdmpc", "tdmpc2", "tdmpc2-episodic"])
def test_each_env_starts_from_its_own_last_plan(name):
    run = bare(BY_NAME[name])
    for _ in range(2):
        run.learn(run.block())
    obs = torch.randn(3, *run.data.spec.obs_shape, generator=torch.Generator().manual_seed(0))
    _, carry = run.model.act(obs, run.model.initial_carry(3), None)
    assert carry[0].shape == (3, 2, run.data.spec.action_dim) and carry[0].abs().sum() > 0
    before, _ = run.model.act(obs, carry, None)
    other = carry[0].clone()
    other[0] = 0.9
    after, _ = run.model.act(obs, (other,), None)
    assert torch.equal(before[1:], after[1:]), "one env's plan reached another"
    again, _ = run.model.act(obs, carry, None)
    assert torch.equal(before, again), "the same question has the same answer"
