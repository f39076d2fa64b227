"""The reasons why a side has no time for a row."""


class Absent(Exception):
    """Raised with a reason by a side that does not measure a row."""


class Failed(Absent):
    """Raised by a side that should measure a row and failed."""
