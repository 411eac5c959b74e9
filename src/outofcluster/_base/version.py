"""The version of the package, kept where every room can read it without importing the others."""

__version__ = "0.1.0.dev0"
