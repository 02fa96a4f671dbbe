"""The pages docs/reliability.md and docs/faults.md, from the results in docs/reliability.json."""

from collections.abc import Callable, Mapping, Sequence

from cnnpool import tables

ROWS: dict[str, Callable[[Mapping], tuple[str, str]]] = {
    "kills": lambda r: (
        "`kill -9` at random instants of a training: files broken, steps lost, restarts failed, "
        "results that differ by a bit",
        f"{r['broken files']}, {r['steps lost']}, {r['failed restarts']}, {r['different']} "
        f"of {r['kills']} kills ({r['runs']} runs)",
    ),
    "sweeps": lambda r: _sweep("a sweep in one process", r),
    "processes": lambda r: _sweep("a sweep in several processes", r),
    "bits": lambda r: (
        "single bits flipped in a checkpoint and read with other content",
        f"{r['read otherwise']} of {r['bits']} ({r['refused']} refused, {r['read alike']} read alike)",
    ),
    "files": lambda r: (
        "results.json, status.json or metrics.jsonl altered before `cnnpool compare`: crashes, more than a "
        "line on a file, altered content taken for the run's own",
        f"{r['crashed']}, {r['more than a line']}, {r['taken for true']} of {r['alterations']:,} "
        f"({r['told']:,} told, {r['alike']:,} of no effect, {r['without a checksum']:,} without a checksum)",
    ),
    "configuration": lambda r: (
        "configuration files and words of a command line altered: crashed, hung, more than one line that a "
        "terminal can show, code run or files written",
        f"{r['crashed']}, {r['hung']}, {r['not one line'] + r['unprintable']}, {r['harmful']} "
        f"of {r['cases']:,} ({r['refused']:,} refused, {r['fine']:,} fine)",
    ),
    "faults": lambda r: (
        "faults answered by one line that names what and the remedy, the right status and no traceback "
        "([all of them](faults.md))",
        f"{r['answered']} of {r['faults']}",
    ),
    "peers": lambda r: (
        "max and average pooling against torch's on its own samples (OpInfo)",
        f"{r['passed']} of {r['passed'] + r.get('failed', 0)} tests, {r['compared']:,} comparisons, "
        f"{r['first derivatives']:,} first and {r['second derivatives']:,} second derivatives",
    ),
    "operators": lambda r: (
        "tests of all operators and readouts",
        f"{r['passed']:,} of {r['passed'] + r.get('failed', 0):,} tests, {r['compared']:,} comparisons, "
        f"{r['first derivatives']:,} first and {r['second derivatives']:,} second derivatives against "
        f"numerical ones, {r['examples of hypothesis']:,} examples by hypothesis",
    ),
    "mutants": lambda r: (
        "small mistakes made in our own operators and found by their tests",
        f"{r['killed']} of {r['mutants']}",
    ),
    "same": lambda r: (
        "an operator compared with itself: called better, worse; on the same seeds it differs from itself by",
        f"{r['better']}, {r['worse']} of {r['comparisons']} "
        f"(chance allows {r['most that chance allows of either']}); "
        f"{r['difference from itself']:g}",
    ),
}
PROMISES = """\
## Held by every run of the tests

Equal means to the bit.

| what | test |
|---|---|
| a run cut in an epoch, between two, before its test, twice in saving: equal | `tests/fit/test_resume.py` |
| Ctrl-C, SIGTERM, SIGHUP: saved at that step, the resumed run equal | `tests/fit/test_resume.py` |
| trainings and sweeps killed at random instants, at a small count | `tests/scripts/test_kill.py` |
| two processes against one: weights equal within 1e-4 | `tests/fit/test_ddp.py` |
| a finished run is known again by its images; other images are refused | `tests/launch/test_finished.py` |
| foreign folders refused, nothing of theirs removed | `tests/run_folder/test_hold.py` |
| a run whose folder or files are deleted fails | `tests/fit/test_resume.py` |
| any damage of results.json, status.json, metrics.jsonl is found | `tests/run_folder/test_results.py` |
| no room or folder for compiled kernels: a warning, and each run compiles | `tests/pool/test_compiling.py` |
| output that nobody reads, or no disk takes, ends no job | `tests/system/test_output.py` |
| jobs after one that ran out of memory are done | `tests/launch/test_sweep.py` |
| a job in this process or in one of its own, as many threads: equal | `tests/launch/test_sweep.py` |
| a download that fails is tried once for all jobs on these data | `tests/launch/test_sweep.py` |
| too many jobs, and jobs that would share a folder, are refused | `tests/launch/test_compose.py` |
| a full disk, a folder in use, a secret on the command line: one line | `tests/launch/test_folder.py` |
| a killed or halted process of several ends the others | `tests/launch/test_worker.py` |
| jobs can be stopped once the server that forked them is killed | `tests/launch/test_worker.py` |
| all operators in torch's deterministic mode: equal gradients | `tests/pool/test_deterministic.py` |
| no code from a file, no address of ours open to other machines | `tests/setup/test_security.py` |
| every dependency hashed, no release known to be bad | `tests/setup/test_lock.py` |

## What a run promises

- **Resume is exact.** Order, augmentation and draws depend on (seed, epoch, step) alone; the checkpoint holds
  weights, optimiser, position, the epoch's sums and the length of `metrics.jsonl`. It needs the same machine
  kind, torch, compiled kernels and number of threads: others are warned of, another arithmetic is refused.
- **The same seed gives the same bits** on the same machine kind with the same torch, kernels and threads.
  `launch=processes` divides the cores among its jobs, so its runs have other bits than those of
  `launch=local`: give both the same `OMP_NUM_THREADS` or `launch.threads`. Threads, torch and kernels are
  recorded, and `compare` notes where they differ.
- **A run's identity** is its settings and the digest of its images, wherever they lie. The same command in
  the folder of a finished run on other images is refused. Jobs of a sweep that would share a folder get
  folders of their own or are refused; jobs that repeat others are left out; each of these is said.
- **A folder of its own**: a run begins in a folder that is missing, empty or a run's; other folders, the file
  system's root and a home folder are refused. Only files that the run itself made are ever removed. A run
  whose folder is deleted or replaced fails with status 1, and makes none anew.
- **Saved** after every epoch, every `fit.checkpoint_every_minutes` within one, and when a signal asks to
  stop. A second signal ends at once. `last.ckpt` is what a run goes on from; if it is damaged,
  `previous.ckpt` is.
- **Files** are written aside, flushed and renamed. Checkpoints are checked against their checksums, read
  without running code, and never written with a weight that is not finite.
- **Damage** of `results.json` and `metrics.jsonl` is found by schema, ranges and checksums, of `status.json`
  by its schema; it costs a line, and the other runs are compared.
- **A full disk** is one line: the file, the disk, the room that is missing. The same command goes on.
- **Kernels on disk** are checked before they are loaded: damaged ones are compiled again, and where none can
  be kept every run compiles them, with a line that says why.
- **Output** that cannot be written, by `| head`, a full disk or a closed terminal, ends no job.
- **Sweeps** of more than 10,000 jobs need `--max-jobs`. After a job that runs out of memory the others run in
  processes of their own. After a download that failed no later job of the sweep tries it again (on this
  machine: jobs on SLURM and Ray do).
- **A mistake** in what was asked is refused before a run begins, and leaves no folder behind.
- **Settings** are compared on resume: any that decides the result and differs is refused, old -> new, even
  `fit.epochs`, since the schedule depends on it. Where data lie, devices, logging, saving and display may
  change.
- **One process per folder**: another is refused with the pid of the first.
- **Exit status**: 0 done, 1 a run failed, 2 a mistake in what was asked, 128 + signal when stopped.
- **Own code** comes from installed packages only. The composed configuration is checked: `_target_`,
  `hydra.searchpath`, `hydra.callbacks` and logging are refused, on the command line and in files.
- **Secrets** are no settings: a key such as `token` or `password` is refused, since settings are saved. So is
  `oc.env` in a file of `--config-dir`; on the command line it is the user's own.
- **Files of others** in `--config-dir` name no cluster (`launch.address`), and no setting has a second line,
  which SLURM would run as a command.
- **Ports**: no command of ours listens to other machines, and the TensorBoard that it names listens to this
  one alone. `fit.devices` above 1 opens the port of torch's store, on all interfaces and without a password,
  while it trains; `launch=ray` opens those of Ray. On a network with strangers keep a firewall before them.
- **Deterministic**: on a CPU, where it is free, torch is told to refuse operations that do not repeat
  (`fit.deterministic=true`); on a GPU they are named in a warning, or refused if asked. `results.json`
  records it.

Not covered: a power cut on a disk that does not honour flushes, and in-process sweeps (`launch=local`) whose
process the kernel kills; the same command goes on from there. A halted (SIGSTOP) server of processes, which
`launch=processes` and `fit.devices` above 1 have, starts no job and tells the end of none: the command waits
for it until it is continued, or killed.
"""


def _sweep(what: str, r: Mapping) -> tuple[str, str]:
    return (
        f"`kill -9` at random instants of {what}: files broken, restarts failed, jobs done twice, "
        "results that differ by a bit",
        f"{r['broken files']}, {r['failed restarts']}, {r['done twice']}, {r['different']} "
        f"of {r['kills']} kills ({r['sweeps']} sweeps)",
    )


def page(kept: Mapping[str, Mapping]) -> str:
    """docs/reliability.md."""
    lines = [
        "# Reliability",
        "",
        "Each figure with the command that makes it, and the commit it was made at. Written by",
        "`python scripts/reliability`; the numbers are in [reliability.json](reliability.json).",
        "",
    ]
    rows = []
    for name, row in ROWS.items():
        if name in kept:
            figure, reached = row(total(kept[name]))
            parts = kept[name].values()
            commits = sorted({(one["commit"] or "")[:8] for one in parts})
            at = ", ".join([*commits, *sorted({one["date"] for one in parts})])
            rows.append((figure, reached, f"`python scripts/reliability {name}`", at))
    lines += [_table(("figure", "reached", "command", "commit, date"), rows)]
    made = sorted(
        {
            f"{one['processor']}, Python {one['python']}, torch {one['torch']}"
            for parts in kept.values()
            for one in parts.values()
        }
    )
    lines += ["", f"One thread each, on: {'; '.join(made)}.", ""]
    return "\n".join(lines) + "\n" + PROMISES


def total(parts: Mapping[str, Mapping]) -> dict:
    """The results of a measurement's parts, added up."""
    results = [part["result"] for part in parts.values()]
    found = {key: value for result in results for key, value in result.items()}
    for key, value in found.items():
        if isinstance(value, int):
            found[key] = sum(result.get(key, 0) for result in results)
        elif isinstance(value, list):
            found[key] = [each for result in results for each in result.get(key, [])]
    return found


def faults(kept: Mapping[str, Mapping]) -> str:
    """docs/faults.md."""
    lines = [
        "# What goes wrong, and what is said",
        "",
        "Tried with the real commands by `python scripts/reliability/faults.py`, and again by",
        "`pytest tests/scripts/test_faults.py`.",
        "Options that make training quick are left out.",
        "",
    ]
    rows = []
    for row in total(kept["faults"])["rows"]:
        said = row["said"] or "(goes on)"
        cells = (row["fault"], f"`cnnpool {row['command']}`", said, row["status"])
        rows.append([_cell(text) for text in cells])
    table = _table(("fault", "command", "what the user sees", "status"), rows)
    return "\n".join([*lines, table]) + "\n"


def _table(headers: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    return tables.markdown(tables.from_rows(headers, rows), markup=True)


def _cell(text: str, most: int = 300) -> str:
    flat = " / ".join(text.split("\n"))
    return flat if len(flat) <= most else f"{flat[:most]} ..."
