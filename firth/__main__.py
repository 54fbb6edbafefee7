"""`python -m firth`, and the console script of the same name."""

from firth.cli.main import main

if __name__ == "__main__":
    main()
