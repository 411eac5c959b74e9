"""Where to spend the fits: levels of the injected fraction, and sizes of training sets."""
