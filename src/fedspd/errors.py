"""The one exception that means "the input is wrong", as opposed to "the program is"."""


class InputError(ValueError):
    """Input that cannot be used; its text says what was expected, what was got, and the remedy.

    The command line prints the text and exits with code 2; nothing has been written by then.
    """
