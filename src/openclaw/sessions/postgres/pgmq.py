"""PGMQ's own SQL, which makes its queues on any server without an extension.

It comes with the package `pgmq`, which is pinned: the digest is that of PGMQ 1.13.0. Nothing else of
that package is used, and it is never imported.
"""

import hashlib
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

from openclaw.core.errors import MissingExtra, OperatorFacing

SHA256 = "bf7e66c75ed771df0c5f7cb2b9f0123ca77992daacd56e3911d1894a3efa99de"

_FILE = "pgmq/sql/pgmq.sql"
_GUARDED = """
DO $openclaw$ BEGIN
  IF to_regtype('pgmq.message_record') IS NULL THEN
    EXECUTE $openclaw_pgmq${script}$openclaw_pgmq$;
  END IF;
END $openclaw$;
"""


def install_script() -> str:
    """The statement that installs PGMQ where the database does not have it yet."""
    try:
        path = Path(str(distribution("pgmq").locate_file(_FILE)))
        script = path.read_bytes()
    except (PackageNotFoundError, OSError) as error:
        raise MissingExtra("a session store on PostgreSQL", "postgres") from error
    if hashlib.sha256(script).hexdigest() != SHA256:
        raise OperatorFacing(
            "the installed package 'pgmq' is not the version that this program was made for",
            hint='install it anew with: pip install "openclaw-runtime[postgres]"',
        )
    return _GUARDED.format(script=script.decode())
