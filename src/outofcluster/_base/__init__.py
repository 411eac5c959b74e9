"""What every room uses: checked arguments, plain data, files written whole, exceptions."""
