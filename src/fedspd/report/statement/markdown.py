"""A privacy statement as Markdown."""

from fedspd.escaping import escaped
from fedspd.report.page import Section
from fedspd.report.statement.sections import statement_sections, statement_title
from fedspd.report.text import grid_markdown, in_markdown
from fedspd.results import Statement

LISTED = 3  # paragraphs from which on they are a list


def statement_markdown(statement: Statement, warning: str = "") -> str:
    """The whole statement; in place of the picture stands its table."""
    return sections_markdown(statement_title(statement), statement_sections(statement, warning))


def sections_markdown(title: str, sections: tuple[Section, ...], lead: str = "") -> str:
    """Sections under a title, without their charts."""
    begin = [f"# {in_markdown(title)}", *([in_markdown(lead)] if lead else [])]
    return "\n\n".join(begin) + "\n\n" + "\n".join(_section(section) for section in sections)


def _section(section: Section) -> str:
    mark = "- " if len(section.text) > LISTED else ""
    text = ("\n" if mark else "\n\n").join(f"{mark}{in_markdown(one)}" for one in section.text)
    grids = [grid_markdown(grid) if grid.rows else grid.note for grid in section.grids if grid.rows or grid.note]
    return "\n\n".join([f"## {in_markdown(escaped(section.title))}", *([text] if text else []), *grids]).rstrip() + "\n"
