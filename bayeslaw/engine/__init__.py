"""The compiled log density and its coordinates, and the map under which NUTS samples it."""
