"""`python -m latentmdp` is the command `latentmdp`."""

from latentmdp.cli import main

if __name__ == "__main__":
    main()
