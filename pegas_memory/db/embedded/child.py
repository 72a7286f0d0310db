"""Running PostgreSQL's own programs so that they touch nothing of ours.

A child gets no standard input of ours, no standard output (that is a protocol stream in an MCP
server), a fixed environment in the C locale, a session of its own (a signal to the client's group
does not reach it), and only those file descriptors that it is given by name.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pegas_memory.db.embedded.account import SYSTEM_PATH, Account
from pegas_memory.errors import DatabaseUnavailable, DiskFull, PegasError

ENVIRONMENT = {"LANG": "C", "LC_ALL": "C", "TZ": "UTC", "PATH": SYSTEM_PATH}
SECONDS = 180.0  # initdb takes 0.5 s; a slow disk under load was seen to take 20 times that
SAID = re.compile(r"(?:FATAL|PANIC|ERROR|error): +(.+)")
ABSOLUTE_PATH = re.compile(r"\"/[^\"\n]*\"|'/[^'\n]*'|(?<![\w.])/[^\s\"']+")


@dataclass(frozen=True)
class Finished:
    code: int
    output: str
    said: str


def run(
    command: Sequence[str | Path],
    account: Account,
    *,
    text: str = "",
    log: int | None = None,
    keep: Sequence[int] = (),
    may_be_missing: bool = False,
) -> Finished:
    """Run ``command`` as ``account``, feed it ``text``, wait; its stderr goes to ``log`` or is returned.

    ``keep`` are the descriptors that it (and what it starts) inherits. With ``may_be_missing`` a
    program that the account cannot see or execute is an answer (code 127), not an error.

    Raises:
        DatabaseUnavailable: it could not be run or took longer than ``SECONDS``.
    """
    name = Path(command[0]).name
    try:
        done = subprocess.run(
            [str(part) for part in command],
            input=text.encode(),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE if log is None else log,
            env=ENVIRONMENT,
            cwd="/",
            user=account.uid if account.switch else None,
            group=account.gid if account.switch else None,
            extra_groups=[] if account.switch else None,
            pass_fds=tuple(keep),
            start_new_session=True,
            umask=0o077,
            timeout=SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise DatabaseUnavailable(f"PostgreSQL's {name} did not end within {SECONDS:.0f} seconds.") from error
    except (OSError, subprocess.SubprocessError) as error:
        if may_be_missing and isinstance(error, (FileNotFoundError, PermissionError)):
            return Finished(127, "", f"error: {error.strerror}")
        reason = error.strerror if isinstance(error, OSError) else "the account cannot be changed"
        raise DatabaseUnavailable(f"PostgreSQL's {name} could not be run as {account.name}: {reason}.") from error
    return Finished(
        done.returncode, done.stdout.decode(errors="replace"), (done.stderr or b"").decode(errors="replace")
    )


def failure(doing: str, said: str) -> PegasError:
    """The error for a PostgreSQL program that failed, with the last thing it said and no path of the machine."""
    if "No space left on device" in said or "Disk quota exceeded" in said:
        return DiskFull(f"The disk is full: {doing} failed.")
    lines = [line.strip() for line in said.splitlines() if line.strip() and " LOG: " not in line]
    graded = [found.group(1) for line in lines if (found := SAID.search(line))]
    words = graded[-1] if graded else lines[0] if lines else ""
    told = ABSOLUTE_PATH.sub("(path)", words)[:300]
    return DatabaseUnavailable(f"{doing} failed: {told.rstrip('.') or 'PostgreSQL gave no reason'}.")
