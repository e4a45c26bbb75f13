"""``python -m nccldoctor`` is the command ``nccldoctor``.

Python imports from the working directory then. Nothing of ours comes from there, unless it is the checkout itself: a ``json.py`` among
logs of a stranger is no module.
"""

import os
import sys

if not sys.flags.safe_path and sys.path[:1] != [os.path.dirname(os.path.dirname(os.path.realpath(__file__)))]:  # noqa: PTH120
    del sys.path[:1]

from nccldoctor.cli.app import main

if __name__ == "__main__":
    main()
