"""Public functions that are also methods of the object that they take first."""

from __future__ import annotations

from importlib import import_module
from types import MethodType
from typing import Any


class PublicFunction:
    """Makes `fit.forecast(at)` mean `bayeslaw.forecast(fit, at)`, whose help and signature it shows.

    The function is looked up among the package's public names when it is called, because the package that holds it imports the
    object's.
    """

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, instance: object | None, owner: type) -> Any:
        function = getattr(import_module("bayeslaw"), self.name)
        return function if instance is None else MethodType(function, instance)
