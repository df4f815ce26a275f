import torch
import triton
import triton.language as tl


# In place of a convolution of each channel with a filter of its own: each lane goes down a column of an image and
# keeps the sums of all rows that its window is in, so that a row is read once, and the filter never again.
@triton.jit
def _stark_depthwise_kernel(
    x,
    weight,
    bias,
    out,
    high,
    wide,
    to_high,
    to_wide,
    channels,
    top,
    left,
    lanes,
    BIAS: tl.constexpr,
    HIGH: tl.constexpr,
    WIDE: tl.constexpr,
    ROWS: tl.constexpr,
    LANES: tl.constexpr,
):
    lane = tl.program_id(0) * LANES + tl.arange(0, LANES)
    plane, column, there = lane // to_wide, lane % to_wide, lane < lanes
    channel, begin = plane % channels, tl.program_id(1) * ROWS
    x += plane.to(tl.int64) * high * wide
    out += plane.to(tl.int64) * to_high * to_wide
    weights = ()
    for tap in tl.static_range(HIGH * WIDE):
        weights += (tl.load(weight + channel * (HIGH * WIDE) + tap, there, other=0.0),)
    start = tl.load(bias + channel, there, other=0.0) if BIAS else tl.zeros([LANES], tl.float32)
    sums = (start,) * HIGH
    for step in range(ROWS + HIGH - 1):
        row = begin + step - top + tl.zeros_like(lane)
        inside = there & (row >= 0) & (row < high)
        taps = ()
        for tap in tl.static_range(WIDE):
            at = column - left + tap
            taps += (tl.load(x + row * wide + at, inside & (at >= 0) & (at < wide), other=0.0),)
        for one in tl.static_range(HIGH):
            found = sums[one]
            for tap in tl.static_range(WIDE):
                found += taps[tap] * weights[(HIGH - 1 - one) * WIDE + tap]
            sums = sums[:one] + (found,) + sums[one + 1 :]
        done = row + top - HIGH + 1
        tl.store(out + done * to_wide + column, sums[0], there & (done >= begin) & (done < to_high))
        sums = sums[1:] + (start,)


def _stark_depthwise(x, weight, bias, padding):
    """Return the convolution of each channel with its filter."""
    x, weight = x.contiguous(), weight.contiguous()
    (batch, channels, high, wide), (top, left) = x.shape, padding
    to_high, to_wide = high + 2 * top - weight.shape[2] + 1, wide + 2 * left - weight.shape[3] + 1
    out = torch.empty((batch, channels, to_high, to_wide), dtype=x.dtype, device=x.device)
    lanes, block = batch * channels * to_wide, 64
    # Of few columns, parts: at least a warp for each processor's scheduler.
    rows = to_high if lanes > 65536 else triton.cdiv(to_high, 4)
    _stark_depthwise_kernel[(triton.cdiv(lanes, block), triton.cdiv(to_high, rows))](
        x,
        weight,
        x if bias is None else bias,
        out,
        high,
        wide,
        to_high,
        to_wide,
        channels,
        top,
        left,
        lanes,
        BIAS=bias is not None,
        HIGH=weight.shape[2],
        WIDE=weight.shape[3],
        ROWS=rows,
        LANES=block,
        num_warps=block // 32,
    )
    return out
