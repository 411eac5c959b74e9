"""Compiled loops that draw, fit and score common linear models, for millions of small fits.

``kernel`` says which estimators have a loop, runs blocks of replicates and has the draw in numpy, all without a
compiler. The loops do: ``replicate`` has what surrounds a fit, ``models`` the fits, ``algebra`` their linear
algebra, and ``compile`` how all of it is compiled.
"""
