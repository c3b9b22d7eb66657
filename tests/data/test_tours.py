from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nco.data import read_instance, read_routes, read_solution, read_tour, write_routes, write_solution, write_tour
from nco.errors import UsageError
from nco.instance import Instance
from nco.solution import Routes, Solution

SQUARE = np.array([[0, 0], [3, 0], [3, 4], [0, 4]])


def tsp(node_ids: list[int]) -> Instance:
    """Return a rectangle whose nodes have these ids."""
    return Instance("rectangle", "tsp", SQUARE, "EUC_2D", node_ids=np.array(node_ids))


def cvrp(node_ids: list[int], capacity: int = 10) -> Instance:
    """Return a depot with three customers of the demands 4, 5 and 6."""
    demand = np.array([0, 4, 5, 6])
    return Instance("depot", "cvrp", SQUARE, "EUC_2D", demand=demand, capacity=capacity, node_ids=np.array(node_ids))


def as_lists(routes: Routes) -> list[list[int]]:
    """Return routes as plain lists."""
    return [route.tolist() for route in routes]


@pytest.mark.parametrize(
    "text",
    [
        "NAME : x\nTYPE : TOUR\nDIMENSION : 4\nTOUR_SECTION\n1\n3\n4\n2\n-1\nEOF\n",
        "TOUR_SECTION\n1 3 4 2 -1\n",
        "TOUR_SECTION\r\n1 3\r\n4 2\r\n-1\r\n-1\r\nEOF\r\n",
        "TOUR_SECTION\n1 3 4\n2",
    ],
)
def test_tour_in_any_layout(tmp_path: Path, text: str) -> None:
    """A tour reads the same on one line or many, with or without its end."""
    (tmp_path / "any.tour").write_text(text, newline="")
    assert as_lists(read_tour(tmp_path / "any.tour", tsp([1, 2, 3, 4]))) == [[0, 2, 3, 1]]


def test_tour_is_written_and_read_in_the_file_s_own_ids(tmp_path: Path) -> None:
    """The ids in a tour file are those of the instance's file."""
    instance = tsp([5, 10, 20, 30])
    solution = Solution.judged(instance, [np.array([2, 0, 3, 1])])
    write_tour(solution, instance, tmp_path / "own.tour")
    lines = (tmp_path / "own.tour").read_text().splitlines()
    start = lines.index("TOUR_SECTION")
    assert lines[start + 1 :] == ["20", "5", "30", "10", "-1", "EOF"]
    assert as_lists(read_tour(tmp_path / "own.tour", instance)) == [[2, 0, 3, 1]]


def test_customers_of_a_solution_are_numbered_without_the_depot(tmp_path: Path) -> None:
    """Customer k of a .sol file is the k-th node by id that is not the depot, wherever the depot stands."""
    instance = cvrp([20, 10, 30, 40])
    (tmp_path / "new.sol").write_text("Route #1: 3 1\nRoute #2: 2\nCost 99\n")
    assert as_lists(read_solution(tmp_path / "new.sol", instance)) == [[3, 1], [2]]


def test_customer_numbers_follow_ids_even_when_the_nodes_do_not(tmp_path: Path) -> None:
    """For nodes in another order than their ids, a .vrp file and a .sol file still belong together."""
    instance = cvrp([20, 40, 30, 10])
    solution = Solution.judged(instance, [np.array([3, 1]), np.array([2])])
    write_solution(solution, instance, tmp_path / "mixed.sol")
    assert (tmp_path / "mixed.sol").read_text() == "Route #1: 1 3\nRoute #2: 2\nCost 22\n"
    assert as_lists(read_solution(tmp_path / "mixed.sol", instance)) == [[3, 1], [2]]


@pytest.mark.parametrize(
    "text",
    [
        "Route #1: 3 1\nRoute #2: 2\nCost 784\n",
        "Route #1: 3 1\nRoute #2: \nRoute #3: 2\ncost: 7.5\nTime 1.5\n",
        "\r\nroute 1:3 1\r\nROUTE #2 : 2\r\n",
    ],
)
def test_new_form_in_any_hand(tmp_path: Path, text: str) -> None:
    """Letter case, empty routes, line ends and further statements make no difference."""
    (tmp_path / "new.sol").write_text(text, newline="")
    assert as_lists(read_solution(tmp_path / "new.sol", cvrp([1, 2, 3, 4]))) == [[3, 1], [2]]


def test_old_form_is_read(tmp_path: Path) -> None:
    """The old form gives cost, number of routes and times, then a line of figures and visits per route."""
    text = "27591\n2\n12.5\n0\n0 1 1 783 10 4 0 3 1 0\n0 1 2 400.5 5 3 0 2 0\n"
    (tmp_path / "old.sol").write_text(text)
    assert as_lists(read_solution(tmp_path / "old.sol", cvrp([1, 2, 3, 4]))) == [[3, 1], [2]]


def test_old_and_new_form_of_a_published_solution_agree(shared: Path, tmp_path: Path) -> None:
    """X-n101-k25's solution in the old form is the same 26 routes of the cost 27591."""
    folder = shared / "bench" / "cvrplib"
    instance = read_instance(folder / "X-n101-k25.vrp")
    routes = read_solution(folder / "X-n101-k25.sol", instance)
    lines = ["27591", str(len(routes)), "0", "0"]
    for row, route in enumerate(routes, 1):
        lines.append(f"0 1 {row} 783 {instance.demand[route].sum()} {len(route) + 2} 0 {' '.join(map(str, route))} 0")
    (tmp_path / "old.sol").write_text("\n".join(lines))
    old = read_solution(tmp_path / "old.sol", instance)
    assert as_lists(old) == as_lists(routes)
    assert Solution.judged(instance, old).cost == 27591


@settings(derandomize=True, deadline=None, max_examples=60)
@given(data=st.data(), size=st.integers(2, 30), problem=st.sampled_from(["tsp", "cvrp"]))
def test_written_routes_read_back(tmp_path_factory: pytest.TempPathFactory, data, size: int, problem: str) -> None:
    """Any solution that is written reads back as the same routes, whatever the ids."""
    ids = np.array(data.draw(st.permutations(range(0, 3 * size, 3))))
    coords = np.arange(2.0 * size).reshape(size, 2)
    order = np.array(data.draw(st.permutations(range(int(problem == "cvrp"), size))))
    if problem == "tsp":
        instance, routes = Instance("any", "tsp", coords, node_ids=ids), [order]
    else:
        demand = np.minimum(np.arange(size), 1)
        instance = Instance("any", "cvrp", coords, demand=demand, capacity=size, node_ids=ids)
        cuts = sorted(data.draw(st.sets(st.integers(1, max(1, len(order) - 1)), max_size=5)))
        routes = [route for route in np.split(order, cuts) if len(route)]
    path = tmp_path_factory.getbasetemp() / "routes"
    write_routes(Solution.judged(instance, routes), instance, path)
    assert as_lists(read_routes(path, instance)) == as_lists(routes)


def test_the_other_problem_s_file_is_refused(tmp_path: Path) -> None:
    """Tours are for a TSP and .sol files for a CVRP, on both ways."""
    with pytest.raises(UsageError, match="is a cvrp"):
        read_tour(tmp_path / "x.tour", cvrp([1, 2, 3, 4]))
    with pytest.raises(UsageError, match="is a tsp"):
        read_solution(tmp_path / "x.sol", tsp([1, 2, 3, 4]))
    solution = Solution.judged(tsp([1, 2, 3, 4]), [np.arange(4)])
    with pytest.raises(UsageError, match="is a tsp"):
        write_solution(solution, tsp([1, 2, 3, 4]), tmp_path / "x.sol")
