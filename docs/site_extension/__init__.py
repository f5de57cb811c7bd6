"""The Sphinx extension of the site: `pages` describes it."""

from .pages import setup as setup
