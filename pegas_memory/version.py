"""The version of the product: the installed package's, or the checkout's."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version

try:
    VERSION = version("pegas-memory")
except PackageNotFoundError:
    VERSION = "0+checkout"
