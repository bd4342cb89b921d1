"""An update keeps to one device; how often it makes the host wait, and what an `act` copies, only goes down."""

import torch
from contracts.case import Case, made_of
from contracts.cases import CASES, each
from contracts.harness import Taken, observed
from contracts.second_device import FAR, Traffic, second_device

from rl_lightning.rollout.block import move
from rl_lightning.seeding import seed_globals


def first_block(data) -> Taken:
    for _ in range(1000):
        if (block := Taken(data.next_block())).updates:
            return block
    raise AssertionError("no block with updates")


@each([case for case in CASES if case.updates])
def test_an_update_keeps_to_its_device(case: Case):
    seed_globals(0)
    data = case.data()
    model = case.model(data.spec)
    data.configure(case.run(100_000), 0)
    with second_device() as traffic:
        model.to(FAR)
        data.connect(model)
        model.setup("fit")
        model.on_fit_start()
        batches = [move(batch, FAR) for batch in first_block(data).batches]
        assert not traffic.mixed, "in collecting"
        most = 0
        for batch in batches[:4]:
            traffic.waits.clear()
            model.update(batch)
            assert not traffic.mixed
            most = max(most, traffic.waits.total())
    assert most <= case.waits, traffic.waits


@each([case for case in CASES if made_of(case.model)[0].evaluated_on == "episodes"])
def test_an_act_copies_no_more_than_it_must(case: Case):
    if made_of(case.model)[1].get("precision") == "half":
        case = case.but(model={"sampling_dtype": "full"})  # torch.autocast knows no such device
    seed_globals(0)
    data = case.data()
    model = case.model(data.spec)
    data.configure(case.run(100_000), 0)
    with second_device() as traffic:
        model.to(FAR)
        data.connect(model)
        model.setup("fit")
        obs, mask = observed(data.spec)
        act, carry = model.act_fn(), model.initial_carry(2)
        copies = played(traffic, lambda: act(obs, carry, torch.Generator().manual_seed(0), mask))
    assert copies <= case.copies, traffic.copies


def played(traffic: Traffic, act) -> int:
    with torch.no_grad():
        act()
        traffic.copies.clear()
        traffic.mixed.clear()
        action, _ = act()
    assert not traffic.mixed and action is not None
    return traffic.copies.total()
