"""Save, load into a fresh module, and the next updates are those of a module that never stopped."""

import io

import torch
from contracts.case import Case
from contracts.cases import CASES, each
from contracts.harness import bare, differing, weights

from rl_lightning.seeding import seed_globals


def through_a_file(state):
    file = io.BytesIO()
    torch.save(state, file)
    file.seek(0)
    return torch.load(file, weights_only=True)


@each([case for case in CASES if case.optimizers])
def test_next_updates_are_identical_after_a_reload(case: Case):
    run = bare(case)
    run.learn(run.block())
    saved = through_a_file([run.model.state_dict(), *(o.state_dict() for o in run.optimizers)])
    blocks = [run.block() for _ in range(3)]

    seed_globals(99)
    fresh = case.model(run.data.spec)
    fresh.attach(run.data)
    fresh.setup("fit")
    fresh.on_fit_start()
    for optimizer, state in zip(fresh.raw_optimizers(), saved[1:], strict=True):
        optimizer.load_state_dict(state)
    fresh.load_state_dict(saved[0])

    seen = []
    for model in (run.model, fresh):
        seed_globals(5)
        model.pop_metrics()
        for block in blocks:
            model.training_step(block, 0)
        seen.append((weights(model), model.pop_metrics()))
    assert not differing(seen[0][0], seen[1][0])
    assert repr(seen[0][1]) == repr(seen[1][1])
