"""`git mem doctor`: what is wrong or off, each with a safe next step.

Promise: it reads everything it judges (every note line, the whole cache), and changes nothing,
except that a notes ref which is gone is put back, as by every reader. `repair` mends only what
needs no decision of the user's: nothing is guessed, no line is ever dropped.
"""

from ..core.errors import MemError
from ..store import Store
from . import memory_checks, setup_checks
from .finding import BAD, OFF, OK, WARN, Finding

__all__ = ["BAD", "OFF", "OK", "WARN", "Finding", "examine", "repair"]

# Each takes the store and yields findings, good ones included. The order is that of the report.
CHECKS = (
    setup_checks.repository,
    setup_checks.settings,
    setup_checks.files,
    setup_checks.programs,
    setup_checks.hooks,
    setup_checks.logs,
    setup_checks.agents,
    setup_checks.mcp_servers,
    setup_checks.remarks,
    memory_checks.locks,
    memory_checks.notes_and_cache,
    setup_checks.packaged,
    setup_checks.policy,
)


def examine(store: Store) -> list[Finding]:
    return [finding for check in CHECKS for finding in check(store)]


def repair(findings: list[Finding]) -> list[str]:
    """One line for each thing mended or not; a repair that fails stops no other."""
    done = []
    for mend in dict.fromkeys(finding.repair for finding in findings if finding.repair):
        try:
            done.append(mend())
        except MemError as e:
            done.append(f"not mended: {e.message}")
    return done
