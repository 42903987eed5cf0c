"""One site of the documents, and of what modules, plugins and roles say of themselves: see build.sh."""

project = "gpulab"
copyright = "The gpulab founders"  # noqa: A001  Sphinx's name
extensions = ["myst_parser", "sphinx_antsibull_ext"]
root_doc = "docs/site/index"
include_patterns = ["*.md", "docs/**.md", "examples/**.md", "roles/*/README.md", ".site/collection/**"]
exclude_patterns = ["docs/site/html"]
suppress_warnings = [
    "ref.ref",  # labels of Ansible's own documentation
    "toc.not_included",  # the roles' READMEs are linked, not listed: the collection's pages say the same
    "myst.header",
]
myst_heading_anchors = 4
smartquotes = False  # -- of an option stays two hyphens, for whoever copies it
html_theme = "furo"
html_title = "gpulab"
