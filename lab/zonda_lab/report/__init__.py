"""Reports built from the records alone: one self-contained HTML page, the same as Markdown, and plots as SVG."""

from zonda_lab.report.build import write

__all__ = ["write"]
