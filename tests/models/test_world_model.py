"""The parts of a latent world: what is reset, what is paired with what, where gradients go, and what is refused."""

from functools import partial

import pytest
import torch
from contracts.families.dreamer import V3, world
from torch import nn

from rl_lightning.errors import ConfigError
from rl_lightning.models.rssm.decoders import ConvDecoder, IdentityDecoder, MLPDecoder
from rl_lightning.models.rssm.encoders import ConvEncoder, IdentityEncoder, MLPEncoder
from rl_lightning.models.rssm.heads import ContinueHead, MSEHead, TwoHotHead
from rl_lightning.models.rssm.latent_actors import (
    ActorHead,
    BoundedNormal,
    OneHot,
    TanhNormal,
    TruncatedNormal,
    action_rows,
    clip_straight_through,
    env_actions,
)
from rl_lightning.models.rssm.latents import (
    BalancedKL,
    CategoricalLatent,
    DynRepKL,
    FreeNatsKL,
    GaussianLatent,
)
from rl_lightning.models.rssm.world_model import LatentWorld
from rl_lightning.nn.dense import make_norm
from rl_lightning.nn.rssm_cores import BlockGRUCore, GRUCore, NormGRUCore
from rl_lightning.types import EnvSpec, Sequences

DISCRETE = EnvSpec("fake", (4,), action_kind="discrete", action_sizes=(4,))
BOX = EnvSpec("fake", (3,), action_shape=(2,), action_low=(-1.0, -1.0), action_high=(1.0, 1.0))
VERSIONS = [1, 2, 3]


def quiet(model):
    """Latents take their likeliest value: what two unrolls draw cannot differ."""
    zeros = torch.zeros
    kind = model.rssm.latent
    shape = getattr(kind, "shape", (kind.dim,))
    kind.noise = lambda lead, like, generator=None: zeros(*lead, *shape)
    return model


def batch_of(steps: int, rows: int, spec=DISCRETE, seed=0) -> Sequences:
    torch.manual_seed(seed)
    action = torch.randint(4, (rows, steps)) if spec is DISCRETE else torch.rand(rows, steps, 2) * 2 - 1
    flags = torch.zeros(rows, steps)
    first = torch.zeros(rows, steps, dtype=torch.bool)
    first[:, 0] = True
    return Sequences(
        torch.randn(rows, steps, *spec.obs_shape),
        action,
        torch.randn(rows, steps),
        flags,
        flags.clone(),
        first,
    )


def joined(a: Sequences, b: Sequences) -> Sequences:
    return Sequences(*(torch.cat((x, y), 1) for x, y in zip(a[:6], b[:6], strict=True)))


@pytest.mark.parametrize("version", VERSIONS)
def test_two_episodes_in_a_row_give_the_posteriors_of_the_two_apart(version):
    """D4"""
    torch.manual_seed(0)
    model = quiet(world(version)(DISCRETE, 0.9))
    one, two = batch_of(5, 3, seed=1), batch_of(7, 3, seed=2)
    whole = model.observe(model.window(joined(one, two)))
    parts = [model.observe(model.window(each)) for each in (one, two)]
    for name in ("post", "prior"):
        apart = torch.cat([getattr(part, name) for part in parts])
        assert torch.allclose(getattr(whole, name), apart, atol=1e-6), name
    late = two._replace(is_first=torch.zeros_like(two.is_first))
    leaked = model.observe(model.window(joined(one, late)))
    assert not torch.allclose(leaked.post[5:], parts[1].post, atol=1e-4)


@pytest.mark.parametrize("version", VERSIONS)
def test_acting_step_by_step_is_the_unroll(version):
    """D16: the policy stands on the posterior that training sees, with the action before it and not after."""
    torch.manual_seed(0)
    model = quiet(world(version)(DISCRETE, 0.9))
    batch = batch_of(6, 2)
    window = model.window(batch)
    observed = model.observe(window)
    carry = model.rssm.initial(2, window.action)
    for t in range(6):
        state = model.rssm.obs_step(model.encoder(batch.obs[:, t]), carry, None)
        assert torch.allclose(state.deter, observed.state.deter[t], atol=1e-5)
        assert torch.allclose(state.stoch, observed.state.stoch[t], atol=1e-5)
        carry = (*state, window.action[t])


@pytest.mark.parametrize(
    "core",
    [
        partial(GRUCore, deter=8, hidden_dim=8),
        partial(NormGRUCore, deter=8, hidden_dim=8),
        partial(BlockGRUCore, deter=8, hidden_dim=8, blocks=2, num_layers=2),
    ],
)
def test_a_core_is_what_its_plain_formula_says(core):
    """The split projections are one layer over everything side by side."""
    torch.manual_seed(0)
    net = core(5, 3)
    h, z, a = torch.randn(4, 8).tanh(), torch.randn(4, 5), torch.rand(4, 3)
    ours = net.step(h, z, net.project(a), net.weights())
    if isinstance(net, BlockGRUCore):
        x = torch.cat((net.from_state(h), net.from_latent(z), net.from_action(a)), 1)
        y = net.activation(net.norms[0](net.layers[0](h) + net.shared(x)))
        y = net.activation(net.norms[1](net.layers[1](y)))
        blocks = torch.block_diag(*net.gates.weight)  # [8, 24], three gates of each block side by side
        gates = (y @ blocks + net.gates.bias).reshape(4, 2, 3, 4)
        reset, candidate, update = (gates[:, :, k].reshape(4, 8) for k in range(3))
        candidate, update = torch.tanh(torch.sigmoid(reset) * candidate), torch.sigmoid(update - 1)
    elif isinstance(net, NormGRUCore):
        x = net.inner(z, a)
        reset, candidate, update = net.norm(net.gates(torch.cat((x, h), 1))).chunk(3, -1)
        candidate, update = torch.tanh(torch.sigmoid(reset) * candidate), torch.sigmoid(update - 1)
    else:
        cell = nn.GRUCell(8, 8)
        with torch.no_grad():
            cell.weight_ih.copy_(net.gates.weight[:, :8])
            cell.weight_hh.copy_(net.gates.weight[:, 8:])
            cell.bias_ih.copy_(net.gates.bias)
            cell.bias_hh.zero_()
        theirs = cell(
            net.inner(z, a), h
        )  # torch keeps `update` of the old state, we of the new: 1 - u is as free
        cell_update = torch.sigmoid((net.gates(torch.cat((net.inner(z, a), h), 1)))[:, 8:16])
        candidate = (theirs - cell_update * h) / (1 - cell_update)
        update = cell_update
    assert torch.allclose(ours, update * candidate + (1 - update) * h, atol=1e-5)


@pytest.mark.parametrize("latent", [GaussianLatent(6), CategoricalLatent(3, 4)], ids=["gauss", "categorical"])
def test_each_side_of_the_divergence_moves_its_own_network(latent):
    """D5: `dyn` leads nothing to the posterior, `rep` nothing to the prior."""
    torch.manual_seed(0)
    post, prior = (torch.randn(7, latent.params_dim, requires_grad=True) for _ in range(2))
    for kl, moved, still in (
        (DynRepKL(1.0, 0.0, 0.0), prior, post),
        (DynRepKL(0.0, 1.0, 0.0), post, prior),
        (BalancedKL(1.0, 0.0), prior, post),
        (BalancedKL(0.0, 0.0), post, prior),
    ):
        loss, nats = kl(latent, post, prior)
        by_moved, by_still = torch.autograd.grad(loss, (moved, still), allow_unused=True)
        assert by_moved.abs().sum() > 0 and (by_still is None or not by_still.any())
        assert nats.item() == pytest.approx(latent.kl(latent.dist(post), latent.dist(prior)).mean().item())


def test_the_norm_is_torchs():
    torch.manual_seed(0)
    ours, theirs = make_norm("rms", 6), nn.RMSNorm(6, 1e-3)
    ours.weight.data = theirs.weight.data = torch.randn(6)
    x, probe = torch.randn(3, 4, 6, requires_grad=True), torch.randn(3, 4, 6)
    found = [torch.autograd.grad((net(x) * probe).sum(), (x, net.weight)) for net in (ours, theirs)]
    assert torch.allclose(ours(x), theirs(x), atol=1e-6)
    for a, b in zip(*found, strict=True):
        assert torch.allclose(a, b, atol=1e-5)


def test_unimix_is_in_policy_and_divergence_alike():
    """D9"""
    logits = torch.tensor([[900.0, 0.0, 0.0, 0.0]])
    least = CategoricalLatent(1, 4).dist(logits)[0].exp().min().item()
    head = OneHot(0.01)
    head.params_dim(DISCRETE)
    assert least == pytest.approx(0.0025) and head.log_probs(logits).exp().min().item() == pytest.approx(
        0.0025
    )


@pytest.mark.parametrize("exponential", [True, False])
def test_new_two_hot_heads_say_exactly_zero(exponential):
    """D11"""
    head = TwoHotHead(5, hidden_dims=[8, 8], symexp_bins=exponential)
    assert (head.value(torch.randn(64, 5)) == 0.0).all()
    assert (MSEHead(5, hidden_dims=[8], zero_init_last=True).value(torch.randn(9, 5)) == 0.0).all()


@pytest.mark.parametrize("exponential", [True, False])
@pytest.mark.parametrize("number", [0.0, 0.3, -7.0, 900.0])
def test_two_hot_heads_learn_a_number(exponential, number):
    """Symlog once, not twice, whichever way."""
    torch.manual_seed(0)
    head = TwoHotHead(1, hidden_dims=[], symexp_bins=exponential)
    optimizer = torch.optim.Adam(head.parameters(), 0.5)
    for _ in range(300):
        optimizer.zero_grad()
        head.loss(head(torch.ones(1, 1)), torch.tensor([number])).sum().backward()
        optimizer.step()
    assert head.value(torch.ones(1, 1)).item() == pytest.approx(number, rel=0.02, abs=0.02)


@pytest.mark.parametrize("discounted", [True, False])
def test_the_discount_enters_once(discounted):
    """D12, D19: a continuing state is worth gamma, an end nothing, and the loss is never negative and falls."""
    torch.manual_seed(0)
    head = ContinueHead(2, 0.9, hidden_dims=[16], loss_coef=5.0, discounted=discounted)
    optimizer = torch.optim.Adam(head.parameters(), 0.05)
    feature, over = torch.tensor([[1.0, 0.0], [0.0, 1.0]]), torch.tensor([0.0, 1.0])
    losses = []
    for _ in range(200):
        loss = head.loss(feature, over).sum()
        losses.append(loss.item())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert min(losses) >= 0 and losses[-1] < losses[0]
    assert head.continuation(feature).tolist() == pytest.approx([0.9, 0.0], abs=0.02)


def test_observation_losses_are_summed_over_what_is_seen():
    """D18: a mean over pixels lets the KL win, and the posterior collapses."""
    torch.manual_seed(0)
    for decoder, shape in (
        (partial(ConvDecoder, depth=4, multipliers=[2, 1], loss_coef=0.5), (3, 8, 8)),
        (partial(MLPDecoder, hidden_dims=[8], loss_coef=0.5), (3, 8, 8)),
    ):
        net = decoder(10, 6, shape)
        feature, obs = torch.randn(5, 2, 10), torch.randint(256, (5, 2, *shape), dtype=torch.uint8)
        error = net.predict(feature) - obs / 255.0
        assert torch.allclose(net.loss(feature, obs), 0.5 * error.square().sum((-3, -2, -1)), rtol=1e-4)
    flat = MLPDecoder(10, 6, (4,), hidden_dims=[8], symlog=True, loss_coef=1.0)
    obs = 100 * torch.randn(5, 4)
    assert flat.loss(torch.randn(5, 10), obs).shape == (5,)


def test_pixels_are_seen_alike_when_acting_and_when_learning():
    """T6: uint8 is divided once, wherever it comes from."""
    net = ConvEncoder((3, 8, 8), depth=4, multipliers=[1, 2])
    frame = torch.randint(256, (2, 3, 8, 8), dtype=torch.uint8)
    assert torch.equal(net(frame), net(frame.unsqueeze(1)).squeeze(1))
    assert torch.allclose(net(frame), net(frame.float() / 255.0))
    assert net(frame).shape == (2, net.out_dim)


def test_identity_parts_pass_observations_through():
    spec = BOX
    model = LatentWorld(
        spec,
        0.9,
        latent=GaussianLatent(4),
        core=partial(GRUCore, deter=8, hidden_dim=8),
        encoder=IdentityEncoder,
        decoder=IdentityDecoder,
        hidden_dim=8,
    )
    obs = torch.randn(2, 3)
    assert torch.equal(model.encoder(obs), obs)
    state = model.rssm.obs_step(obs, model.rssm.initial(2, obs), None)
    assert torch.equal(model.decoder.predict(state.feature), state.stoch[:, :3])
    with pytest.raises(ConfigError, match="IdentityDecoder"):
        LatentWorld(spec, 0.9, latent=GaussianLatent(2), decoder=IdentityDecoder)


@pytest.mark.parametrize("distribution", [TanhNormal(), TruncatedNormal(), BoundedNormal()])
def test_continuous_policies_against_numbers(distribution):
    """D17 among them: density integrates to 1 over its support, entropy is minus the mean log-density."""
    torch.manual_seed(0)
    params = torch.tensor([[0.4, -1.5 if isinstance(distribution, TanhNormal) else 0.3]])
    if isinstance(distribution, TanhNormal):
        distribution = TanhNormal(init_std=0.5)
    edge = 6.0 if isinstance(distribution, BoundedNormal) else 1.0
    grid = torch.linspace(-edge + 1e-4, edge - 1e-4, 40_001).unsqueeze(-1)
    log_prob = distribution.log_prob(params.expand(len(grid), 2), grid)
    width = (grid[1] - grid[0]).item()
    assert (log_prob.exp().sum() * width).item() == pytest.approx(1.0, abs=5e-3)
    exact = -(log_prob.exp() * log_prob).sum().item() * width
    many = params.expand(50_000, 2)
    assert distribution.entropy(many).mean().item() == pytest.approx(exact, abs=0.03)
    drawn = distribution.sample(many, distribution.noise((50_000, 1), many))
    assert drawn.mean().item() == pytest.approx((log_prob.exp() * grid[:, 0]).sum().item() * width, abs=0.01)
    leaf = params.clone().requires_grad_()
    distribution.sample(leaf, distribution.noise((1, 1), leaf)).sum().backward()
    assert leaf.grad.abs().sum() > 0
    assert clip_straight_through(torch.tensor([3.0, -0.2])).tolist() == pytest.approx([1.0, -0.2])


@pytest.mark.parametrize(
    "spec",
    [
        DISCRETE,
        BOX,
        EnvSpec("fake", (3,), action_kind="multi_discrete", action_shape=(2,), action_sizes=(3, 2)),
    ],
    ids=["discrete", "box", "multi"],
)
def test_action_rows_and_back(spec):
    actor = ActorHead(5, spec, hidden_dims=[8], zero_init_last=False)
    rows = actor.choose(torch.randn(9, 5), torch.Generator().manual_seed(0))
    assert rows.shape == (9, spec.action_dim)
    assert torch.allclose(action_rows(spec, env_actions(spec, rows)), rows)
    assert rows.abs().max() <= 1


def test_illegal_actions_are_never_chosen():
    actor = ActorHead(5, DISCRETE, hidden_dims=[8], distribution=OneHot(0.9), zero_init_last=False)
    mask = torch.tensor([False, True, False, True]).expand(400, 4)
    for explore in (torch.Generator().manual_seed(0), None):
        chosen = actor.choose(torch.randn(400, 5), explore, mask).argmax(-1)
        assert mask.gather(1, chosen.unsqueeze(1)).all()


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: LatentWorld(DISCRETE, 0.9, latent=CategoricalLatent(), kl=FreeNatsKL()), "BalancedKL"),
        (lambda: ActorHead(4, BOX, distribution=OneHot()), "BoundedNormal"),
        (lambda: ActorHead(4, DISCRETE, distribution=TanhNormal()), "OneHot"),
        (lambda: BlockGRUCore(4, 2, deter=30, hidden_dim=8, blocks=8), "multiple of blocks"),
        (lambda: ConvEncoder((3, 60, 60)), "multiple of 16"),
        (lambda: ConvEncoder((4,)), "MLPEncoder"),
        (lambda: TwoHotHead(4, num_bins=254), "odd"),
        (lambda: LatentWorld(DISCRETE, 0.9, squash_rewards="sign"), "squash_rewards"),
        (lambda: MLPEncoder((4,), hidden_dims=[8], norm="batch"), "norm"),
        (lambda: CategoricalLatent(4, 1), "two classes"),
    ],
)
def test_what_does_not_fit_is_refused(make, said):
    with pytest.raises(ConfigError, match=said):
        make()


@pytest.mark.parametrize("version", VERSIONS)
def test_warming_up_and_stored_states_continue_where_they_stopped(version):
    """Rows 3 ... of a window, after a burn-in of 3 or from the stored state, have the posteriors of the whole."""
    torch.manual_seed(0)
    model = quiet(world(version, **({} if version < 3 else V3))(DISCRETE, 0.9))
    batch = batch_of(8, 2)
    window = model.window(batch)
    whole = model.observe(window)
    burned = model.window(batch._replace(burn_in=3))
    assert len(burned.obs) == 5
    after = model.observe(burned)
    assert torch.allclose(after.post, whole.post[3:], atol=1e-5)
    states = model.carry_after_rows(burned, after)
    assert states.shape[:2] == (2, 8) and torch.allclose(
        states, model.carry_after_rows(window, whole), atol=1e-5
    )
    late = Sequences(*(field[:, 3:] for field in batch[:6]), latent=states[:, 2])
    assert torch.allclose(model.observe(model.window(late)).post, whole.post[3:], atol=1e-5)
