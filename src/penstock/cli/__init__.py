"""The command line: `main` holds the commands' options, each other module what one command does."""
