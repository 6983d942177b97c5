"""A report from the records alone: one page of HTML that needs nothing else, the same in Markdown, the plots as SVG."""

from zonda_lab.report.build import write

__all__ = ["write"]
