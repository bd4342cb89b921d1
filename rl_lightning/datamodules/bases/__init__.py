"""What every DataModule here shares: clocks, blocks, envs, replay."""
