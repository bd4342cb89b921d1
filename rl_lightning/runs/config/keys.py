"""The top level of a config."""

GROUPS = ("model", "data", "run", "trainer", "log")
TOP = (*GROUPS, "seed_everything", "threads", "ckpt_path", "resume_mode")
