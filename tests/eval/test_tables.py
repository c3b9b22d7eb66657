"""nco.eval.tables: one table in four forms."""

import io

from nco.eval.tables import Table, format_cost, format_gap, format_seconds

TABLE = Table(("name", "cost"), [("a|b", "7"), ("<c>", "10.5")], title="Costs")


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        """Say yes."""
        return True


def test_plain_lines_are_aligned():
    """Names stand to the left, numbers to the right, and no line ends in blanks."""
    assert TABLE.plain() == "Costs\nname  cost\na|b      7\n<c>   10.5"


def test_markdown_escapes_bars():
    """A bar in a cell does not end the cell."""
    assert TABLE.markdown() == "### Costs\n\n| name | cost |\n| --- | ---: |\n| a\\|b | 7 |\n| <c> | 10.5 |"


def test_html_escapes_tags():
    """A name such as <c> is text."""
    assert "<td>&lt;c&gt;</td>" in TABLE.html()
    assert "<c>" not in TABLE.html()


def test_rich_only_on_a_terminal():
    """A terminal gets rules, anything else the plain lines; markup in names is text on both."""
    table = Table(("name",), [("[red]x",)])
    terminal, file = Terminal(), io.StringIO()
    table.show(terminal)
    table.show(file)
    assert file.getvalue() == "name\n[red]x\n"
    assert "[red]x" in terminal.getvalue()
    assert "──" in terminal.getvalue()


def test_formats():
    """Whole costs have no decimals, and what is unknown is a dash."""
    assert [format_cost(cost) for cost in (7542.0, 7.65432, 1234.56, None)] == ["7542", "7.6543", "1234.6", "-"]
    assert [format_gap(-0.126), format_gap(None)] == ["-0.13 %", "-"]
    assert [format_seconds(0.1234), format_seconds(123.45), format_seconds(None)] == ["0.123 s", "123.5 s", "-"]
