"""What acts draws from the generator it is given, and being looked at changes nothing of it."""

import torch
from contracts.case import Case, made_of
from contracts.cases import CASES, each
from contracts.harness import bare, differing, observed, weights

from rl_lightning.datamodules.bases.env_data import EnvData

ACTORS = [case for case in CASES if made_of(case.model)[0].evaluated_on == "episodes"]


@each(ACTORS)
def test_playing_leaves_no_trace(case: Case):
    run = bare(case)
    if run.optimizers and case.updates:
        run.learn(run.block())
    run.model.train()
    frozen = next(run.model.children(), None)
    if frozen is not None:
        frozen.eval()
    before, modes = weights(run.model), [m.training for m in run.model.modules()]
    rng = torch.get_rng_state()
    drawn = run.data.explore.get_state() if isinstance(run.data, EnvData) else None
    envs = run.data.eval_envs(3)
    one, two = (run.model.run_episodes(envs, 3, seed=5) for _ in range(2))
    envs.close()
    assert one == two and len(one) == 3
    assert not differing(before, weights(run.model))
    assert modes == [m.training for m in run.model.modules()]
    assert torch.equal(rng, torch.get_rng_state())
    assert drawn is None or torch.equal(drawn, run.data.explore.get_state())


@each(ACTORS)
def test_acting_draws_from_the_given_generator_alone(case: Case):
    run = bare(case)
    obs, mask = observed(run.data.spec)
    run.model.borrowed()  # loaded when it is first asked for
    carry, rng = run.model.initial_carry(len(obs)), torch.get_rng_state()
    with torch.no_grad():
        drawn = [run.model.act(obs, carry, torch.Generator().manual_seed(1), mask)[0] for _ in range(2)]
        assert torch.equal(*drawn) and torch.equal(rng, torch.get_rng_state())
        if not run.model.deterministic_eval:
            return  # it has no greedy action
        greedy = [run.model.act(obs, carry, None, mask)[0] for _ in range(2)]
    assert torch.equal(*greedy) and torch.equal(rng, torch.get_rng_state())
