import functools

import torch
import triton
import triton.language as tl


# In front of a convolution: numbers rounded to TF32's 10 bits, which float16 has as well, with the channels last and
# zeros around. The first pass looks for the largest; where that does not fit, the second one rounds again.
@triton.jit
def _stark_rounded_kernel(
    x,
    out,
    largest,
    back,
    blocks,
    batch_step,
    channel_step,
    deep_step,
    high_step,
    wide_step,
    deep,
    high,
    wide,
    channels,
    front,
    top,
    left,
    to_deep,
    to_high,
    to_wide,
    to_channels,
    AGAIN: tl.constexpr,
    UP: tl.constexpr,
    PLACES: tl.constexpr,
    CHANNELS: tl.constexpr,
):
    exponent = 8  # of the power of two that numbers are scaled by
    if AGAIN:
        bits = tl.load(largest)
        # From 2**-8 to 2**7 numbers fit as they are scaled first.
        fits = (bits == 0) | ((bits >= 119 << 23) & (bits < 134 << 23))
        exponent = tl.where(fits, exponent, tl.minimum(141 - (bits >> 23), 126))
        blocks = tl.where(fits, 0, blocks)
        tl.store(back, ((127 - exponent) << 23).to(tl.float32, bitcast=True), tl.program_id(0) == 0)
    scale = ((127 + exponent) << 23).to(tl.float32, bitcast=True)
    across, sideways = tl.cdiv(to_channels, CHANNELS), tl.cdiv(to_wide, PLACES)
    for block in range(tl.program_id(0), blocks, tl.num_programs(0)):
        channel = (block % across * CHANNELS + tl.arange(0, CHANNELS))[None, :]
        place = (block // across % sideways * PLACES + tl.arange(0, PLACES))[:, None]
        row = block // across // sideways + tl.zeros_like(place)
        at_high, at_deep = row % to_high - top, row // to_high % to_deep - front
        batch, at_wide = (row // to_high // to_deep).to(tl.int64), place - left
        inside = (at_high >= 0) & (at_high < high) & (at_deep >= 0) & (at_deep < deep)
        inside = inside & (at_wide >= 0) & (at_wide < wide) & (channel < channels)
        at = batch * batch_step + at_deep * deep_step + at_high * high_step
        number = tl.load(x + at + at_wide * wide_step + channel * channel_step, inside, other=0.0)
        finite = tl.abs(number) < float("inf")
        if not AGAIN:
            most = tl.max(tl.where(finite, tl.abs(number), 0.0).to(tl.int32, bitcast=True))
            tl.atomic_max(largest, most, sem="relaxed")
        number *= scale
        if UP:
            whole = ((number.to(tl.int32, bitcast=True) + 0x1000) & ~0x1FFF).to(tl.float32, bitcast=True)
            number = tl.where(finite, whole, number)
        to = (row.to(tl.int64) * to_wide + place) * to_channels + channel
        tl.store(out + to, number.to(tl.float16), (place < to_wide) & (channel < to_channels))


@functools.cache
def _stark_rounded_sizes(shape, steps, padding, channels):
    """Return the result's shape, how many blocks it has, their channels, and the numbers that the kernel takes."""
    missing = 5 - len(shape)
    sizes, around = [1] * missing + list(shape[2:]), [0] * missing + list(padding)
    steps = [*steps[:2], *([0] * missing), *steps[2:]]
    to = [sizes[dim] + 2 * around[dim] for dim in range(3)]
    across = min(64, triton.next_power_of_2(channels))
    blocks = shape[0] * to[0] * to[1] * triton.cdiv(to[2], 64) * triton.cdiv(channels, across)
    return (shape[0], *to[missing:], channels), blocks, across, (*steps, *sizes, shape[1], *around, *to, channels)


def _stark_rounded(x, padding, channels, up):
    """Return numbers rounded for a convolution, channels last, and what scales them back."""
    shape, blocks, across, numbers = _stark_rounded_sizes(x.shape, x.stride(), tuple(padding), channels)
    out = torch.empty(shape, dtype=torch.float16, device=x.device)
    largest, back = torch.zeros(1, dtype=torch.int32, device=x.device), torch.empty(1, device=x.device)
    given, known = (x, out, largest, back, blocks, *numbers), {"UP": up, "PLACES": 64, "CHANNELS": across}
    _stark_rounded_kernel[(blocks,)](*given, AGAIN=False, **known, num_warps=4)
    # What is seldom needed is a launch of few programs.
    _stark_rounded_kernel[(min(blocks, 512),)](*given, AGAIN=True, **known, num_warps=4)
    return out, back
