"""What a language model is asked, and how a program is found in its answer."""

from __future__ import annotations

import re

from nco.projection.check import KEYWORDS, LINALG, MATH, MAX_ITERATIONS, MEMBERS, TORCH
from nco.projection.proposers import Failed, Individual, Request

# Goes into the key of recorded answers: to be counted up whenever a text here changes.
VERSION = 1

_TASK = """You write small, pure PyTorch functions for a solver of vehicle routing problems.

A neural network builds a {problem} tour node by node. It was trained on uniform instances of 100 nodes in the unit
square, and now works on instances of {size} nodes. At every step it sees only the nodes around the last visited one,
which fill a small part of the square. Your function moves those nodes to where the network decides best, for example
by shifting, scaling, rotating or bending the plane. It changes what the network sees, never the length of a tour. The
aim is the shortest tours on average.

Write `def project(points):`. `points` is a float tensor [B, S, 2] of B independent decisions:
- points[:, 0] is {first};
- points[:, 1:-1] are the candidates for the next step, nearest first; there may be one or a hundred of them;
- points[:, -1] is the last visited node.
Return a tensor of the same shape and dtype: the new coordinates, best within or near the unit square.

Rules. Each row depends on itself alone: reduce over dim=1 with keepdim=True, never over the batch. The order of the
candidates must not matter. Never change `points` in place. No division by zero when points coincide. Use no import,
class, lambda, comprehension, while, try, string or print; loops only over range(number) up to {iterations}.
Helper functions may be defined above `project`. `torch` and `math` are there; allowed of them and of tensors are:
torch: {torch}
torch.linalg: {linalg}
math: {math}
tensor members: {members}
keywords: {keywords}"""

_FIRST = {
    "tsp": "the node where the tour must end, often far away",
    "cvrp": "the depot, often far away",
}
_OPERATORS = {
    "i1": "Write a function of your own design.",
    "e1": "Write a function that works in a way entirely different from those above.",
    "e2": "Name the idea that the functions above have in common, and write a new function that rests on it too.",
    "m1": "Change the function above into a better one with a different form.",
    "m2": "Keep the form of the function above, and set its constants and exponents anew.",
    "m3": "Simplify the function above: drop whatever may only fit the instances it was judged on.",
}
_ANSWER = (
    "Answer with one sentence in braces that states the idea, like {idea: ...}, and then the program in one fenced "
    "Python block. Explain nothing else."
)
_FENCE = re.compile(r"```[a-zA-Z0-9]*[ \t]*\n(.*?)(?:```|\Z)", re.DOTALL)
# Models write these out of habit; a program has both modules anyway.
_HABITUAL_IMPORT = re.compile(r"^import (?:torch|math)[ \t]*(?:#.*)?$\n?", re.MULTILINE)


def messages(request: Request, with_scores: bool = True) -> list[dict[str, str]]:
    """Return the messages of a request.

    Parameters
    ----------
    request : Request
    with_scores : bool
        Without them, a request reads the same where costs differ in their last digits: the form whose hash identifies
        recorded answers.
    """
    task = _TASK.format(
        problem=request.problem.upper(),
        size=request.size,
        first=_FIRST[request.problem],
        iterations=MAX_ITERATIONS,
        torch=" ".join(sorted(TORCH)),
        linalg=" ".join(sorted(LINALG)),
        math=" ".join(sorted(MATH)),
        members=" ".join(sorted(MEMBERS)),
        keywords=" ".join(sorted(KEYWORDS)),
    )
    parts = [_parent(rank, parent, with_scores) for rank, parent in enumerate(request.parents, 1)]
    parts += [_failure(failed) for failed in request.failures]
    parts += [_OPERATORS[request.operator], _ANSWER]
    return [{"role": "system", "content": task}, {"role": "user", "content": "\n\n".join(parts)}]


def _parent(rank: int, parent: Individual, with_scores: bool) -> str:
    score = (
        f" Its tours are {100 * parent.excess:+.2f} % longer than those of the seed function." if with_scores else ""
    )
    return f"Function {rank} (1 is the best).{score}\nIdea: {parent.idea}\n```python\n{parent.source.strip()}\n```"


def _failure(failed: Failed) -> str:
    return (
        f"This earlier function failed ({failed.kind}: {failed.message}). Avoid the mistake.\n"
        f"```python\n{failed.source.strip()[:1500]}\n```"
    )


def parse_answer(text: str) -> tuple[str, str]:
    """Return the idea and the program of an answer; the program is empty if the answer holds none.

    The program is the first fenced block that defines ``project``, else everything from the first line that begins
    like a program. The idea is what stands in braces before it, else its last sentence before it.
    """
    for fence in _FENCE.finditer(text):
        if "def project" in fence[1]:
            return _idea(text[: fence.start()]), _without_imports(fence[1])
    bare = re.search(r"^(?:import |def |[A-Z_]+ = )", text, re.MULTILINE)
    if bare is None or "def project" not in text[bare.start() :]:
        return _idea(text), ""
    return _idea(text[: bare.start()]), _without_imports(text[bare.start() :].replace("```", ""))


def _idea(before: str) -> str:
    braced = re.findall(r"\{([^{}]{4,})\}", before)
    idea = braced[-1] if braced else before
    return " ".join(re.sub(r"^\s*idea\s*:", "", idea).split())[:300]


def _without_imports(program: str) -> str:
    return _HABITUAL_IMPORT.sub("", program).strip() + "\n"
