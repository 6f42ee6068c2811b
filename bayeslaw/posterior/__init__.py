"""What a fit is: draws, checks, sensitivity to priors, and the file that keeps it."""
