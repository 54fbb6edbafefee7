"""`firth env`."""

import json


def env(as_json: bool) -> None:
    """Show versions, threads and what this machine can do.

    Example: firth env --json
    """
    from firth.verbs.env import env as describe

    facts = describe()._asdict()
    if as_json:
        print(json.dumps(facts))
        return
    facts["devices"] = ", ".join(facts["devices"])
    packages = facts.pop("packages")
    for name, value in {**facts, **packages}.items():
        print(f"{name:14} {value if value is not None else 'not installed'}")
