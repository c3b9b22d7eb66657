"""nco.eval.page: one page with all that it needs."""

import re
from html.parser import HTMLParser

import numpy as np
import pytest

from nco.data import write_set
from nco.eval.evaluator import evaluate
from nco.eval.page import write_page
from nco.eval.report import write_markdown
from nco.eval.suite import DataFiles, SolverEntry, Suite
from nco.instance import Instance

pytestmark = pytest.mark.usefixtures("fakes")


class Links(HTMLParser):
    """Collects whatever a page refers to, and checks that its tags are closed in order."""

    def __init__(self):
        super().__init__()
        self.links, self.open = [], []

    def handle_starttag(self, tag, attrs):
        """Note references and open tags."""
        self.links += [value for name, value in attrs if name in ("src", "href", "srcset", "data", "action")]
        if tag not in ("meta", "img", "link"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        """Close the tag that was opened last."""
        assert self.open.pop() == tag


@pytest.fixture
def comparison(tmp_path):
    """Two solvers, one of which fails, on two instances, one of which has a reference."""
    coords = np.random.default_rng(1).random((2, 6, 2))
    instances = [Instance("<first>", "tsp", coords[0]).with_reference(2.0, "optimal"), Instance("b", "tsp", coords[1])]
    write_set(instances, tmp_path / "set.npz")
    solvers = (SolverEntry("shuffled", "shuffled"), SolverEntry("fails-on", "weak", {"names": ["b"]}))
    return evaluate(Suite("a & b", (DataFiles(tmp_path / "set.npz"),), solvers), tmp_path / "out")


def test_page_is_self_contained(comparison, tmp_path):
    """Pictures are inside the page, nothing refers to anything outside, and names are escaped."""
    write_page(comparison, tmp_path / "new/out.html")
    text = (tmp_path / "new/out.html").read_text(encoding="utf-8")
    parser = Links()
    parser.feed(text)
    assert parser.open == []
    assert len(parser.links) == 2
    assert all(link.startswith("data:image/png;base64,") for link in parser.links)
    assert not re.search(r"https?:|url\(|@import|<script", text)
    assert "a &amp; b" in text
    assert "&lt;first&gt;" in text
    assert "no idea about" in text


def test_markdown(comparison, tmp_path):
    """The Markdown has the conditions and all tables; a reason of several lines stays in its row."""
    write_markdown(comparison, tmp_path / "out.md")
    lines = (tmp_path / "out.md").read_text(encoding="utf-8").splitlines()
    assert lines[0] == "## a & b"
    assert lines[2].startswith("Seed 1; nco ")
    assert sum(line.startswith("| tsp | ") for line in lines) == 2
    assert "| b | weak | ValueError: no idea about b |" in lines
