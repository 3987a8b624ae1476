"""The log broker: sockets and requests on one side, partition logs on the other."""

import sys

from headrace.errors import HeadraceError

if sys.platform == "win32":
    # Otherwise the first import of `fcntl` would be the error.
    raise HeadraceError(
        "Headrace's broker does not run on Windows: it needs the file locks and the fsync of POSIX",
        hint="run it in WSL or on a Linux machine; the commands and headrace.queue reach it there by --bootstrap",
    )
