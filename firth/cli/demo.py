"""`firth demo`."""

from firth.cli.options import Threads


def demo(threads: Threads = None) -> None:
    """Show the whole story on built-in samples.

    Example: firth demo
    """
    from firth.verbs.demo import run_demo

    run_demo(threads)
