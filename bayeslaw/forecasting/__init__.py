"""Posterior draws of the loss at settings, and several fits weighted into one."""
