"""`rl doctor`."""

from __future__ import annotations

from rl_lightning.cli.flags import parse
from rl_lightning.errors import ConfigError


def doctor(words: list[str]) -> int:
    """what is installed, what does not fit, and the line that repairs it

    usage: rl doctor [--deep]

    Versions, device, cores, memory and extras, what is known not to fit together, and the line that repairs it.

      --deep      import, step and render an env of each suite (a minute)
    """
    parsed = parse(words, switches=("deep",), command="doctor")
    if parsed.words:
        raise ConfigError(f"rl doctor takes no '{parsed.words[0]}'; see: rl doctor --help")
    from rl_lightning.analysis.doctor import as_text, report

    findings = report()
    if parsed.has("deep"):
        from rl_lightning.analysis.doctor_deep import deep_report

        findings += deep_report()
    print(as_text(findings))
    return 2 if any(finding.level == "bad" for finding in findings) else 0
