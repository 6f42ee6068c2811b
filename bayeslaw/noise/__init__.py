"""How a logged loss scatters around its law: point noise, run and checkpoint effects."""
