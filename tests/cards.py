"""Cards of laws that single tests need."""

from __future__ import annotations

from collections.abc import Mapping


def card(loss: str, covariates: Mapping[str, tuple[float, float]], **priors: str) -> str:
    """Return a card with this formula, covariates by their supports, and parameters by the TOML text of their priors."""
    tables = [f'name = "own"\ntitle = "a law"\nsource = "here"\nloss = "{loss}"\n[covariates]']
    tables += [f'{name} = {{ unit = "any", support = [{low}, {high}] }}' for name, (low, high) in covariates.items()]
    tables += [f'[parameters.{name}]\nmeaning = "any"\nprior = {{ {prior} }}' for name, prior in priors.items()]
    return "\n".join(tables)


POSITIVE = 'dist = "LogNormal", mu = 0, sigma = 1'
REAL = 'dist = "Normal", mu = 0, sigma = 1'
