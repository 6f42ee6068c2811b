"""The fit: draws, checks, sensitivity to priors, and its file."""
