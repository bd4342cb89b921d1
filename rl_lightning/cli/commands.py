"""The verbs of `rl`."""

# verb -> module : function, each `(argv: list[str]) -> int`
COMMANDS = {
    "fit": "rl_lightning.cli.train.fit:fit",
    "resume": "rl_lightning.cli.train.resume:resume",
    "import": "rl_lightning.cli.train.import_agent:import_agent",
    "reproduce": "rl_lightning.cli.train.reproduce:reproduce",
    "validate": "rl_lightning.cli.agent.validate:validate",
    "test": "rl_lightning.cli.agent.test:test",
    "predict": "rl_lightning.cli.agent.predict:predict",
    "play": "rl_lightning.cli.agent.play:play",
    "rank": "rl_lightning.cli.agent.rank:rank",
    "plot": "rl_lightning.cli.desk.plot:plot",
    "list": "rl_lightning.cli.desk.list:list_things",
    "show": "rl_lightning.cli.desk.show:show",
    "compare": "rl_lightning.cli.desk.compare:compare",
    "export": "rl_lightning.cli.desk.export:export",
    "push": "rl_lightning.cli.desk.push:push",
    "report": "rl_lightning.cli.desk.report:report",
    "cleanup": "rl_lightning.cli.desk.cleanup:cleanup",
    "data": "rl_lightning.cli.data:data",
    "sweep": "rl_lightning.cli.train.sweep:sweep",
    "watch": "rl_lightning.cli.train.watch:watch",
    "tensorboard": "rl_lightning.cli.train.tensorboard:tensorboard",
    "doctor": "rl_lightning.cli.desk.doctor:doctor",
}
ELSEWHERE = {  # what other tools call it
    "train": "fit", "run": "fit", "evaluate": "test", "eval": "test", "analyze": "report", "tune": "sweep",
    "ls": "list", "runs": "list", "info": "show", "rm": "cleanup", "clean": "cleanup", "continue": "resume",
}  # fmt: skip
