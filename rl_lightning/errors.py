"""The errors a user can cause or meet. Each carries the exit code of the `rl` command."""


class RLError(Exception):
    """Base of all errors that are told in one to three lines instead of a traceback."""

    exit_code = 1


class ConfigError(RLError):
    """A wrong option, class, name or combination of them."""

    exit_code = 2


class DataError(RLError):
    """A data set or file that is missing, misshapen or damaged."""

    exit_code = 3


class ResumeError(RLError):
    """A checkpoint that is missing, damaged, hostile or of another run."""

    exit_code = 4


class DivergedError(RLError):
    """Training produced a number that is not finite."""

    exit_code = 5


class EnvError(RLError):
    """An environment raised, died or returned what it must not."""

    exit_code = 6


class StageError(RLError):
    """A stage of a pipeline failed; the earlier products are kept."""

    exit_code = 1
