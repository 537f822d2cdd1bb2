"""Takes the command lines of gazctl that the interop tests use, and has ``windrow`` do them.

It stands in where no gazctl is given, so that the tests themselves are known to work.
"""

from __future__ import annotations

import os
import sys

from windrow.cli.main import main

if __name__ == "__main__":
    noun, verb, *flags = sys.argv[1:]
    assert noun == "journals"
    if verb == "reset-head":
        flags.append("--yes")  # which gazctl does not ask for
    address = os.environ["BROKER_ADDRESS"]
    sys.exit(main(["journal", verb, "--broker", address, *flags]))
