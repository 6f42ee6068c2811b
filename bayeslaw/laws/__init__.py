"""Formulas, priors and laws, and the cards that describe them."""
