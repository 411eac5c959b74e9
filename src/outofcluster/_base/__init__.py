"""What every room uses: checks of arguments, seeds, plain data, files that are written whole, and exceptions."""
