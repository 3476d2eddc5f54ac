"""Reports from what was sealed: tables, figures and numbers as HTML, Markdown and LaTeX."""
