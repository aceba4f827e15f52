"""dlsim as a command, of an environment or by `python -m dlscale`."""

import os
import sys

from dlscale import Error, _program


def main() -> None:
    try:
        program = _program("dlsim")
    except Error as error:
        sys.exit(f"dlsim: {error}")
    os.execv(program, ["dlsim", *sys.argv[1:]])


if __name__ == "__main__":
    main()
