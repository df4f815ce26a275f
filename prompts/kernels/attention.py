import torch
import triton
import triton.language as tl


# In place of products, scaling, mask and softmax: each program takes some rows of a head past all columns, a tile of
# scores at a time. What a row has so far is scaled down when a larger score comes; tiles that the mask takes out cost
# nothing but a look.
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
    column, at = tl.arange(0, COLUMNS)[None, :], tl.arange(0, WIDTH)
    wide, high = (at[None, :] < HEAD, at[:, None] < HEAD) if HEAD < WIDTH else (True, True)
    asked = tl.load(q + row * qr + at[None, :] * qd, (row < rows) & wide, other=0.0) * scale
    largest = tl.full([ROWS, 1], float("-inf"), tl.float32)
    total = tl.zeros([ROWS, 1], tl.float32)
    found = tl.zeros([ROWS, WIDTH], tl.float32)
    for begin in range(0, columns, COLUMNS):
        inside = begin + column < columns
        if MASK:
            taken = tl.load(mask + row * mr + (begin + column) * mc, inside & (row < rows), other=float("-inf"))
            wanted = tl.max(taken) > float("-inf")
        else:
            wanted = True
        if wanted:
            keys = tl.load(k + at[:, None] * kd + (begin + column) * kc, inside & high, other=0.0)
            scores = tl.dot(asked, keys, input_precision="bf16x6")
            if PUT:
                scores = tl.where(taken == 0.0, scores, taken)
            elif MASK:
                scores += taken
            scores = tl.where(inside, scores, float("-inf"))
            larger = tl.maximum(largest, tl.max(scores, 1)[:, None])
            above = tl.where(larger == float("-inf"), 0.0, larger)
            weights, shrunk = tl.exp(scores - above), tl.exp(largest - above)
            place = begin + tl.arange(0, COLUMNS)[:, None]
            values = tl.load(v + place * vc + at[None, :] * vd, (place < columns) & wide, other=0.0)
            total = total * shrunk + tl.sum(weights, 1)[:, None]
            found = found * shrunk + tl.dot(weights, values, input_precision="bf16x3")
            largest = larger
    start = out + of * rows * HEAD
    tl.store(start + row * HEAD + at[None, :], found / total, (row < rows) & wide)


def _stark_attention(q, k, v, mask, scale, put):
    """Return softmax(q @ k * scale + mask) @ v; put, scores are what the mask is where that is not 0."""
    batch, heads, rows, width = q.shape
    out = torch.empty((batch, heads, rows, width), dtype=q.dtype, device=q.device)
    masked, given = mask is not None, q if mask is None else mask
    block, tile, stages = 128, 64, 2
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
        HEAD=width,
        WIDTH=triton.next_power_of_2(width),
        ROWS=block,
        COLUMNS=tile,
        num_warps=block // 16,
        num_stages=stages,
    )
    return out
