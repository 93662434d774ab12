"""`python -m penstock`: the same program as `penstock`."""

from penstock.surfaces.cli import main

if __name__ == "__main__":
    main()
