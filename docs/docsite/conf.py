"""Settings of Sphinx for the documentation site."""

from docsite.stage import SITE
from nccldoctor.version import __version__

project = "nccldoctor"
author = "the nccldoctor authors"
copyright = "the nccldoctor authors, Apache-2.0"
release = version = __version__

extensions = ["myst_parser", "sphinx.ext.autodoc"]
myst_heading_anchors = 4
myst_links_external_new_tab = False
autodoc_member_order = "groupwise"
autodoc_typehints = "description"

html_theme = "furo"
html_title = "nccldoctor"
html_baseurl = SITE
html_copy_source = False
html_show_sourcelink = False
html_extra_path = ["extra"]
templates_path: list[str] = []
exclude_patterns = ["extra"]
html_theme_options = {"top_of_page_buttons": []}
