"""The version of the program that this package is for; that of CMakeLists.txt, which a test compares."""

__version__ = "0.1.0"
