"""Every shipped network fragment parses by short class names and builds."""

from pathlib import Path

import pytest
import torch
import yaml
from jsonargparse import ArgumentParser

from rl_lightning.nn import Network
from rl_lightning.nn.make_torso import make_torso
from rl_lightning.runs.config.compose import normalize

FRAGMENTS = sorted((Path(__file__).parents[2] / "configs" / "network").glob("*.yaml"))


@pytest.mark.parametrize("path", FRAGMENTS, ids=lambda path: path.stem)
def test_fragment_builds(path):
    fragment = normalize(yaml.safe_load(path.read_text()))
    parser = ArgumentParser(exit_on_error=False)
    parser.add_argument("--network", type=Network)
    parsed = parser.parse_object({"network": fragment["model"]["init_args"]["network"]})
    network = parser.instantiate(parsed)["network"]
    shape = (5,) if "cnn" not in path.stem else (3, 10, 10) if "small" in path.stem else (4, 84, 84)
    torso = make_torso(network, shape)
    features, _ = torso.step(torch.zeros(2, *shape), torso.initial_carry(2))
    assert features.shape == (2, torso.out_dim)
