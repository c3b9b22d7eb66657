"""What solvers share that work on same-size instances at once: batches, device, threads, traces."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import torch
from numpy.typing import NDArray

from nco.errors import UsageError
from nco.instance import Instance
from nco.solution import Solution
from nco.solvers.base import Progress, check_whole, require_problem

logger = logging.getLogger(__name__)

TRACE_POINTS = 200


class BatchedSolver:
    """A solver of same-size instances; a subclass says how a batch of them is solved.

    Parameters
    ----------
    batch_size : int
        Instances of one size that are solved together.
    device : str
        "auto" takes a GPU where there is one.
    threads : int, optional
        Of PyTorch on a CPU; by default what PyTorch is set to.
    """

    name = "batched"
    problems: tuple[str, ...] = ("tsp", "cvrp")
    batched = True

    def __init__(self, batch_size: int = 1_000, device: str = "auto", threads: int | None = None):
        check_whole(self.name, 1, batch_size=batch_size, threads=threads)
        self.batch_size = batch_size
        self.device = choose_device(device)
        self.threads = threads

    def solve_batch(
        self, instances: list[Instance], seed: tuple[int, int], time_limit: float | None, progress: Progress | None
    ) -> list[Solution]:
        """Solve instances of one problem and size, in inference mode.

        Parameters
        ----------
        seed : (int, int)
            The seed of the call, and the number of the batch's first instance among those of its size.
        time_limit : float, optional
            Wall-clock seconds for each instance, used together.
        progress : callable, optional
            Takes steps done and steps in all.
        """
        raise NotImplementedError

    def solve(
        self,
        instances: Sequence[Instance],
        *,
        seed: int,
        time_limit: float | None = None,
        progress: Progress | None = None,
    ) -> list[Solution]:
        """Solve instances, those of one problem and size together; see :class:`nco.solvers.base.Solver`."""
        require_problem(self, instances)
        by_size: dict[tuple[str, int], list[int]] = defaultdict(list)
        for number, instance in enumerate(instances):
            by_size[instance.problem, instance.num_nodes].append(number)
        solutions: list[Solution | None] = [None] * len(instances)
        done = 0
        for numbers in by_size.values():
            for begin in range(0, len(numbers), self.batch_size):
                chunk = numbers[begin : begin + self.batch_size]
                steps = _steps_as_instances(progress, done, len(chunk), len(instances))
                with limited_threads(self.threads), torch.inference_mode():
                    solved = self.solve_batch([instances[number] for number in chunk], (seed, begin), time_limit, steps)
                for number, solution in zip(chunk, solved, strict=True):
                    solutions[number] = solution
                done += len(chunk)
                if progress is not None:
                    progress(done, len(instances))
        return [solution for solution in solutions if solution is not None]


def choose_device(device: str) -> torch.device:
    """Return the device that an option names; "auto" takes a GPU where there is one, and says so.

    Raises
    ------
    UsageError
        If there is no such device.
    """
    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
        logger.info("running on %s", device)
    try:
        chosen = torch.device(device)
        torch.empty(0, device=chosen)
    except (RuntimeError, AssertionError) as error:
        raise UsageError(f"no device {device!r} here: {str(error).splitlines()[0]}") from error
    return chosen


@contextmanager
def limited_threads(threads: int | None) -> Iterator[None]:
    """Run with so many threads of PyTorch, and set the old number again."""
    before = torch.get_num_threads()
    if threads is not None:
        torch.set_num_threads(threads)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def instance_trace(
    points: Sequence[tuple[float, NDArray]], row: int, spent: float, batch: int
) -> list[tuple[float, float]]:
    """Return (seconds, cost) points of one instance of a batch, each in its share of the batch's time.

    Parameters
    ----------
    points : list of (float, float64 [B])
        Seconds since the search began, and the costs of all instances.
    row : int
    spent : float
        Seconds before the search began.
    batch : int
        B.
    """
    step = max(len(points) // TRACE_POINTS, 1)
    kept = list(points[::step])
    if kept[-1] is not points[-1]:
        kept.append(points[-1])
    return [((spent + seconds) / batch, float(costs[row])) for seconds, costs in kept]


def iterations_as_steps(progress: Progress | None, iterations: int) -> Callable[[int], None] | None:
    """Turn a callback of (steps done, steps in all) into one of iterations done."""
    if progress is None:
        return None
    return lambda done: progress(done, iterations)


def _steps_as_instances(progress: Progress | None, done: int, now: int, total: int) -> Progress | None:
    """Turn steps on a batch of instances into instances done."""
    if progress is None:
        return None
    return lambda step, steps: progress(done + now * step // max(steps, 1), total)
