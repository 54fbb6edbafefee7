"""`firth pretrain`."""

from typing import Any


def pretrain(**options: Any) -> None:
    """Pretrain a BERT or a language model of your own on your own text.

    Example: firth pretrain letters/ -o base/ --minutes 60
    """
    from firth.base.clock import Clock
    from firth.verbs.pretrain import pretrain as run

    run(clock=Clock(of_process=True), **options)
