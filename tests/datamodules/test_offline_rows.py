"""Recorded rows: what is held out, what a batch is made of, and what imagined rows are mixed in."""

import hashlib
import json
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from contracts.artifacts import FOLDER, dynamics_artifact, target_file

from rl_lightning.algorithms import BC, BCQ, FQE, IQL, SAC, TD3_BC, Density, Dynamics, ReBRAC
from rl_lightning.clock.phases import PhaseCursor, parse_phases
from rl_lightning.clock.run_clock import RunConfig
from rl_lightning.datamodules.model_rollout_data import ModelRolloutData
from rl_lightning.datamodules.offline_data import OfflineData
from rl_lightning.datamodules.online_data import OnlineData
from rl_lightning.envs.termination import NoTermination
from rl_lightning.errors import ConfigError, DataError, ResumeError
from rl_lightning.models.density import RealNVP
from rl_lightning.models.density.calibrated import CalibratedDensity
from rl_lightning.models.described import describe
from rl_lightning.models.dynamics.penalties import NoPenalty, Penalty, TanhPenalty
from rl_lightning.replay.segments import SegmentStore
from rl_lightning.trainer.contract import check_partners

FILE = target_file(FOLDER / "rows.npz")
MODEL = dynamics_artifact(FOLDER / "model")


def actor(obs, carry, generator, mask=None):
    return torch.tanh(torch.randn(len(obs), 1, generator=generator)), carry


def ready(cls=OfflineData, seed=0, updates=1000, **given):
    data = cls(dataset=given.pop("dataset", FILE), **given)
    data.configure(RunConfig(updates=updates), seed)
    here = torch.device("cpu")
    data.agent = SimpleNamespace(
        gamma=0.9,
        n_step=1,
        ensemble_size=given.get("ensemble_bootstrap", 0),
        act_fn=lambda: actor,
        progress=0.0,
        device=here,
    )
    data.open("fit")
    return data


def imagined(**given):
    fields = {
        "dynamics": MODEL,
        "rollout_length": 2,
        "rollout_batch_size": 20,
        "rollout_freq": 10,
        "termination": NoTermination(),
    }
    return ready(ModelRolloutData, **{**fields, **given})


class Flat(Penalty):
    """Every step costs the same."""

    def __call__(self, obs, action, step):
        return torch.ones_like(step.reward), torch.zeros_like(step.reward, dtype=torch.bool)


def test_whole_episodes_are_held_out_the_same_for_every_stage_of_a_seed():
    first, second, other = (
        ready(val_fraction=0.2),
        ready(val_fraction=0.2, ensemble_bootstrap=3),
        ready(val_fraction=0.2, seed=1),
    )
    assert torch.equal(first.holdout_index, second.holdout_index)
    assert not torch.equal(first.holdout_index, other.holdout_index)
    episode = first.dataset.episode
    held, kept = set(episode[first.holdout_index].tolist()), set(episode[first.train_index].tolist())
    assert not held & kept and len(held | kept) == 60
    assert len(first.holdout_index) == pytest.approx(0.2 * 240, abs=4)


@pytest.mark.parametrize(
    ("module", "held"),
    [(BC, 0), (IQL, 0), (TD3_BC, 0), (BCQ, 0), (SAC, 0), (Dynamics, 24), (Density, 24), (FQE, 24)],
)
def test_rows_are_held_out_for_those_who_look_at_them(module, held):
    data = OfflineData(FILE)
    data.configure(RunConfig(updates=1), 0)
    data.agent = SimpleNamespace(evaluated_on=module.evaluated_on, gamma=0.9, n_step=1, ensemble_size=0)
    data.open("fit")
    assert len(data.holdout_index) == pytest.approx(held, abs=4) and (held == 0) == (
        len(data.train_index) == 240
    )
    assert len(imagined().holdout_index) == 0
    assert len(ready(val_fraction=0.5).holdout_index) > 100  # as told


def test_batches_are_rows_of_the_file_and_never_held_out():
    data = ready(val_fraction=0.3, batch_size=64)
    batch = data.sample(50)
    assert batch.obs.shape == (50, 64, 1) and batch.reward.shape == (50, 64)
    assert not set(batch.index.flatten().tolist()) & set(data.holdout_index.tolist())
    row = batch.index[3, 5]
    assert torch.equal(batch.next_obs[3, 5], data.dataset.next_obs[row])
    assert batch.reward[3, 5] == data.dataset.reward[row] and (batch.discount == 0.9).all()


def test_members_see_their_own_resample():
    data = ready(ensemble_bootstrap=4, batch_size=200)
    batch = data.sample(30)
    assert batch.obs.shape == (30, 4, 200, 1)
    seen = [set(batch.index[:, member].flatten().tolist()) for member in range(4)]
    share = len(seen[0]) / len(data.train_index)
    assert 0.5 < share < 0.75  # 1 - 1/e of the rows are in a bootstrap
    assert seen[0] != seen[1]


def test_rewards_are_scaled_then_shifted():
    plain, scaled = ready(), ready(reward_scale=2.0, reward_shift=-1.0)
    assert torch.allclose(scaled.train_rows().reward, 2.0 * plain.train_rows().reward - 1.0)


def test_what_cannot_be_split_or_summed_is_refused():
    one = target_file(FOLDER / "one.npz", episodes=1)
    with pytest.raises(DataError, match="one episode"):
        ready(dataset=one, val_fraction=0.1)
    with pytest.raises(DataError, match="one episode"):
        OfflineData(one).check_model(SimpleNamespace(evaluated_on="rows"))
    assert len(ready(dataset=one).train_index) == 4  # a policy needs no other
    assert len(ready(dataset=one, split="transition", val_fraction=0.5).holdout_index) == 2
    with pytest.raises(ConfigError, match="val_fraction"):
        ready(val_fraction=1.0)
    with pytest.raises(ConfigError, match="at least 1"):
        ready(batch_size=0)


def test_a_changed_file_is_not_resumed():
    data = ready()
    state = data.save(None)
    with pytest.raises(ResumeError, match="has changed"):
        data.load({**state, "sha256": "0" * 64}, None)


@pytest.mark.parametrize(
    ("members", "said"), [(0, "one stream of rows; set it to 0"), (7, "has 7 members; set it")]
)
def test_rows_of_their_own_are_for_members_alone(members, said):
    data = OfflineData(FILE, ensemble_bootstrap=2)
    data.configure(RunConfig(updates=1), 0)
    data.agent = SimpleNamespace(ensemble_size=members)
    with pytest.raises(ConfigError, match=said):
        data.open("fit")


def test_a_look_at_the_model_leaves_training_as_it_was():
    data = imagined()
    before = [g.get_state().clone() for g in (data.explore, data.noise, data.draw)]
    data.diagnostics(data.agent)
    assert all(
        torch.equal(a, g.get_state())
        for a, g in zip(before, (data.explore, data.noise, data.draw), strict=True)
    )


def test_imagined_and_recorded_rewards_have_one_scale(tmp_path):
    scaled = dynamics_artifact(tmp_path / "scaled")
    (tmp_path / "scaled" / "config.yaml").write_text(
        "data: {init_args: {reward_scale: 0.1, reward_shift: 0.0}}"
    )
    imagined(dynamics=scaled, reward_scale=0.1)
    with pytest.raises(ConfigError, match=r"learned rewards with data.reward_scale 0.1, this stage has 1.0"):
        imagined(dynamics=scaled)


def test_a_damaged_artifact_is_refused(tmp_path):
    folder = tmp_path / "model"
    path = dynamics_artifact(folder)
    about = json.loads((folder / "artifact.json").read_text())
    digest = hashlib.sha256((folder / "weights.safetensors").read_bytes()).hexdigest()
    (folder / "artifact.json").write_text(json.dumps({**about, "sha256": digest}))
    imagined(dynamics=path)
    (folder / "artifact.json").write_text(json.dumps({**about, "sha256": "0" * 64}))
    with pytest.raises(ResumeError, match="damaged"):
        imagined(dynamics=path)


def test_another_model_than_the_run_began_with_is_not_resumed(tmp_path):
    state = imagined().save(SegmentStore(tmp_path))
    imagined().load(state, SegmentStore(tmp_path))
    other = dynamics_artifact(tmp_path / "other", seed=1)
    with pytest.raises(ResumeError, match="other: is not the dynamics that the run began with"):
        imagined(dynamics=other).load(state, SegmentStore(tmp_path))


def test_another_density_than_the_run_began_with_is_not_resumed(tmp_path):
    def given(seed):
        torch.manual_seed(seed)
        density = CalibratedDensity(describe(partial(RealNVP, num_couplings=2, hidden_dims=[8])), 1, 1)
        density.calibrate(torch.randn(200, 2))
        penalty = TanhPenalty("made/here")
        penalty.use(density)
        return imagined(penalty=penalty)

    state = given(0).save(SegmentStore(tmp_path))
    given(0).load(state, SegmentStore(tmp_path))
    with pytest.raises(ResumeError, match="made/here: is not the density"):
        given(1).load(state, SegmentStore(tmp_path))


@pytest.mark.parametrize("share", [0.0, 0.25, 1.0])
def test_a_batch_has_its_share_of_recorded_rows(share):
    data = imagined(real_ratio=share, batch_size=40)
    batch = next(data.batches())
    assert batch.obs.shape[0] == 40
    recorded = {tuple(row) for row in data.rows[:, :1].tolist()}
    found = [tuple(row) in recorded for row in batch.obs.tolist()]
    assert all(found[: round(40 * share)])
    assert len(data.model_rows) == (0 if share == 1.0 else 40)


def test_recorded_rows_are_rounded_down_as_in_the_originals():
    data = imagined(real_ratio=0.05, batch_size=256)  # 12.8
    recorded = {tuple(row) for row in data.rows[:, :1].tolist()}
    found = [tuple(row) in recorded for row in next(data.batches()).obs.tolist()]
    assert all(found[:12]) and not found[12]


def test_rollouts_are_made_on_time_and_the_newest_are_kept():
    data = imagined(retain_rollouts=3, updates_per_block=4)
    blocks = []
    for _ in range(15):
        blocks.append(len(list(data.next_block())))
    assert blocks[:6] == [4, 4, 2, 4, 4, 2]  # a block never passes a rollout
    assert data.model_rows.written == 5 * 40 and len(data.model_rows) == 3 * 40


def test_no_coefficient_is_no_penalty_bit_for_bit():
    free, zero, small, large = (
        imagined(penalty=penalty, penalty_coef=coefficient)
        for penalty, coefficient in ((NoPenalty(), 1.0), (Flat(), 0.0), (Flat(), 0.5), (Flat(), 2.0))
    )
    rows = []
    for data in (free, zero, small, large):
        list(data.batches())
        rows.append(data.model_rows.rows[:40].clone())
    assert torch.equal(rows[0], rows[1])
    reward = 2  # obs, action, reward
    assert torch.allclose(rows[0][:, reward] - 0.5, rows[2][:, reward])
    assert torch.allclose(rows[0][:, reward] - 2.0, rows[3][:, reward])


def test_a_penalty_may_cost_in_units_of_the_rewards_spread():
    data = imagined(penalty=Flat(), penalty_unit="reward_std")
    assert data.unit == pytest.approx(float(data.train_rows().reward.std(correction=0)))


@pytest.mark.parametrize(
    ("make", "parts"),
    [(ready, [10, 10, 5, "E", 5, 10, 5]), (imagined, [4, 4, 2, 2, 4, 4, 4, 1, "E", 3, 2, 2, 4, 4, 4, 1])],
)
def test_no_block_of_a_phase_crosses_a_cadence_or_a_rollout(make, parts):
    """A hook is made in parts where something is due; the next one comes when it is whole."""
    data = make(**({"rollout_freq": 4} if make is imagined else {}))
    data.clock.run = RunConfig(updates=45, eval_every=10)
    entry = {"type": "offline", "hooks": [{"name": "update", "count": 25}, "evaluate"]}
    data.clock.phases = PhaseCursor(parse_phases([entry], ["update"]))
    done = []
    while not data.clock.is_finished:
        updates = len(list(data.next_block()))
        done.append("E" if data.clock.evaluate_now else updates)
        if data.clock.evaluate_now:
            data.clock.end_epoch()
    assert done == parts


def counted_file(name: str, cut: tuple[bool, ...], length: int = 4) -> str:
    """Episodes whose actions say which episode and which step they were; those named are cut, not terminated."""
    rows = len(cut) * length
    episode, step = np.divmod(np.arange(rows), length)
    last = step == length - 1
    np.savez(
        FOLDER / name,
        observations=np.arange(rows, dtype=np.float32)[:, None],
        actions=np.stack([episode / 10, step / 10], 1).astype(np.float32),
        rewards=np.ones(rows, np.float32),
        next_observations=np.arange(1, rows + 1, dtype=np.float32)[:, None],
        terminals=last & ~np.array(cut)[episode],
        timeouts=last & np.array(cut)[episode],
    )
    return str(FOLDER / name)


def with_agent(agent, **options):
    data = OfflineData(**options)
    data.configure(RunConfig(updates=1), 0)
    data.agent = agent
    data.open("fit")
    return data


def test_the_next_action_is_the_one_that_the_same_episode_went_on_with():
    agent = SimpleNamespace(gamma=0.9, needs_fields=("next_action",))
    data = with_agent(agent, dataset=counted_file("next.npz", (False, True, False)), batch_size=400)
    batch = data.sample(1)
    assert set(batch.index.flatten().tolist()) == set(range(12)) - {7}, "a cut row's next action is unknown"
    goes_on = batch.terminated == 0
    step = torch.tensor([0.0, 0.1])
    torch.testing.assert_close(batch.next_action[goes_on], batch.action[goes_on] + step)
    assert with_agent(SimpleNamespace(gamma=0.9), dataset=data.source).sample(1).next_action is None


def test_data_without_any_next_action_are_refused():
    agent = SimpleNamespace(gamma=0.9, needs_fields=("next_action",))
    with pytest.raises(DataError, match="no next action is known"):
        with_agent(agent, dataset=counted_file("single.npz", (True,) * 5, length=1))


def test_rules_that_need_more_of_a_row_say_which_data_have_it():
    with pytest.raises(
        ConfigError, match=r"ReBRAC needs next_action of every row, .* Use: --data OfflineData"
    ):
        check_partners(ReBRAC, OnlineData)
    check_partners(ReBRAC, OfflineData)


def test_imagined_rows_are_marked():
    data = imagined(real_ratio=0.25, batch_size=8)
    assert data.sample(3).is_real.all(), "before the first rollout all are recorded"
    data.rollout()
    assert (data.sample(3).is_real == (torch.arange(8) < 2)).all()
