"""The curves of the paper: trend filters, sketches, bases and least squares."""
