"""A2C is PPO of one pass through one batch: the loss and the step of both, by hand."""

import torch
from contracts.cases import BY_NAME
from contracts.harness import bare
from torch.nn.functional import mse_loss

from rl_lightning.optim.optimizers import RMSprop


def test_one_pass_through_one_batch_is_a2c():
    """Gradients of -mean(A log pi) + 0.5 mean((V - R)^2), SB3's loss, scaled down to norm 0.5, by RMSprop."""

    def rmsprop(params, lr):
        return RMSprop(params, lr, alpha=0.99, eps=1e-5)

    case = BY_NAME["ppo-discrete"].but(
        model={
            "n_epochs": 1,
            "minibatch_size": 10**6,
            "normalize_advantages": False,
            "gae_lambda": 1.0,
            "vf_coef": 1.0,
            "ent_coef": 0.0,
            "lr": 7e-4,
            "optimizer": rmsprop,
        }
    )
    ours, theirs = bare(case), bare(case).model
    rollout = ours.block().batches[0]
    with torch.no_grad():
        value = theirs.evaluate_rows(rollout.obs, (), rollout.is_first)[1]
        done = rollout.terminated | rollout.truncated
        next_value = theirs._next_value(rollout, value, done)
        returns, running = torch.zeros_like(rollout.reward), next_value[-1]
        for t in reversed(range(len(rollout.reward))):
            running = torch.where(done[t], next_value[t], running) * (~rollout.terminated[t]).float()
            running = returns[t] = rollout.reward[t] + theirs.gamma * running
    params, value = theirs.evaluate_rows(rollout.obs, (), rollout.is_first)
    log_prob, _ = theirs.policy.evaluate(params, rollout.action)
    loss = -((returns - value.detach()) * log_prob).mean() + 0.5 * mse_loss(value, returns)
    (optimizer,) = theirs.raw_optimizers()
    optimizer.zero_grad()
    loss.backward()
    torch.nn.utils.clip_grad_norm_(theirs.parameters(), 0.5)
    optimizer.step()

    metrics = ours.model.update(rollout)
    assert metrics["train/clip_fraction"] == 0.0 and metrics["train/approx_kl"] == 0.0
    assert metrics["train/gradient_steps"] == 1.0
    for (name, weight), expected in zip(ours.model.named_parameters(), theirs.parameters(), strict=True):
        torch.testing.assert_close(weight.grad, expected.grad, atol=1e-6, rtol=1e-4, msg=name)
        torch.testing.assert_close(weight, expected, atol=1e-6, rtol=1e-4, msg=name)
