"""Errors as the program has them: one line, `WHAT; WHERE; WHAT TO DO`."""


class Error(RuntimeError):
    """Something failed that the caller's input is not to blame for."""


class InputError(Error, ValueError):
    """The input is at fault: a name, a shape, a file, an option."""
