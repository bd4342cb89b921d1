"""Diffusion-DICE: who moves when, what may be changed after training, and numbers that must stay finite."""

from functools import partial

import pytest
import torch
from algorithms.diffusion_toys import artifact, rows
from contracts.families.diffusion import behavior_artifact

from rl_lightning.algorithms import BehaviorDiffusion, DiceGuidance
from rl_lightning.errors import ConfigError
from rl_lightning.functional.dice_losses import ratio_of
from rl_lightning.functional.diffusion_samplers import DPMSolver
from rl_lightning.models.diffusion.candidate_filters import MaxFilter, SoftmaxFilter
from rl_lightning.nn.denoisers.row_denoisers import MLPDenoiser
from rl_lightning.types import EnvSpec, Transitions

SPEC = EnvSpec("two", (3,), action_shape=(2,))
SMALL = {
    "critic_hidden_dims": [16],
    "guide_hidden_dims": [16, 16],
    "num_noise_samples": 2,
    "sampler": DPMSolver(4),
}


@pytest.fixture(scope="module")
def behavior(tmp_path_factory):
    torch.manual_seed(0)
    model = BehaviorDiffusion(
        SPEC, partial(MLPDenoiser, hidden_dims=[16], time_embed_dim=8), normalize_obs=False
    )
    return artifact(model, tmp_path_factory.mktemp("behavior"))


def made(behavior, **arguments):
    torch.manual_seed(0)
    model = DiceGuidance(SPEC, behavior, **{**SMALL, **arguments})
    model.setup("fit")
    return model


def batch(count=32, reward=None, **changes):
    torch.manual_seed(1)
    ones = torch.ones(count)
    reward = torch.randn(count) if reward is None else reward
    found = Transitions(
        torch.randn(count, 3), torch.rand(count, 2) * 2 - 1, reward, torch.randn(count, 3), torch.zeros(count),
        0.99 * ones, ones, torch.arange(count),
    )  # fmt: skip
    return found._replace(**changes)


def state(model):
    return {name: value.detach().clone() for name, value in model.state_dict().items()}


def test_updates_come_in_the_papers_order_and_see_what_went_before(behavior):
    """V, then Q on the new V, the ensemble on the same target, the slow copies, and the guide with both new."""
    model = made(behavior, num_selection_critics=3)
    optimizers = model.raw_optimizers()
    names = {id(o): name for o, name in zip(optimizers, ("value", "q", "selection_q", "guide"), strict=True)}
    seen = []

    def noted(optimizer, loss, clip=None):
        before = state(model)
        grads = torch.autograd.grad(loss, [p for g in optimizer.param_groups for p in g["params"]])
        for p, grad in zip((p for g in optimizer.param_groups for p in g["params"]), grads, strict=True):
            p.grad = grad
        optimizer.step()
        moved = {
            name.split(".")[0] for name, value in state(model).items() if not torch.equal(value, before[name])
        }
        seen.append((names[id(optimizer)], moved, before))

    model.stepper = noted
    start = state(model)
    model.update(batch())
    assert [name for name, _, _ in seen] == ["value", "q", "selection_q", "guide"]
    assert [moved for _, moved, _ in seen] == [{"value"}, {"q"}, {"selection_q"}, {"guide"}]
    key = next(name for name in start if name.startswith("q_target"))
    assert torch.equal(seen[2][2][key], start[key]), "the slow critics wait for the ensemble"
    assert not torch.equal(seen[3][2][key], start[key]), "and have moved before the guide learns"


def test_losses_by_hand(behavior):
    """The first update, written out from the specification."""
    model = made(behavior, alpha=0.3, gamma=0.9)
    rows_ = batch()._replace(discount=torch.full((32,), 0.9))
    with torch.no_grad():
        q = model.q_target(rows_.obs, rows_.action).amin(0)
        v = model.value(rows_.obs)[:, 0]
        y = (q - v) / 0.3
        dual = torch.where(y >= 0, y**2 / 4 + y, y.exp() - 1).mean() + (v / 0.3).mean()
        before = model.q(rows_.obs, rows_.action)
    metrics = model.update(rows_)
    with torch.no_grad():
        target = rows_.reward + 0.9 * model.value(rows_.next_obs)[:, 0]  # by the new value
        critic = ((target - before[0]) ** 2 + (target - before[1]) ** 2).mean()
        advantage = (model.q_target(rows_.obs, rows_.action).amin(0) - model.value(rows_.obs)[:, 0]) / 0.3
    assert float(metrics["train/value_loss"]) == pytest.approx(float(dual), rel=1e-5)
    assert float(metrics["train/critic_loss"]) == pytest.approx(float(critic), rel=1e-5)
    assert float(metrics["train/ratio_mean"]) == pytest.approx(float(ratio_of(advantage).mean()), rel=1e-5)


def test_the_behaviour_is_frozen_and_no_part_of_the_checkpoint(behavior):
    model = made(behavior)
    before = state(model.behavior)
    model.update(batch())
    assert all(torch.equal(value, before[name]) for name, value in state(model.behavior).items())
    assert not any(p.requires_grad or p.grad is not None for p in model.behavior.parameters())
    assert not any("behavior" in name for name in model.state_dict())


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
@pytest.mark.parametrize("mode", [torch.inference_mode, torch.no_grad, torch.enable_grad])
def test_acts_in_any_mode_inside_the_bounds(behavior, precision, mode):
    model = made(behavior, num_samples=5, guidance_scale=30.0, sampling_dtype=precision)
    with mode():
        obs = torch.randn(4, 3)
        action, _ = model.act(obs, (), torch.Generator().manual_seed(0))
        again, _ = model.act(obs, (), torch.Generator().manual_seed(0))
    assert action.shape == (4, 2) and action.abs().max() <= 1.0 and torch.equal(action, again)


def test_critics_judge_what_would_be_played(behavior, monkeypatch):
    """Candidates are clipped before they are valued."""
    model = made(behavior, num_samples=6, guidance_scale=50.0)
    seen = []
    judge = DiceGuidance.candidate_q
    monkeypatch.setattr(
        DiceGuidance, "candidate_q", lambda self, obs, action: seen.append(action) or judge(self, obs, action)
    )
    model.act(torch.randn(3, 3), (), torch.Generator().manual_seed(0))
    assert seen[0].shape == (3, 6, 2) and seen[0].abs().max() <= 1.0


def test_one_candidate_without_guidance_is_the_behaviour(behavior):
    model = made(behavior, num_samples=1, guidance_scale=0.0)
    obs = torch.randn(4, 3)
    action, _ = model.act(obs, (), torch.Generator().manual_seed(3))
    alone = model.behavior.sample(obs, 1, model.solver_steps, torch.Generator().manual_seed(3))[:, 0].clamp(
        -1, 1
    )
    assert torch.equal(action, alone)


def test_max_takes_the_best_and_softmax_draws_by_value():
    q = torch.tensor([[[0.0, 1.0, 3.0]], [[0.0, 5.0, 1.0]]])  # two critics, one row, three candidates
    draws = torch.Generator().manual_seed(0)
    assert MaxFilter("mean").choose(q, draws).tolist() == [1]
    assert MaxFilter("min").choose(q, draws).tolist() == [1] and MaxFilter("first").choose(
        q, draws
    ).tolist() == [2]
    assert MaxFilter("mean", pessimism=3.0).choose(q, draws).tolist() == [0]
    with pytest.raises(ConfigError, match="taken off a mean"):
        SoftmaxFilter(pessimism=3.0)  # its values are the first critic's
    many = q[:1].expand(1, 20_000, 3)
    found = torch.bincount(SoftmaxFilter(2.0).choose(many, draws), minlength=3) / 20_000
    assert torch.allclose(found, (q[0, 0] / 2).softmax(-1), atol=0.02)


ROWS = {name: column for name, column in batch()._asdict().items() if column is not None}
NASTY = {
    "tiny alpha": ({"alpha": 1e-8}, {}),
    "huge rewards": ({}, {"reward": torch.full((32,), 1e6)}),
    "constant rewards": ({}, {"reward": torch.zeros(32)}),
    "one action": ({}, {"action": torch.zeros(32, 2)}),
    "one row": ({}, {name: column[:1].repeat(32, *[1] * (column.dim() - 1)) for name, column in ROWS.items()}),
    "all over": ({}, {"terminated": torch.ones(32)}),
}  # fmt: skip


@pytest.mark.parametrize("name", NASTY)
def test_losses_and_actions_stay_finite(behavior, name):
    arguments, changes = NASTY[name]
    model = made(behavior, lr=1e-2, num_samples=2, max_grad_norm=10.0, **arguments)
    for _ in range(30):
        metrics = model.update(batch()._replace(**changes))
    assert all(torch.isfinite(value).all() for value in metrics.values()), metrics
    assert all(torch.isfinite(p).all() for p in model.parameters())
    assert torch.isfinite(model.act(torch.randn(4, 3), (), None)[0]).all()


def test_a_guide_far_off_comes_back(behavior):
    """exp(-g) would overflow at first."""
    model = made(behavior, lr=1e-1, max_grad_norm=1.0)
    with torch.no_grad():
        model.guide.last.bias.fill_(-200.0)
    first = model.update(batch())["train/guide_mean"]
    for _ in range(300):
        last = model.update(batch())["train/guide_mean"]
    assert first < -150 and last > first + 20


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        ({"alpha": 0.0}, "alpha"),
        ({"num_samples": 0}, "num_samples"),
        ({"num_noise_samples": 0}, "num_noise_samples"),
        ({"guidance_scale": -1.0}, "guidance_scale"),
        ({"max_ratio": 0.0}, "max_ratio"),
    ],
)
def test_bad_settings_are_refused(arguments, word):
    with pytest.raises(ConfigError, match=word):
        DiceGuidance(SPEC, "none", **arguments)


def test_a_behaviour_of_another_task_is_refused(tmp_path):
    model = DiceGuidance(SPEC, behavior_artifact(tmp_path / "other"), **SMALL)
    with pytest.raises(ConfigError, match="1 observations and 1 actions; the data have 3 and 2"):
        model.setup("fit")


def test_pictures_and_discrete_actions_are_refused():
    with pytest.raises(ConfigError, match="flat"):
        BehaviorDiffusion(EnvSpec("x", (3, 8, 8), "uint8", action_shape=(2,)))
    with pytest.raises(ConfigError, match="continuous"):
        BehaviorDiffusion(EnvSpec("x", (3,), action_kind="discrete", action_sizes=(2,)))


def test_two_arms(tmp_path):
    """r in {0, 1}, p = 1/2, alpha 1: the learned value is 0.3748 and the mean ratio 1."""
    torch.manual_seed(0)
    action = torch.where(torch.rand(512, 1) < 0.5, -0.5, 0.5).repeat(1, 2)
    data = rows(action, (action[:, 0] > 0).float())
    spec = EnvSpec("bandit", (1,), action_shape=(2,))
    place = artifact(
        BehaviorDiffusion(spec, partial(MLPDenoiser, hidden_dims=[8], time_embed_dim=4), normalize_obs=False),
        tmp_path / "b",
    )
    model = DiceGuidance(
        spec,
        place,
        alpha=1.0,
        critic_hidden_dims=[32],
        guide_hidden_dims=[8],
        num_noise_samples=1,
        lr=1e-2,
        tau=0.1,
    )
    model.setup("fit")
    for _ in range(400):
        metrics = model.update(data)
    share = float((action[:, 0] > 0).float().mean())
    value = float(model.value(torch.zeros(1, 1)))
    wanted = share * (1 + (1 - value) / 2) + (1 - share) * torch.tensor(-value).exp()
    assert float(wanted) == pytest.approx(1.0, abs=0.02)
    assert value == pytest.approx(0.37482, abs=0.05)
    assert float(metrics["train/ratio_mean"]) == pytest.approx(1.0, abs=0.02)
