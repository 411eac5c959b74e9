"""Curve methods: from losses b at levels p to the curve e_0, …, e_n. One file per kind of method."""
