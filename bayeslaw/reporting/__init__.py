"""One page and LaTeX files that report fits, forecasts and decisions."""
