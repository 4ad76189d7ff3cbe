"""`fedspd` and `python -m fedspd`. Ctrl-C while the program is still being imported ends it without a word."""

import signal


def main() -> None:
    """Import the program, which takes a moment, and run it."""
    before = signal.signal(signal.SIGINT, signal.SIG_DFL)
    from fedspd import cli

    signal.signal(signal.SIGINT, before)
    cli.main()


if __name__ == "__main__":
    main()
