"""Public functions as methods of the object that they take first."""

from __future__ import annotations

from importlib import import_module
from types import MethodType
from typing import Any


class PublicFunction:
    """Makes `fit.forecast(at)` mean `bayeslaw.forecast(fit, at)`, whose help and signature it shows.

    The function is looked up among the package's public names when it is called: the packages that hold it import the object's own,
    not the other way round.
    """

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, instance: object | None, owner: type) -> Any:
        function = getattr(import_module("bayeslaw"), self.name)
        return function if instance is None else MethodType(function, instance)
