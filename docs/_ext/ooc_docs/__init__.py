"""What these pages need beyond Sphinx: formulas without a script, and pages whose numbers come from committed files.

:mod:`.pages` is the extension; the others are plain functions from results to Markdown, and need no Sphinx.
"""
