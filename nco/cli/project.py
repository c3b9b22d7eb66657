"""``nco project``: search a projection for a network and a size of instances, resuming what a kill has left."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from nco.data.sources import GeneratorSource
    from nco.models.lehd.pretrained import TrainedLehd
    from nco.projection.evolution import SearchOptions
    from nco.projection.proposers import Proposer

_ONLY_LLM = ("model", "base_url", "api_key", "temperature", "prices")


def add_parser(subparsers: argparse._SubParsersAction) -> None:
    """Add the command to the parser of ``nco``."""
    parser = subparsers.add_parser(
        "project",
        help="search a projection for large instances",
        description="Search a program that maps the nodes of every decision to where a network trained on small "
        "instances decides best. The same command given again does what is left after a kill.",
    )
    parser.add_argument("--problem", choices=("tsp", "cvrp"), required=True)
    parser.add_argument("--size", type=int, required=True, help="nodes of a TSP, customers of a CVRP")
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="journal, report and found program")
    parser.add_argument("--distribution", default="uniform", help="as nco generate --distribution (default: uniform)")
    parser.add_argument("--instance-seed", type=int, default=1, help="of the instances (default: 1)")
    parser.add_argument("--weights", help="of a LEHD network (default: the released ones for the problem)")
    parser.add_argument("--k", type=int, help="candidates of a decision (default: as in training)")
    parser.add_argument("--fusion", action="store_true", help="decide by eight views of every decision")
    parser.add_argument("--batch-size", type=int, default=16, help="instances side by side (default: 16)")
    parser.add_argument("--threads", type=int, help="of the network (default: all)")
    _add_search_arguments(parser.add_argument_group("search"))
    _add_proposer_arguments(parser.add_argument_group("proposer"))
    parser.add_argument("--json", action="store_true", help="print the report as one JSON object")


def _add_search_arguments(group: argparse._ArgumentGroup) -> None:
    from nco.projection.evolution import SearchOptions

    default = SearchOptions()
    for option, about in (
        ("budget", "programs that are scored"),
        ("population", "programs that may be parents"),
        ("finalists", "programs that are compared on the validation set"),
        ("validation", "instances for the choice of the winner"),
        ("test", "instances for the final comparison with the seed map"),
        ("seed", "of the search"),
    ):
        value = getattr(default, option)
        group.add_argument(f"--{option}", type=int, default=value, help=f"{about} (default: {value})")
    stages = ",".join(map(str, default.stages))
    group.add_argument("--stages", default=stages, help=f"instances at each stage of the race (default: {stages})")
    group.add_argument("--program-seconds", type=float, default=10.0, help="limit of one call (default: 10)")


def _add_proposer_arguments(group: argparse._ArgumentGroup) -> None:
    group.add_argument("--proposer", choices=("grammar", "llm", "replay"), default="grammar", help="default: grammar")
    group.add_argument("--model", help="llm: the model's name at the endpoint (default: OPENAI_MODEL)")
    group.add_argument("--base-url", help="llm: of an OpenAI-compatible endpoint (default: OPENAI_BASE_URL)")
    group.add_argument("--api-key", help="llm: better given as OPENAI_API_KEY")
    group.add_argument("--temperature", type=float, help="llm: default 1")
    group.add_argument("--prices", type=float, nargs=2, metavar=("IN", "OUT"), help="llm: per million tokens")
    group.add_argument("--replay", type=Path, metavar="FILE", help="replay: the exchanges.jsonl of a search with llm")


def run(args: argparse.Namespace) -> int:
    """Carry out the command and return its exit code."""
    import torch

    from nco.eval.records import to_json
    from nco.progress import track
    from nco.projection.evolution import Search
    from nco.projection.fitness import GreedyFitness
    from nco.projection.jail import Limits
    from nco.projection.journal import Journal
    from nco.projection.report import report, write_report
    from nco.projection.sandbox import Sandbox

    if args.threads is not None:
        torch.set_num_threads(args.threads)
    options, source, proposer = _options(args), _source(args), _proposer(args)
    trained = _trained(args)
    fitness = GreedyFitness(source, trained.network, args.k or trained.k, views=args.fusion, batch_size=args.batch_size)
    num_nodes = source.instances(0, 1)[0].num_nodes
    description = _description(args, options, source, proposer, trained)
    with (
        Journal(args.out, description) as journal,
        Sandbox(Limits(seconds=args.program_seconds)) as sandbox,
        track(options.budget, "project") as progress,
    ):
        search = Search(args.problem, args.size, options, proposer, fitness, sandbox.open, journal)
        with torch.inference_mode():
            outcome = search.run(progress)
        content = report(outcome, sandbox.protections)
    write_report(args.out, content, f"{args.problem}-{args.size}-found", args.problem, num_nodes)
    if args.json:
        print(to_json(content))
        return 0
    lacking = [name for name, is_there in content["sandbox"].items() if not is_there]
    if lacking:
        print(f"The system lacks for the sandbox: {', '.join(lacking)}.")
    print(
        f"Scored {outcome.scored} of {outcome.proposed} programs by {proposer.name}; {outcome.duplicates} duplicates."
    )
    print(f"Failed: {', '.join(f'{count} {kind}' for kind, count in outcome.failures.items()) or 'none'}.")
    print(f"Winner: program {outcome.winner.number}: {outcome.winner.idea}")
    print(f"Its tours against the seed's on {options.test} test instances: {outcome.comparison}")
    return 0


def _options(args: argparse.Namespace) -> SearchOptions:
    from nco.errors import UsageError
    from nco.projection.evolution import SearchOptions

    try:
        stages = tuple(int(stage) for stage in args.stages.split(","))
    except ValueError:
        raise UsageError(f"--stages must be numbers with commas between them, not {args.stages!r}") from None
    names = ("budget", "population", "finalists", "validation", "test", "seed")
    options = {name: getattr(args, name) for name in names}
    return SearchOptions(stages=stages, proposals=10 * args.budget, **options)


def _source(args: argparse.Namespace) -> GeneratorSource:
    """Return the instances for search, validation and test; each has a seed of its own."""
    from nco.data.sources import GeneratorSource

    count = max(numbers.stop for numbers in _options(args).sets.values())
    return GeneratorSource(args.distribution, args.problem, args.size, args.instance_seed, count)


def _proposer(args: argparse.Namespace) -> Proposer:
    """Return the proposer that was asked for, and no other; UsageError if arguments of another one are given."""
    import os

    from nco.errors import UsageError
    from nco.projection.language_model import Exchanges, LanguageModelProposer, ReplayProposer
    from nco.projection.proposers import GrammarProposer

    given = [name for name in _ONLY_LLM if getattr(args, name) is not None]
    if given and args.proposer != "llm":
        raise UsageError(f"--{given[0].replace('_', '-')} belongs to --proposer llm")
    if (args.replay is None) == (args.proposer == "replay"):
        raise UsageError("--replay FILE and --proposer replay belong together")
    if args.proposer == "grammar":
        return GrammarProposer()
    if args.proposer == "replay":
        return ReplayProposer(args.replay)
    return LanguageModelProposer(
        args.model or os.environ.get("OPENAI_MODEL", ""),
        Exchanges(args.out / "exchanges.jsonl"),
        args.base_url,
        args.api_key,
        1.0 if args.temperature is None else args.temperature,
        prices=None if args.prices is None else tuple(args.prices),
    )


def _trained(args: argparse.Namespace) -> TrainedLehd:
    from nco.models.lehd.pretrained import load_lehd

    trained = load_lehd(args.weights or f"lehd-{args.problem}-small", args.problem)
    trained.network.window_scaling = "none"  # the map stands in for it
    return trained


def _description(
    args: argparse.Namespace,
    options: SearchOptions,
    source: GeneratorSource,
    proposer: Proposer,
    trained: TrainedLehd,
) -> dict[str, Any]:
    """Return what a search must have in common with the journal that it resumes."""
    import hashlib
    from dataclasses import asdict

    import torch

    weights = hashlib.sha256()
    for name, tensor in trained.network.state_dict().items():
        weights.update(name.encode() + tensor.cpu().contiguous().numpy().tobytes())
    return {
        "problem": args.problem,
        "size": args.size,
        "instances": source.describe(),
        "sets": {name: [numbers.start, numbers.stop] for name, numbers in options.sets.items()},
        "weights": {"name": trained.name, "sha256": weights.hexdigest()},
        "k": args.k or trained.k,
        "fusion": args.fusion,
        "batch_size": args.batch_size,
        "threads": torch.get_num_threads(),
        "proposer": proposer.describe(),
        "search": asdict(options),
    }
