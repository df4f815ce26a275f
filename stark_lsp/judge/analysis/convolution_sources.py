"""Inductor's jinja for `convolution`: INDICES, AXES and VAL_SHAPE are put in first."""

from __future__ import annotations

AXES = """\
    idx_n = at_n[:, None]
    idx_c = channel[None, :]
{% if RANK > 2 %}
    idx_d = at_d[:, None]
{% endif %}
{% if RANK > 1 %}
    idx_h = at_h[:, None]
{% endif %}
    idx_w = at_w[:, None]"""
SOURCE = r"""
{{def_kernel("X", "FILTERS")}}
    program = tl.program_id(0).to(INDEX_DTYPE)
    rows = (PLACES + BLOCK_M - 1) // BLOCK_M
    each = (CHANNELS + BLOCK_N - 1) // BLOCK_N
    columns = PARTS * each
    # Neighbours read the same places, from the L2 cache.
    group = program // (8 * columns)
    height = min(rows - group * 8, 8)
    row = group * 8 + program % (8 * columns) % height
    column = program % (8 * columns) // height
    part = column // each
    place = row * BLOCK_M + tl.arange(0, BLOCK_M)
    channel = column % each * BLOCK_N + tl.arange(0, BLOCK_N)
    at = tl.minimum(place, PLACES - 1)
    at_w = at % OUT_W
    at_h = at // OUT_W % OUT_H
    at_d = at // (OUT_W * OUT_H) % OUT_D
    at_n = at // (OUT_W * OUT_H * OUT_D)
    inner = tl.arange(0, BLOCK_K)
    x = X + START + (at_n * STEP_N + at_d * STEP_D + at_h * STEP_H + at_w * STEP_W)[:, None]
{% if SPREAD %}
    # Kinds of places along each dimension: by which taps meet them, and those that none meets. Some lack the first tap.
    kind_w = part % APART_W
    kind_h = part // APART_W % APART_H
    kind_d = part // (APART_W * APART_H) % APART_D
    group = part // (APART_W * APART_H * APART_D)
    taken_w = kind_w % KINDS_W
    taken_h = kind_h % KINDS_H
    taken_d = kind_d % KINDS_D
    first_w = tl.where(taken_w + BEHIND_W >= KINDS_W, 1, 0)
    first_h = tl.where(taken_h + BEHIND_H >= KINDS_H, 1, 0)
    first_d = tl.where(taken_d + BEHIND_D >= KINDS_D, 1, 0)
    taps_w = tl.where(kind_w < KINDS_W, TAPS_W - first_w, 0)
    taps_h = tl.where(kind_h < KINDS_H, TAPS_H - first_h, 0)
    taps_d = tl.where(kind_d < KINDS_D, TAPS_D - first_d, 0)
    # The first place of a kind, with what padding lacks, and how far before the others' its input is.
    to_w = taken_w * DILATION_W + kind_w // KINDS_W + FRONT_W
    to_h = taken_h * DILATION_H + kind_h // KINDS_H + FRONT_H
    to_d = taken_d * DILATION_D + kind_d // KINDS_D + FRONT_D
    x += group * PART + first_d * TAP_D + first_h * TAP_H + first_w * TAP_W
    x -= to_d // APART_D * STEP_D + to_h // APART_H * STEP_H + to_w // APART_W * STEP_W
    filters = ((group * KINDS_D + taken_d) * KINDS_H + taken_h) * KINDS_W + taken_w
    filters = FILTERS + ((filters * CHANNELS + tl.minimum(channel, CHANNELS - 1)) * LENGTH)[None, :]
    filters += ((first_d * TAPS_H + first_h) * TAPS_W + first_w) * UNIT
{% if TOGETHER %}
    run = taps_w * UNIT
    taps_w = tl.minimum(taps_w, 1)
{% else %}
    run = UNIT
{% endif %}
    runs = (run + BLOCK_K - 1) // BLOCK_K
    steps = taps_d * taps_h * taps_w * runs
{% else %}
    x += part * PART
    filters = FILTERS + ((part * CHANNELS + tl.minimum(channel, CHANNELS - 1)) * LENGTH)[None, :]
    run = RUN
    runs = (RUN + BLOCK_K - 1) // BLOCK_K
    steps = TAPS_D * TAPS_H * TAPS_W * runs
{% endif %}
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for step in range(steps):
        tap = step // runs
        k = step % runs * BLOCK_K + inner
{% if SPREAD %}
        tap_d = tap // (taps_h * taps_w)
        tap_h = tap // taps_w % taps_h
        tap_w = tap % taps_w
        offset = tap_d * TAP_D + tap_h * TAP_H + tap_w * TAP_W
        to = ((tap_d * TAPS_H + tap_h) * TAPS_W + tap_w) * UNIT
{% else %}
        offset = tap // (TAPS_H * TAPS_W) * TAP_D + tap // TAPS_W % TAPS_H * TAP_H + tap % TAPS_W * TAP_W
        to = tap * RUN
{% endif %}
{% if UNIT % BLOCK_K == 0 %}
        a = tl.load(x + (k + offset)[None, :])
        b = tl.load(filters + (k + to)[:, None])
{% else %}
        a = tl.load(x + (k + offset)[None, :], (k < run)[None, :], other=0.0)
        b = tl.load(filters + (k + to)[:, None], (k < run)[:, None], other=0.0)
{% endif %}
        acc = tl.dot(a, b, acc)
    there = (channel < CHANNELS)[None, :]
    mask = (place < PLACES)[:, None] & there
{% if SPREAD %}
    at_w = at_w * APART_W + to_w % APART_W
    at_h = at_h * APART_H + to_h % APART_H
    at_d = at_d * APART_D + to_d % APART_D
    channel += group * CHANNELS
    mask = mask & ((at_w < TO_W) & (at_h < TO_H) & (at_d < TO_D))[:, None]
{% else %}
    channel += part * CHANNELS
{% endif %}
AXES
    {{store_output(INDICES, "acc", "mask"VAL_SHAPE)}}
"""
DIRECT = r"""
{{def_kernel("X", "FILTERS", "LOW")}}
    program = tl.program_id(0).to(INDEX_DTYPE)
    each = (CHANNELS + BLOCK_N - 1) // BLOCK_N
    columns = PARTS * each
    part = program % columns // each
    place = program // columns * BLOCK_M + tl.arange(0, BLOCK_M)
    channel = program % each * BLOCK_N + tl.arange(0, BLOCK_N)
    at = tl.minimum(place, PLACES - 1)
    at_w = at % OUT_W
    at_h = at // OUT_W % OUT_H
    at_d = at // (OUT_W * OUT_H) % OUT_D
    at_n = at // (OUT_W * OUT_H * OUT_D)
    from_w = (at_w * STRIDE_W - AROUND_W)[:, None]
    from_h = (at_h * STRIDE_H - AROUND_H)[:, None]
    from_d = (at_d * STRIDE_D - AROUND_D)[:, None]
    x = X + part * PART + at_n[:, None] * STEP_N + from_d * STEP_D + from_h * STEP_H + from_w
    filters = ((part * CHANNELS + tl.minimum(channel, CHANNELS - 1)) * LENGTH)[None, :]
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for begin in range(0, LENGTH, BLOCK_K):
        k = begin + tl.arange(0, BLOCK_K)
        to_w = (k % TAPS_W * APART_W)[None, :]
        to_h = (k // TAPS_W % TAPS_H * APART_H)[None, :]
        to_d = (k // (TAPS_W * TAPS_H) % TAPS_D * APART_D)[None, :]
        step = k // (TAPS_W * TAPS_H * TAPS_D) * STEP_C
        inside = (k < LENGTH)[None, :]
{% if AROUND_W %}
        inside = inside & (from_w + to_w >= 0) & (from_w + to_w < SIZE_W)
{% endif %}
{% if AROUND_H %}
        inside = inside & (from_h + to_h >= 0) & (from_h + to_h < SIZE_H)
{% endif %}
{% if AROUND_D %}
        inside = inside & (from_d + to_d >= 0) & (from_d + to_d < SIZE_D)
{% endif %}
        number = tl.load(x + step[None, :] + to_d * STEP_D + to_h * STEP_H + to_w, inside, other=0.0)
        weight = tl.load(FILTERS + filters + k[:, None], (k < LENGTH)[:, None], other=0.0)
        # What TF32 has of a number, and what is left; what has no end is all left.
        finite = tl.abs(number) < float("inf")
        high = tl.where(finite, (number.to(tl.int32, bitcast=True) & ~0x1FFF).to(tl.float32, bitcast=True), 0.0)
        low = tl.where(finite, number - high, number)
        weight_low = tl.load(LOW + filters + k[:, None], (k < LENGTH)[:, None], other=0.0)
        acc = tl.dot(low, weight, acc, input_precision="tf32")
        acc = tl.dot(high, weight_low, acc, input_precision="tf32")
        acc = tl.dot(high, weight, acc, input_precision="tf32")
    there = (channel < CHANNELS)[None, :]
    mask = (place < PLACES)[:, None] & there
    channel += part * CHANNELS
AXES
    {{store_output(INDICES, "acc", "mask"VAL_SHAPE)}}
"""
SOURCES = {"convolution": SOURCE, "direct": DIRECT}
