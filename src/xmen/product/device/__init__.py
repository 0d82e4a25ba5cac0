"""Dynamic programming on the product by torch, on a GPU or on the CPU: the second back-end of `Layered`."""
