"""What can be wrong with a file."""

from semcast.terms.errors import SemcastError


class BadFile(SemcastError):
    """A file that is not what it should be; one line names the file, the place and the reason."""
