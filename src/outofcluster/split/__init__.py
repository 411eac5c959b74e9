"""Which records train and which are held out, and clustering errors made on purpose."""
