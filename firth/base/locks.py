"""Who holds a lock that a process took with `flock` and put its number into."""

import re
from pathlib import Path

LOCKS = Path("/proc/locks")


def is_held(path: Path) -> bool | None:
    """Tell whether the process that is named in a lock's file holds it; None where nobody can say.

    The lock is not tried: one that is taken only to look would be in the way of a run that begins.
    """
    try:
        inode = path.stat().st_ino
        process = path.read_text(encoding="utf-8").strip()
        held = LOCKS.read_text(encoding="utf-8")
    except FileNotFoundError:
        return None if path.exists() else False
    except (OSError, UnicodeDecodeError):
        return None
    found = rf"^\d+: FLOCK +\w+ +\w+ +{re.escape(process)} \S+:{inode} "
    return re.search(found, held, re.MULTILINE) is not None
