"""``python -m nccldoctor`` is the command ``nccldoctor``."""

from nccldoctor.cli.app import main

if __name__ == "__main__":
    main()
