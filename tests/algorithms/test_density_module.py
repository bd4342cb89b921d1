"""The density stage: statistics once, best weights with their calibration, patience, and what it tells."""

import json
from functools import partial
from types import SimpleNamespace

import pytest
import torch
from contracts.harness import differing, weights

from rl_lightning.algorithms.models.density import Density
from rl_lightning.errors import ConfigError
from rl_lightning.models.density import KDE, CalibratedDensity, RealNVP
from rl_lightning.models.dynamics.penalties import TanhPenalty
from rl_lightning.types import EnvSpec, Transitions

SPEC = EnvSpec("", (3,), action_kind="continuous", action_shape=(2,))
DISCRETE = EnvSpec("", (3,), action_kind="discrete", action_sizes=(4,))
SMALL = partial(RealNVP, num_couplings=4, hidden_dims=[32, 32])


def experience(count: int, seed: int, spec: EnvSpec = SPEC) -> Transitions:
    """The next observation follows from what was done, so that shuffled actions are to be seen."""
    g = torch.Generator().manual_seed(seed)
    obs = torch.randn(count, 3, generator=g) * torch.tensor([0.1, 1.0, 30.0])
    action = torch.rand(count, 2, generator=g) * 2 - 1
    move = action @ torch.tensor([[0.3, 1.0, 0.0], [0.0, -2.0, 60.0]])
    next_obs = 0.5 * obs + move + 0.02 * torch.randn(count, 3, generator=g)
    if spec is DISCRETE:
        action = torch.randint(4, (count,), generator=g)
    one = torch.ones(count)
    return Transitions(obs, action, next_obs[:, 0], next_obs, 0 * one, one, one, torch.arange(count))


@pytest.fixture
def data():
    return SimpleNamespace(train_rows=lambda: experience(8000, 0), val_rows=lambda: experience(4000, 1))


def stage(data, spec: EnvSpec = SPEC, **options) -> Density:
    torch.manual_seed(0)
    model = Density(spec, **{"density_model": SMALL, "lr": 3e-3} | options)
    model.data_source = data
    model.on_fit_start()
    return model


def learn(model: Density, updates: int, seed: int = 0) -> None:
    rows = model.data_source.train_rows()
    g = torch.Generator().manual_seed(seed)
    for _ in range(updates):
        place = torch.randint(len(rows.reward), (256,), generator=g)
        model.update(Transitions(*(None if field is None else field[place] for field in rows)))


def evaluate(model: Density) -> dict[str, float]:
    metrics = model.validate(model.data_source)
    model.on_validation(metrics)
    return metrics


def test_a_stage_learns_calibrates_and_reports(data):
    model = stage(data)
    first = evaluate(model)["eval/score"]
    learn(model, 250)
    second = evaluate(model)
    assert second["eval/score"] > first + 0.1
    report = model.test_report(data)
    json.dumps(report)
    assert report["eval/score"] == pytest.approx(second["eval/score"], abs=0.2)
    rates = report["false_positive_rate"]
    assert rates["1%"] == pytest.approx(0.01, abs=0.008) and rates["10%"] == pytest.approx(0.1, abs=0.03)
    aurocs = {name: found["auroc"] for name, found in report["ood"].items()}
    assert list(aurocs) == ["shuffled_actions", "noise_0.25", "noise_0.5", "noise_1"]
    assert (
        aurocs["shuffled_actions"] > 0.85 and aurocs["noise_0.25"] < aurocs["noise_0.5"] < aurocs["noise_1"]
    )
    assert report["ood"]["noise_1"]["below_threshold"]["5%"] > 0.5
    predicted = model.predict_rows(data.val_rows())
    assert predicted["score"].shape == (4000,) and predicted["below_threshold"].mean() == pytest.approx(
        0.01, abs=0.002
    )


def test_an_update_moves_the_learning_copy_alone(data):
    model = stage(data)
    before = weights(model)
    learn(model, 1)
    moved = differing(before, weights(model))
    assert moved == {f"model.net.{name}" for name, _ in model.model.net.named_parameters()} & moved
    assert moved and not any(p.requires_grad for p in model.best.parameters())
    before = weights(model)
    model.validate(data)
    model.test_report(data)
    assert not differing(before, weights(model))


def test_only_a_better_score_is_kept(data):
    model = stage(data)
    evaluate(model)
    learn(model, 30)
    evaluate(model)
    best, kept = model.best_score.item(), weights(model.best)
    with torch.no_grad():
        for weight in model.model.parameters():
            weight.add_(0.3)
    worse = evaluate(model)["eval/score"]
    assert worse < best == model.best_score.item()
    assert not differing(kept, weights(model.best))
    assert model.best.calibrated and model.stale == 1


def test_patience_and_the_rate_count_evaluations_without_a_better_score(data):
    model = stage(data, patience=4, lr_patience=2)
    (optimizer,) = model.raw_optimizers()
    rates = []
    for score in [1.0, 2.0, 1.5, 1.6, 2.5, 2.0, float("nan"), 2.5, 2.4]:
        assert not model.should_stop
        model.on_validation({"eval/score": score})
        rates.append(optimizer.param_groups[0]["lr"] / 3e-3)
    assert rates == pytest.approx([1, 1, 1, 0.5, 0.5, 0.5, 0.25, 0.25, 0.125])
    assert model.should_stop
    again = stage(data, patience=4, lr_patience=2)
    again.load_state_dict(model.state_dict())
    assert again.should_stop and again.best_score == 2.5


def test_statistics_are_taken_once(data):
    model = stage(data)
    scale = model.model.net.scale.clone()
    again = Density(SPEC, SMALL)
    again.load_state_dict(model.state_dict())
    again.data_source = None
    again.on_fit_start()
    assert torch.equal(again.model.net.scale, scale)


def test_kernels_need_no_updates(data):
    model = stage(data, density_model=partial(KDE, max_rows=2000))
    assert model.configure_optimizers() is None and model.update(experience(4, 0)) == {}
    assert not model.should_stop
    evaluate(model)
    assert model.should_stop and model.best.calibrated
    report = model.test_report(data)
    assert report["false_positive_rate"]["5%"] == pytest.approx(0.05, abs=0.02)
    assert report["ood"]["noise_1"]["auroc"] > 0.9


@pytest.mark.parametrize("recipe", [SMALL, partial(KDE, max_rows=500)])
def test_what_it_provides_is_its_best_copy(recipe, data):
    model = stage(data, density_model=recipe, density_of="obs_action_next_obs")
    learn(model, 3)
    evaluate(model)
    offer = model.exports()["density"]
    arguments = json.loads(json.dumps(offer.init_args))
    assert offer.class_path == "rl_lightning.models.density.calibrated.CalibratedDensity"
    made = CalibratedDensity(**arguments)
    state = model.state_dict()
    own = {k.removeprefix(offer.prefix): v for k, v in state.items() if k.startswith(offer.prefix)}
    made.load_state_dict(own)
    x = model.inputs(data.val_rows())
    assert torch.equal(made.score(x), model.best.score(x))
    penalty = TanhPenalty("x", percentile=5.0)
    penalty.use(made)
    rows = data.val_rows()
    step = SimpleNamespace(next_obs=rows.next_obs, reward=rows.reward, spread=None)
    assert penalty(rows.obs, rows.action, step)[1].double().mean() == pytest.approx(0.05, abs=0.001)


def test_discrete_actions(data):
    data = SimpleNamespace(
        train_rows=lambda: experience(500, 0, DISCRETE), val_rows=lambda: experience(500, 1, DISCRETE)
    )
    model = stage(data, DISCRETE)
    learn(model, 2)
    evaluate(model)
    assert model.test_report(data)["ood"]["noise_1"]["auroc"] > 0.5


def test_wrong_arguments_are_told():
    pixels = EnvSpec("e", (3, 8, 8), obs_dtype="uint8", action_kind="discrete", action_sizes=(2,))
    with pytest.raises(ConfigError, match="flat observations"):
        Density(pixels)
    with pytest.raises(ConfigError, match="at least 1"):
        Density(SPEC, patience=0)
    with pytest.raises(ConfigError, match="choose one of"):
        Density(SPEC, density_of="state")
