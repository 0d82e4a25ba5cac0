"""`python -m xmen.cli` is `xmen`."""

from xmen.cli import main

if __name__ == "__main__":
    main()
