"""The version of the installed package."""

from importlib.metadata import PackageNotFoundError, version

try:
    __version__ = version("gemmd-client")
except PackageNotFoundError:  # a copy of the sources on the path
    __version__ = "0+unknown"
