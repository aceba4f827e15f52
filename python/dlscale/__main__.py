"""Entry points of the programs in a Python environment; `python -m dlscale` runs dlsim."""

import os
import sys

from dlscale import Error, _program


def main() -> None:
    name = os.path.basename(sys.argv[0])
    name = name if name in ("dlcal", "dlprof") else "dlsim"
    try:
        program = _program(name)
    except Error as error:
        sys.exit(f"{name}: {error}")
    os.execv(program, [name, *sys.argv[1:]])


if __name__ == "__main__":
    main()
