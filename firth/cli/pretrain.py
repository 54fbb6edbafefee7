"""`firth pretrain`."""

from typing import Any


def pretrain(**options: Any) -> None:
    """Pretrain a BERT, a language model or an encoder-decoder of your own on your own text.

    Example: firth pretrain letters/ -o base/ --minutes 60
    """
    from firth.base.clock import Clock
    from firth.recipes.inputs import refuse_missing_models, refuse_missing_texts

    # A run that goes on has its text already.
    if not options["resume"]:
        refuse_missing_texts([*options["corpus"], options["dev"]])
    refuse_missing_models([options["init"]])
    from firth.verbs.pretrain import pretrain as run

    run(clock=Clock(of_process=True), **options)
