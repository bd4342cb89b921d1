"""Kernel densities: what summing the nearest rows alone leaves out, as the option says where it is chosen."""

import inspect
from pathlib import Path

import torch

from rl_lightning.models.density import KDE
from rl_lightning.runs.config.catalog import argument_docs

PAGE = Path(__file__).parents[3] / "docs" / "options.md"


def lost(rows: torch.Tensor, test: torch.Tensor, bandwidth: float | None) -> float:
    """Nats of mean log-density between 100 neighbors and all, at one bandwidth."""
    scores = []
    for neighbors in (100, None):
        net = KDE(rows.shape[1], n_neighbors=neighbors, bandwidth=bandwidth, max_rows=len(rows))
        net.fit_statistics(rows)
        bandwidth = float(net.width)
        scores.append(net.score(test).mean().item())
    return scores[1] - scores[0]


def test_neighbours_cost_nats_under_wide_kernels_only():
    draws = torch.randn(5200, 14, generator=torch.Generator().manual_seed(0))
    # clusters, since states of a gait lie near each other
    draws = 0.2 * draws + torch.randn(20, 14, generator=torch.Generator().manual_seed(1)).repeat(260, 1)
    rows, test = draws[:5000], draws[5000:]
    assert 0.0 <= lost(rows, test, None) < 0.02
    assert lost(rows, test, 1.0) > 0.3


def test_the_cost_is_said_where_neighbours_are_chosen():
    text = argument_docs(inspect.getdoc(KDE) or "")["n_neighbors"]
    assert "nats" in text and text in PAGE.read_text()
