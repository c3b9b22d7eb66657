from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

import nco.labelling
from nco.data.label_shards import LabelShards, join_shards
from nco.data.labels import read_labels
from nco.data.sets import read_set_entries, write_set
from nco.data.sources import GeneratorSource, SetSource
from nco.errors import InstanceFormatError, SolverUnavailable, UsageError
from nco.instance import Instance, Reference
from nco.labelling import LabellingError, label
from nco.solution import Solution, routes_cost, split_giant_tour

TSP = GeneratorSource("uniform", "tsp", 8, seed=5, count=23)
CVRP = GeneratorSource("uniform", "cvrp", 10, seed=5, count=23, options={"capacity": [20, 40]})


class Shuffle:
    """A solver whose tour is a random permutation, one customer a route; it fails where it is told to."""

    problems = ("tsp", "cvrp")

    def __init__(self) -> None:
        self.solved: list[str] = []
        self.failing: dict[str, Exception] = {}

    def solve(self, instances: Sequence[Instance], *, seed: int, time_limit=None, progress=None) -> list[Solution]:
        """Shuffle the one instance's nodes with the seed."""
        [instance] = instances
        if instance.name in self.failing:
            raise self.failing[instance.name]
        self.solved.append(instance.name)
        order = np.random.default_rng(seed).permutation(instance.num_customers)
        return [Solution.judged(instance, [order] if instance.problem == "tsp" else [[node + 1] for node in order])]


@pytest.fixture
def solver(monkeypatch: pytest.MonkeyPatch) -> Shuffle:
    """Put the one shuffling solver behind every name."""
    one = Shuffle()
    monkeypatch.setattr(nco.labelling, "make_solver", lambda name, options: one)
    return one


@pytest.fixture
def threads():
    """Return an executor of one's own: threads, which share the solver with the test."""
    with ThreadPoolExecutor(2) as pool:
        yield pool


def run(source, folder: Path, executor: Executor, **options) -> LabelShards:
    """Label with the shuffling solver in shards of 5."""
    arguments = {"seed": 3, "shard_size": 5, **options}
    return label(source, "shuffle", {}, folder, executor=executor, **arguments)


def contents(folder: Path) -> dict[str, bytes]:
    """Return the bytes of all files of a folder."""
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.mark.parametrize("source", [TSP, CVRP], ids=["tsp", "cvrp"])
def test_every_instance_has_its_own_tour(source, solver, threads, tmp_path: Path) -> None:
    """In an executor that was passed in, all instances are solved, and each label belongs to its instance."""
    labels = run(source, tmp_path, threads).labels()
    assert len(solver.solved) == len(set(solver.solved)) == 23
    assert labels.tours.dtype == np.uint8
    for tour, cost, instance in zip(labels.tours, labels.cost, source.instances(0, 23), strict=True):
        assert routes_cost(instance, split_giant_tour(source.problem, tour)) == cost


def test_folder_reads_as_a_labelled_set(solver, threads, tmp_path: Path) -> None:
    """A finished folder gives the instances that were labelled, with their own capacities."""
    run(CVRP, tmp_path, threads)
    labels = read_labels(tmp_path)
    assert labels.demand is not None
    assert labels.capacity is not None
    for row, instance in enumerate(CVRP.instances(0, 23)):
        np.testing.assert_array_equal(labels.coords[row], np.asarray(instance.coords, dtype=np.float32))
        np.testing.assert_array_equal(labels.demand[row], instance.demand)
        assert labels.capacity[row] == instance.capacity


def test_joined_shards_are_a_set_with_references(solver, threads, tmp_path: Path) -> None:
    """Joined, the labels are a set whose references are the solver's costs, and the same labelled set."""
    run(CVRP, tmp_path / "shards", threads)
    join_shards(tmp_path / "shards", tmp_path / "set.npz")
    for entry in read_set_entries(tmp_path / "set.npz"):
        assert entry.routes is not None
        assert entry.instance.reference == Reference(routes_cost(entry.instance, entry.routes), "shuffle")
    joined, folder = read_labels(tmp_path / "set.npz"), read_labels(tmp_path / "shards")
    for field in ("coords", "tours", "demand", "capacity", "cost"):
        np.testing.assert_array_equal(getattr(joined, field), getattr(folder, field))
        assert getattr(joined, field).dtype == getattr(folder, field).dtype


def test_set_file_is_labelled_and_must_stay_the_same(solver, threads, tmp_path: Path) -> None:
    """The instances of a set file are labelled in its order; once the file has changed, the labels are of no use."""
    path = tmp_path / "set.npz"
    write_set(TSP.instances(0, 12), path)
    run(SetSource(path), tmp_path / "shards", threads)
    np.testing.assert_array_equal(
        read_labels(tmp_path / "shards").coords[11], np.float32(TSP.instances(11, 12)[0].coords)
    )
    write_set(TSP.instances(1, 13), path)
    with pytest.raises(UsageError, match=r"set\.npz has changed"):
        read_labels(tmp_path / "shards")
    with pytest.raises(UsageError, match="source"):
        run(SetSource(path), tmp_path / "shards", threads)


def test_labels_do_not_depend_on_shards(solver, threads, tmp_path: Path) -> None:
    """The same labels come in shards of any size."""
    small = run(TSP, tmp_path / "small", threads, shard_size=2).labels()
    large = run(TSP, tmp_path / "large", threads, shard_size=100).labels()
    np.testing.assert_array_equal(small.tours, large.tours)
    np.testing.assert_array_equal(small.cost, large.cost)


def test_stopped_run_resumes_without_loss_or_repetition(solver, threads, tmp_path: Path) -> None:
    """After a stop only the shards that were not written are solved, and the folder is as if unbroken."""
    run(CVRP, tmp_path / "unbroken", threads)
    solver.solved.clear()

    def stop(done: int, total: int) -> None:
        if done >= 10:
            raise KeyboardInterrupt

    with ThreadPoolExecutor(1) as pool, pytest.raises(KeyboardInterrupt):
        run(CVRP, tmp_path / "broken", pool, progress=stop)
    assert len(contents(tmp_path / "broken")) == 3  # the manifest and two shards
    solver.solved.clear()
    calls = []
    run(CVRP, tmp_path / "broken", threads, progress=lambda *call: calls.append(call))
    assert contents(tmp_path / "broken") == contents(tmp_path / "unbroken")
    assert calls[0] == (10, 23)
    assert calls[-1] == (23, 23)
    assert len(solver.solved) == 13


def test_finished_folder_is_left_alone(solver, threads, tmp_path: Path) -> None:
    """A second call solves nothing and changes nothing."""
    run(TSP, tmp_path, threads)
    before = contents(tmp_path)
    solver.solved.clear()
    run(TSP, tmp_path, threads)
    assert solver.solved == []
    assert contents(tmp_path) == before


def test_failures_are_reported_and_retried(solver, threads, tmp_path: Path) -> None:
    """A failing instance is named with its reason, the others are labelled, and the next call solves it alone."""
    solver.failing = {"tsp8-uniform-7": ValueError("no luck"), "tsp8-uniform-21": RuntimeError("broken")}
    with pytest.raises(LabellingError, match="instance 7: ValueError: no luck; instance 21: RuntimeError: broken") as e:
        run(TSP, tmp_path, threads)
    assert set(e.value.failures) == {7, 21}
    with pytest.raises(UsageError, match="instance 7 has no tour"):
        LabelShards.open(tmp_path).labels()
    solver.failing, solver.solved = {}, []
    run(TSP, tmp_path, threads)
    assert sorted(solver.solved) == ["tsp8-uniform-21", "tsp8-uniform-7"]
    run(TSP, tmp_path.with_name("whole"), threads)
    assert contents(tmp_path) == contents(tmp_path.with_name("whole"))


def test_unavailable_solver_ends_the_run(solver, threads, tmp_path: Path) -> None:
    """A missing executable is not a failure of each instance: it ends the run with the install line."""
    solver.failing = {f"tsp8-uniform-{number}": SolverUnavailable("install it") for number in range(23)}
    with pytest.raises(SolverUnavailable, match="install it"):
        run(TSP, tmp_path, threads)


@pytest.mark.parametrize(
    ("change", "entry"),
    [
        ({"seed": 4}, "seed 3 instead of 4"),
        ({"shard_size": 6}, "shard_size 5 instead of 6"),
        ({"time_limit": 1.0}, "time_limit None instead of 1.0"),
    ],
)
def test_other_arguments_need_another_folder(solver, threads, tmp_path: Path, change, entry: str) -> None:
    """Resuming with another seed, shard size or time limit is an error that names the difference."""
    run(TSP, tmp_path, threads)
    with pytest.raises(UsageError, match=entry):
        run(TSP, tmp_path, threads, **change)


def test_other_instances_need_another_folder(solver, threads, tmp_path: Path) -> None:
    """Resuming with other instances is an error."""
    run(TSP, tmp_path, threads)
    with pytest.raises(UsageError, match="source"):
        run(GeneratorSource("uniform", "tsp", 8, seed=6, count=23), tmp_path, threads)


def test_corrupt_shard_is_named(solver, threads, tmp_path: Path) -> None:
    """A truncated shard stops the run before anything is solved."""
    shards = run(TSP, tmp_path, threads)
    path = shards.path(shards.parts()[2])
    path.write_bytes(path.read_bytes()[:-50])
    solver.solved.clear()
    with pytest.raises(InstanceFormatError, match=rf"{path.name}: is a corrupt shard"):
        run(TSP, tmp_path, threads)
    assert solver.solved == []


def test_flipped_bits_never_pass_for_labels(solver, threads, tmp_path: Path) -> None:
    """Whichever byte of a shard is damaged, reading it fails with its name or still gives the right labels."""
    shards = run(TSP, tmp_path, threads)
    part = shards.parts()[1]
    whole, sound = shards.path(part).read_bytes(), shards.read(part)
    assert sound is not None
    refused = 0
    for position in range(0, len(whole), 23):
        shards.path(part).write_bytes(whole[:position] + bytes([whole[position] ^ 0x55]) + whole[position + 1 :])
        try:
            found = shards.read(part)
        except InstanceFormatError as error:
            assert shards.path(part).name in str(error)  # noqa: PT017 -- either outcome is right, see below
            refused += 1
        else:
            assert found is not None
            np.testing.assert_array_equal(found.tours, sound.tours)
            np.testing.assert_array_equal(found.cost, sound.cost)
    assert refused > len(whole) // 23 // 2


def test_foreign_shard_is_named(solver, threads, tmp_path: Path) -> None:
    """A shard of another run, or one that was renamed, is refused."""
    run(TSP, tmp_path / "one", threads)
    shards = run(TSP, tmp_path / "two", threads, seed=9)
    path = shards.path(shards.parts()[1])
    path.write_bytes((tmp_path / "one" / path.name).read_bytes())
    with pytest.raises(InstanceFormatError, match=rf"{path.name}: is a shard of other labels"):
        run(TSP, tmp_path / "two", threads, seed=9)
    path.rename(path.with_name("labels-000000003.npz"))
    with pytest.raises(UsageError, match=r"labels-000000003\.npz: is no shard"):
        run(TSP, tmp_path / "two", threads, seed=9)


def test_labels_without_a_manifest_are_not_overwritten(solver, threads, tmp_path: Path) -> None:
    """A folder that has lost its manifest is refused."""
    run(TSP, tmp_path, threads)
    (tmp_path / "manifest.json").unlink()
    with pytest.raises(UsageError, match="without a manifest"):
        run(TSP, tmp_path, threads)


def test_unfinished_folder_is_no_labelled_set(solver, threads, tmp_path: Path) -> None:
    """Reading a folder that lacks a shard names the shard."""
    shards = run(TSP, tmp_path, threads)
    shards.path(shards.parts()[3]).unlink()
    with pytest.raises(UsageError, match=r"labels-000000015\.npz: is not there yet"):
        read_labels(tmp_path)


def test_problem_that_the_solver_cannot_solve_is_refused(solver, threads, tmp_path: Path) -> None:
    """A TSP solver is not given CVRPs."""
    solver.problems = ("tsp",)
    with pytest.raises(UsageError, match="does not solve a CVRP"):
        run(CVRP, tmp_path, threads)


def test_few_shards_are_under_way(solver, tmp_path: Path) -> None:
    """No more than twice as many shards as workers are submitted at once, so memory stays bounded."""
    open_tasks, most = 0, 0

    class Counting(ThreadPoolExecutor):
        def submit(self, *task, **kwargs):
            nonlocal open_tasks, most
            open_tasks += 1
            most = max(most, open_tasks)
            return super().submit(*task, **kwargs)

    def finished(done: int, total: int) -> None:
        nonlocal open_tasks
        open_tasks -= done > 0

    with Counting(1) as pool:
        run(TSP, tmp_path, pool, shard_size=1, workers=2, progress=finished)
    assert most == 4
