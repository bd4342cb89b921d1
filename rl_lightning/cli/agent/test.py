"""`rl test`."""

from __future__ import annotations

from rl_lightning.cli.agent.named_agent import IN_MODEL, TAKES, in_model, named_agent, named_run
from rl_lightning.cli.flags import parse
from rl_lightning.cli.options import OWN_SWITCHES
from rl_lightning.cli.outputs import note, output_file
from rl_lightning.errors import ConfigError

TEST_EPISODES = 20


def test(words: list[str]) -> int:
    """evaluate the best checkpoint on fresh seeds

    usage: rl test RUN [options]

    Evaluates a run's best checkpoint on 20 fresh seeds, none of which it was chosen by.

      rl test ppo-cartpole-1 --data.env.kwargs '{gravity: 12}'

      --checkpoint best|last|PATH   (default best)
      --episodes N                  (default 20)
      --output FILE.json            (default <run>/test.json)
      --in DYNAMICS                 play in a learned model, from held-out starts of its data: beside each return the
                                    fraction of steps below the density's threshold and the members' disagreement
                                    (default file <run>/test-in-model.json)
      --density ARTIFACT            for --in; default the density that the run was penalised by
      --termination NAME            for --in: the rule that ends an episode (NoTermination, HopperTermination, ...)
      --noise                       also behind noisy sensors and actuators: a table of rates and scales
      --noise_rates 0.1,1  --noise_scales 0.01,0.05,0.1,0.3

    [CONFIG]
    """
    takes = (*TAKES, *IN_MODEL, "noise_rates", "noise_scales")
    parsed = parse(words, takes, (*OWN_SWITCHES, "noise"), config=True, command="test")
    usual = "test.json" if parsed.get("in") is None else "test-in-model.json"
    path = output_file(parsed.get("output"), named_run(parsed, "test").folder / usual)
    from rl_lightning.analysis.evaluation.noise_grid import RATES, SCALES, noise_grid, noise_table
    from rl_lightning.runs.agents.evaluate_agent import test_agent

    if parsed.has("noise") and parsed.get("in") is not None:
        raise ConfigError("--noise is of sensors and actuators of an env; it does not go with --in")
    rates, scales = parsed.numbers("noise_rates", RATES), parsed.numbers("noise_scales", SCALES)
    agent = in_model(named_agent(parsed, "best", TEST_EPISODES), parsed)
    tested = test_agent(agent, parsed.request(), note)
    print(tested.text)
    if tested.caution:
        note(f"note: {tested.caution}")
    if parsed.has("noise") and tested.episodes:
        grid = noise_grid(agent, tested.episodes, rates, scales)
        print(noise_table(grid))
        tested.values["noise"] = [row._asdict() for row in grid]
    print(tested.write(path))
    return 0
