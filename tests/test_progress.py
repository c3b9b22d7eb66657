"""nco.progress: a bar on a terminal, plain lines elsewhere."""

import io

from nco.progress import track


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        """Say yes."""
        return True


def test_plain_lines_where_there_is_no_terminal():
    """The first and the last step have one line each, without control characters; steps in a hurry have none."""
    stream = io.StringIO()
    with track(4, "solve", stream=stream, every=3600) as progress:
        for done in (0, 1, 2, 3, 4, 4):
            progress(done, 4)
    assert stream.getvalue() == "solve: 0/4 (0 s)\nsolve: 4/4 (0 s)\n"


def test_plain_lines_come_at_intervals():
    """With no interval every step has its line."""
    stream = io.StringIO()
    with track(3, "solve", stream=stream, every=0) as progress:
        for done in range(4):
            progress(done, 3)
    assert [line.split(" (")[0] for line in stream.getvalue().splitlines()] == [
        "solve: 0/3",
        "solve: 1/3",
        "solve: 2/3",
        "solve: 3/3",
    ]


def test_a_total_may_change_on_the_way():
    """The lines show the total that the work reports, not the first guess."""
    stream = io.StringIO()
    with track(1, "solve", stream=stream, every=0) as progress:
        progress(1, 7)
    assert stream.getvalue().startswith("solve: 1/7")


def test_a_bar_on_a_terminal(monkeypatch):
    """A terminal gets a bar, drawn with control characters."""
    monkeypatch.setenv("TERM", "xterm")
    stream = Terminal()
    with track(2, "solve", stream=stream) as progress:
        progress(2, 2)
    assert "2/2" in stream.getvalue()
    assert "\x1b[" in stream.getvalue()
