"""The operators' part of docs/performance.md."""

from bench_results import gpu_results, result, results

from scripts.benchmarks import operators as page
from scripts.benchmarks import targets


def test_operators_on_a_gpu_have_sections_of_their_own():
    again = {"median": 1.25, "q1": 1.2, "q3": 1.3, "n": 5}
    replayed = {"ms": {"ours": 0.4, "rival": 0.5, "copy": 0.2}, "speedup": again}
    replayed["over_bound"] = {**again, "median": 1.5}
    slow = {**replayed, "ms": {"ours": 0.0075, "rival": 0.005, "copy": 0.002}}
    slow["speedup"] = {"median": 0.67, "q1": 0.6, "q3": 0.7, "n": 5}
    rows = result(replayed=replayed), result(operator="lp p=3", replayed=slow)
    failed = result(operator="stochastic", rival="F", replayed=None, not_replayed="rival: it waits")
    absent = {key: rows[0][key] for key in ("operator", "shape", "layout", "rival")}
    absent |= {"dtype": "bfloat16", "missing": "No module"}
    text = page.document([gpu_results(*rows, failed, absent), results(result())])
    of_cpu, of_gpu = text.split("## Operators, NVIDIA H100\n")
    assert "## Operators, 1 thread, some chip" in of_cpu and "over bound" in of_cpu
    assert "torch 2.9, cuda 12.8, triton 3.6.0; 1 thread, some chip, 2 cores" in of_gpu
    assert "*Replayed*: a CUDA graph of the\nsame step" in of_gpu
    assert "In none of 3 cases" in of_gpu
    assert (
        "Replayed: In 1 of 2 cases ours takes longer than the rival, by at most 2.5 us: down to 0.67x"
        in of_gpu
    )
    assert "| rival, ms | faster (quartiles, n) | replayed faster | replayed over bound | kept |" in of_gpu
    case = "| 128x64x32x32 | contiguous | float32 | 0.5 | 2 | **4.00x** (3.50 to 4.50, 5)"
    assert f"{case} | 1.25x | 1.50x | 2.0 MB | 16.0 MB |" in of_gpu
    assert f"{case} | - | - | 2.0 MB | 16.0 MB |\n\nNot replayed: rival: it waits\n" in of_gpu
    assert "Cases that were not timed: 1 (No module).\n" in of_gpu and "not timed" not in of_cpu
    assert "bfloat16 |" not in of_gpu
    assert page.SLOWER not in of_gpu


def test_a_section_says_whose_runtime_its_rivals_have():
    compiled = result(rival="F.max_pool2d, torch.compile"), result(rival="F.avg_pool2d, torch.compile")
    text = page.document([results(*compiled), results(compiled[0], result())])
    assert text.count("## Operators, 1 thread, some chip, against torch.compile\n") == 1
    assert text.count("## Operators, 1 thread, some chip\n") == 1


def test_targets_are_those_of_the_cpu():
    fast = result(speedup={"median": 90.0, "q1": 80.0, "q3": 99.0, "n": 5}, replayed=None)
    text = page.document([gpu_results(fast), results(result())])
    assert "| max 2/2 | contiguous | float32 | 8x | 4.0x |" in text
    assert "90.0x" not in text and "**90.00x**" in text


def test_page_tells_of_targets_and_of_what_is_slower():
    slow = result(shape=[1, 8, 8, 8], speedup={"median": 0.8, "q1": 0.7, "q3": 0.9, "n": 5})
    slow["ms"] = {"ours": 0.020, "rival": 0.016, "copy": 0.001}
    text = page.document([results(result(), slow), results(result(), threads=2)])
    assert "| max 2/2 | contiguous | float32 | 8x | 4.0x | 4.0x |" in text
    assert "In 1 of 2 cases ours takes longer than the rival, by at most 4 us: down to 0.80x" in text
    assert "In none of 1 cases" in text and "2 threads, some chip" in text
    assert "| **4.00x** (3.50 to 4.50, 5) | 2.0x | 2.0 MB | 16.0 MB |" in text


def test_files_of_as_many_threads_share_a_column_of_targets():
    other = result(operator="lp p=3", speedup={"median": 7.0, "q1": 6.5, "q3": 7.5, "n": 5})
    said = targets.table([results(result()), results(other)])
    assert said.count("1 thread") == 1
    assert "| max 2/2 | contiguous | float32 | 8x | 4.0x |" in said
    assert "| lp p=3 | contiguous | float32 | 6x | 7.0x |" in said


def test_a_row_within_noise_is_not_called_slower():
    noisy = result(speedup={"median": 0.99, "q1": 0.9, "q3": 1.01, "n": 5})
    assert targets.slower([noisy]) == []


def test_a_target_is_excused_only_where_it_is_missed():
    target = next(target for target in targets.TARGETS if target.because)
    case = {"operator": target.operator, "layout": target.layout, "dtype": target.dtype}
    for median, excused in ((target.times + 1, False), (target.times - 1, True)):
        row = result(**case, speedup={"median": median, "q1": 1.0, "q3": 9.0, "n": 5})
        assert (target.because in targets.table([results(row)])) == excused
