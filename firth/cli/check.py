"""`firth check`."""

import json
import sys
from typing import Any

from firth.base.errors import InputError


def check(as_json: bool, **options: Any) -> None:
    """Find what is wrong with data, before training on it.

    Example: firth check tickets.csv --text subject,body --label queue --dev later.csv
    """
    from firth.cli.show_check import many, report_as_json, report_lines
    from firth.verbs.check import check as run

    report = run(**options)
    if as_json:
        print(json.dumps(report_as_json(report)))
    else:
        print("\n".join(report_lines(report)))
    if report.errors:
        sys.stdout.flush()
        where = f"{report.data} and {report.dev}" if report.dev else report.data
        raise InputError(f"{many(report.errors, 'error')} in {where}")
