"""Planning by sampling: CEM, MPPI, and MPC on top."""
