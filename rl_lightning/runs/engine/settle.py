"""What a config leaves open and the env decides: found out before anything is trained, and written into config.yaml."""

from __future__ import annotations

from rl_lightning.runs.config.build import RLCLI


def settle(cli: RLCLI) -> str | None:
    """Sets what is null in the model's settings and asked of the env; says what was found out."""
    from rl_lightning.envs.ends import ends_by_itself

    model = cli.config.model.get("init_args") or {}
    if model.get("episodic", False) is not None:
        return None
    cli.build(meta=True)
    env = getattr(cli.datamodule, "env", None)
    ends = env is not None and ends_by_itself(env)
    cli.config.model.init_args.episodic = ends
    name = cli.datamodule.spec.env_id
    return f"{name} ends its episodes: learned with them (model.episodic true)" if ends else None
