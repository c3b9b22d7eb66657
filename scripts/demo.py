"""The demonstration of ``make demo``: a neural solver beside LKH, HGS and heuristics, in tables and pictures."""

import sys
from pathlib import Path

from nco import shelf
from nco.eval.evaluator import evaluate
from nco.eval.page import figures, write_page
from nco.eval.plots import to_png
from nco.eval.report import result_tables, summary_table
from nco.eval.suite import read_suite
from nco.progress import track


def main() -> int:
    out = Path("out/demo")
    # Solved anew each time: a demonstration of records that are there already would show nothing.
    for former in ("suite.json", "records.jsonl"):
        (out / former).unlink(missing_ok=True)
    with track(1, "demo") as progress:
        comparison = evaluate(read_suite(shelf("eval") / "demo.yaml"), out, progress=progress)
    for table in result_tables(comparison.records):
        table.show()
        print()
    summary_table(comparison.records).show()
    for title, figure in figures(comparison).items():
        (out / f"{title.replace(' ', '-').replace(',', '').lower()}.png").write_bytes(to_png(figure))
    write_page(comparison, out / "report.html")
    print(f"\nPictures and {out / 'report.html'} are written.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
