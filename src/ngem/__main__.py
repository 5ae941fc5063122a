"""Starts the command, or says in one line what it needs."""

import sys


def main() -> None:
    """Run the command `ngem`; `python -m ngem` does the same."""
    try:
        from .cli import main as run
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("ngem"):
            raise  # a fault of ours
        sys.exit(
            f"Error: the command needs {error.name}, which is not installed: "
            "pip install 'ngem[tables,boost]'."
        )
    run()


if __name__ == "__main__":
    main()
