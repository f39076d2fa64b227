"""What a side says that has no time of a row."""


class Absent(Exception):
    """A side that does not measure a row, and why."""


class Failed(Absent):
    """A side that should and could not."""
