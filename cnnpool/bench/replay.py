"""Steps of a GPU without their launching: recorded in a CUDA graph, which is replayed."""

import torch

from cnnpool.bench.measure import Call

WARM_UP = 3
STEPS = 10
"""Of a graph, so that its own launch does not matter either."""
_broken: list[torch.cuda.CUDAGraph] = []


def replays(steps: dict[str, Call]) -> dict[str, Call]:
    """Calls that make each of ``steps`` on the current GPU ``STEPS`` times over, on the memory it used first.

    Raises:
        RuntimeError: if a step cannot be recorded, because it waits for the GPU, say; one line that names it.
    """
    calls = {}
    for name, step in steps.items():
        try:
            calls[name] = _recorded(step)
        except RuntimeError as error:
            # Leaving a recording that a step has spoilt is an error again, which says less.
            first, *_ = str(error.__context__ or error).split("\n")
            raise RuntimeError(f"{name}: {first}") from error
    return calls


def _recorded(step: Call) -> Call:
    graph, stream = torch.cuda.CUDAGraph(), torch.cuda.Stream()
    generator = torch.cuda.default_generators[torch.cuda.current_device()]
    numbers = generator.clone_state()
    stream.wait_stream(torch.cuda.current_stream())
    try:
        # Around both: torch.cuda.graph leaves its stream the current one where it fails.
        with torch.cuda.stream(stream):
            for _ in range(WARM_UP):
                step()
            with torch.cuda.graph(graph, stream=stream):
                for _ in range(STEPS):
                    step()
    except RuntimeError:
        # The generator would stay in a recording for ever, and the allocator asks every graph that did not
        # end whether memory is for it.
        generator.graphsafe_set_state(numbers)
        _broken.append(graph)
        raise
    torch.cuda.current_stream().wait_stream(stream)
    return graph.replay
