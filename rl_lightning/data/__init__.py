"""The DataModules; importing this package is what makes their names known to a YAML."""

from rl_lightning.data.module import RLData
from rl_lightning.data.on_policy import OnPolicyData
from rl_lightning.data.online import OnlineData

__all__ = ["OnPolicyData", "OnlineData", "RLData"]
