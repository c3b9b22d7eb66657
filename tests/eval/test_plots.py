"""nco.eval.plots: pictures and curves."""

import subprocess
import sys

import numpy as np

from nco.eval.plots import curve_figure, mean_curve, to_png, tour_figure
from nco.instance import Instance

PNG = b"\x89PNG\r\n"


def test_mean_curve_by_hand():
    """From the last first solution on, the best costs so far are averaged."""
    traces = [[(1, 12.0), (3, 11.0)], [(2, 30.0), (4, 40.0), (5, 20.0)]]
    seconds, gaps = mean_curve(traces, [10.0, 20.0])
    np.testing.assert_allclose(seconds, [2, 3, 4, 5])
    np.testing.assert_allclose(gaps, [35.0, 30.0, 30.0, 5.0])


def test_mean_curve_thins_long_traces_and_keeps_the_end():
    """Ten thousand points become a few hundred, and the first and the last gap stay."""
    trace = [(0.01 * step, 10.0 + 1.0 / step) for step in range(1, 10_001)]
    seconds, gaps = mean_curve([trace], [10.0])
    assert len(seconds) <= 201
    np.testing.assert_allclose(gaps[[0, -1]], [10.0, 0.001])


def test_pictures_are_png():
    """Maps of several solutions and curves become PNG files."""
    instance = Instance("x", "tsp", np.random.default_rng(1).random((6, 2)))
    maps = tour_figure(instance, {f"solver {number}": [np.arange(6)] for number in range(5)})
    assert len(maps.axes) == 5
    assert to_png(maps).startswith(PNG)
    assert to_png(curve_figure({"a": (np.array([1.0]), np.array([2.0]))})).startswith(PNG)


def test_modules_import_no_plotting_library():
    """Importing the evaluation does not import matplotlib, rich or scipy.stats."""
    code = (
        "import sys, nco.eval.page, nco.cli.solve, nco.cli.evaluate;"
        "print([name for name in ('matplotlib', 'rich', 'scipy.stats', 'numba') if name in sys.modules])"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"
