"""Logs of training programs as one table of runs."""
