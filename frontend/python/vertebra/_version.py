"""The version of the package; it is that of the library it calls."""

__version__ = "0.1.0"
