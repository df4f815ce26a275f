import torch
import triton
import triton.language as tl


# In place of products, scaling, mask and softmax: each program takes some rows of a head past the columns that the mask
# leaves them, a tile of scores at a time. What a row has so far is scaled down when a larger score comes.
@triton.jit
def _stark_attention_kernel(
    q,
    k,
    v,
    mask,
    out,
    qb,
    qh,
    qr,
    qd,
    kb,
    kh,
    kd,
    kc,
    vb,
    vh,
    vc,
    vd,
    mb,
    mh,
    mr,
    mc,
    heads,
    rows,
    columns,
    scale,
    MASK: tl.constexpr,
    PUT: tl.constexpr,
    FLAT: tl.constexpr,
    LOOK: tl.constexpr,
    HALF: tl.constexpr,
    SAFE: tl.constexpr,
    HEAD: tl.constexpr,
    WIDTH: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
):
    blocks = tl.cdiv(rows, ROWS)
    row = (tl.program_id(0) % blocks * ROWS + tl.arange(0, ROWS))[:, None]
    of = (tl.program_id(0) // blocks).to(tl.int64)
    batch, head = of // heads, of % heads
    q, k = q + batch * qb + head * qh, k + batch * kb + head * kh
    v, mask = v + batch * vb + head * vh, mask + batch * mb + head * mh
    # A mask of columns alone is read once for all rows.
    mask, there = (mask, True) if FLAT else (mask + row * mr, row < rows)
    column, at = tl.arange(0, COLUMNS)[None, :], tl.arange(0, WIDTH)
    wide, high = (at[None, :] < HEAD, at[:, None] < HEAD) if HEAD < WIDTH else (True, True)
    asked = tl.load(q + row * qr + at[None, :] * qd, (row < rows) & wide, other=0.0)
    # What tensor cores take in parts is scaled before, numbers of few bits behind.
    asked, behind = (asked, scale) if HALF else (asked * scale, 1.0)
    largest = tl.full([ROWS, 1], float("-inf"), tl.float32)
    total = tl.zeros([ROWS, 1], tl.float32)
    found = tl.zeros([ROWS, WIDTH], tl.float32)
    first, last = 0, tl.cdiv(columns, COLUMNS) * COLUMNS
    if LOOK:
        # Tiles at both ends that the mask leaves nothing of.
        nothing = True
        while (last > 0) & nothing:
            at_end = tl.multiple_of(last - COLUMNS, COLUMNS) + column
            taken = tl.load(mask + at_end * mc, (at_end < columns) & there, other=float("-inf"))
            nothing = tl.max(taken.to(tl.float32)) == float("-inf")
            last = tl.where(nothing, last - COLUMNS, last)
        nothing = True
        while (first < last) & nothing:
            at_start = tl.multiple_of(first, COLUMNS) + column
            taken = tl.load(mask + at_start * mc, (at_start < columns) & there, other=float("-inf"))
            nothing = tl.max(taken.to(tl.float32)) == float("-inf")
            first = tl.where(nothing, first + COLUMNS, first)
    for begin in range(first, last, COLUMNS):
        begin = tl.multiple_of(begin, COLUMNS)
        inside = begin + column < columns
        keys = tl.load(k + at[:, None] * kd + (begin + column) * kc, inside & high, other=0.0)
        scores = tl.dot(asked, keys, input_precision="bf16x6") * behind
        if MASK:
            taken = tl.load(mask + (begin + column) * mc, inside & there, other=0.0).to(tl.float32)
            scores = tl.where(taken == 0.0, scores, taken) if PUT else scores + taken
        scores = tl.where(inside, scores, float("-inf"))
        larger = tl.maximum(largest, tl.max(scores, 1)[:, None])
        above = tl.where(larger == float("-inf"), 0.0, larger)
        weights, shrunk = tl.exp(scores - above), tl.exp(largest - above)
        place = begin + tl.arange(0, COLUMNS)[:, None]
        values = tl.load(v + place * vc + at[None, :] * vd, (place < columns) & wide, other=0.0)
        total = total * shrunk + tl.sum(weights, 1)[:, None]
        found = found * shrunk + tl.dot(weights.to(values.dtype), values, input_precision="bf16x3")
        largest = larger
    total = tl.where(total == 0.0, 1.0, total) if SAFE else total
    start = out + of * rows * HEAD
    tl.store(start + row * HEAD + at[None, :], found / total, (row < rows) & wide)


def _stark_attention(q, k, v, mask, scale, put, safe=False):
    """Return softmax(q @ k * scale + mask) @ v; put, scores are what the mask is where that is not 0.

    A row that the mask leaves nothing of is NaN, safe 0.
    """
    batch, heads, rows, width = q.shape
    out = torch.empty((batch, heads, rows, width), dtype=q.dtype, device=q.device)
    masked, half = mask is not None, q.element_size() == 2
    block, tile, stages = 128, 64, 2
    given = mask if masked else q
    _stark_attention_kernel[(triton.cdiv(rows, block) * batch * heads,)](
        q,
        k,
        v,
        given,
        out,
        *q.stride(),
        *k.stride(),
        *v.stride(),
        *given.stride(),
        heads,
        rows,
        k.shape[-1],
        scale,
        MASK=masked,
        PUT=put,
        FLAT=masked and mask.stride(2) == 0,
        LOOK=masked and k.shape[-1] > 256,
        HALF=half,
        SAFE=safe,
        HEAD=width,
        WIDTH=triton.next_power_of_2(width),
        ROWS=block,
        COLUMNS=tile,
        num_warps=block // 16,
        num_stages=stages,
    )
    return out
