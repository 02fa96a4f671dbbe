"""One value of each window drawn with probability proportional to it, or the mean with those weights; a band
at a time (see ``band_buffers``). Negative values count as 0, and so do cells outside the map.
"""

from numba import int64, uint8

from cnnpool.pool.cpu.loops import band_buffers
from cnnpool.pool.cpu.loops.intrinsics import load, load_aliased, store, store_aliased
from cnnpool.pool.cpu.loops.signatures import Address, Band, Number, Room, compiled
from cnnpool.pool.cpu.loops.vector_math import number, over

# Marks that there is no cell: windows here have at most 255.
NOWHERE = uint8(255)


@compiled
def _climb(
    image: Address, a: int, sums: Address, ladder: Address, count: int, first: bool, total: Number
) -> None:
    # One rung of every window's ladder: the sum of all cells up to this one, in order.
    for t in range(count):
        v = load(image, a + t, total)
        rung = load_aliased(sums, t, total) + (total if v < total else v)
        rung = (total if v < total else v) if first else rung
        store_aliased(sums, t, rung)
        store(ladder, t, rung)


@compiled
def _take(
    image: Address, a: int, thresholds: Address, ladder: Address, drawn: Address, places: Address, count: int,
    place: Number, last: bool, total: Number,
) -> None:  # fmt: skip
    for t in range(count):
        v = load(image, a + t, total)
        here = last or load(thresholds, t, total) <= load_aliased(ladder, t, total)
        store_aliased(drawn, t, (total if v < total else v) if here else load_aliased(drawn, t, total))
        mine = NOWHERE if v < total else place
        store_aliased(places, t, mine if here else load_aliased(places, t, place))


@compiled
def forward(
    start: int, stop: int, scratch: Address, x: Address, y: Address, winners: Address, uniforms: Address,
    flags: Address, rule: Band, room: Room, bound: Number, total: Number, like: Number, nothing: Number,
) -> None:  # fmt: skip
    """Bands of draws by uniform numbers in [0, 1); sets the first of ``flags`` if a window is not finite, the
    second if one has no winner.
    """
    (band, several, above, pitch, part, images, _, _), (image, half, _, _, sums, ladder, step, _) = room
    image, half, sums, ladder = scratch + image, scratch + half, scratch + sums, scratch + ladder
    thresholds, drawn, places = sums + step, sums + 2 * step, sums + 3 * step
    count, cells, fine, won = band * pitch * rule[5], rule[2][0] * rule[2][1], True, True
    band_buffers.fill(scratch, images, nothing)
    band_buffers.fill(thresholds, count, total)
    for item in range(start, stop):
        unit, first = item // several, item % several * band
        band_buffers.cut(x, unit, first, band + above, scratch, rule, pitch, part, nothing)
        band_buffers.widened(scratch, image, images, total, like)
        for c in range(cells):
            a = band_buffers.cell_at(c, rule, pitch, part)
            _climb(image, a, sums, ladder + c * step, count, c == 0, total)
        band_buffers.read_outputs(uniforms, unit, first, band, thresholds, rule, pitch, total)
        for t in range(count):
            rest = number(1, total) - load_aliased(thresholds, t, total)
            store_aliased(thresholds, t, rest * load(sums, t, total))
        for c in range(cells - 1, -1, -1):
            a, rung = band_buffers.cell_at(c, rule, pitch, part), ladder + c * step
            _take(image, a, thresholds, rung, drawn, places, count, uint8(c), c == cells - 1, total)
        for r in range(min(band, rule[1][0] - first)):
            for t in range(r * pitch * rule[5], (r * pitch + rule[1][1]) * rule[5]):
                fine &= load(sums, t, total) <= bound
            for t in range(r * pitch * rule[5], (r * pitch + rule[1][1]) * rule[5]):
                won &= load(places, t, NOWHERE) != NOWHERE
        band_buffers.narrowed(drawn, half, count, total, like)
        band_buffers.write_outputs(half, y, unit, first, band, rule, pitch, like)
        band_buffers.write_outputs(places, winners, unit, first, band, rule, pitch, NOWHERE)
    if not fine:
        store(flags, 0, int64(1))
    if not won:
        store(flags, 1, int64(1))


@compiled
def _weigh(image: Address, a: int, sums: Address, means: Address, count: int, total: Number) -> None:
    for t in range(count):
        v, sum_ = load(image, a + t, total), load(sums, t, total)
        v = total if v < total else v
        share = over(v, sum_ if sum_ != total else number(1, total))
        store_aliased(means, t, load_aliased(means, t, total) + share * v)


@compiled
def _large(image: Address, t: int, rule: Band, pitch: int, part: int, bound: Number, total: Number) -> Number:
    # For a window whose sum overflows: the mean of scaled numbers if their sum is finite, else that sum.
    sum_, mean, part_of = total, total, over(number(1, total), number(1 << 16, total))
    for c in range(rule[2][0] * rule[2][1]):
        v = load(image, band_buffers.cell_at(c, rule, pitch, part) + t, total) * part_of
        sum_ += total if v < total else v
    if not sum_ <= bound:
        return sum_
    for c in range(rule[2][0] * rule[2][1]):
        v = load(image, band_buffers.cell_at(c, rule, pitch, part) + t, total) * part_of
        v = total if v < total else v
        mean += over(v, sum_) * v
    return over(mean, part_of)


@compiled
def mean(
    start: int, stop: int, scratch: Address, x: Address, y: Address, rule: Band, room: Room, bound: Number,
    total: Number, like: Number, nothing: Number,
) -> None:  # fmt: skip
    """Bands ``start`` to ``stop`` of sums of squares over sums."""
    (band, several, above, pitch, part, images, _, _), (image, half, _, _, sums, ladder, step, _) = room
    image, half, sums, ladder = scratch + image, scratch + half, scratch + sums, scratch + ladder
    means, count, cells = sums + step, band * pitch * rule[5], rule[2][0] * rule[2][1]
    band_buffers.fill(scratch, images, nothing)
    for item in range(start, stop):
        unit, first = item // several, item % several * band
        band_buffers.cut(x, unit, first, band + above, scratch, rule, pitch, part, nothing)
        band_buffers.widened(scratch, image, images, total, like)
        band_buffers.fill(means, count, total)
        for c in range(cells):
            _climb(image, band_buffers.cell_at(c, rule, pitch, part), sums, ladder, count, c == 0, total)
        for c in range(cells):
            _weigh(image, band_buffers.cell_at(c, rule, pitch, part), sums, means, count, total)
        fine = True
        for t in range(count):
            fine &= load(sums, t, total) <= bound
        for t in range(0 if fine else count):
            if not load(sums, t, total) <= bound:
                store_aliased(means, t, _large(image, t, rule, pitch, part, bound, total))
        band_buffers.narrowed(means, half, count, total, like)
        band_buffers.write_outputs(half, y, unit, first, band, rule, pitch, like)
