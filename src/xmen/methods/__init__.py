"""How the gradient of a fit is found, and the steps it drives: exact, by hash cells, by the paper, for networks."""
