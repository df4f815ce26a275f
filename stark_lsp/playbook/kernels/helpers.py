"""The helper functions that kernels may call; only those that are called are written into a source."""

from __future__ import annotations

import re

from stark_lsp.playbook.kernels import cpu_helpers, cuda_helpers

_SHARED = """\
template <class T> {static} T _stark_max(T a, T b) { return (a > b || a != a) ? a : b; }  // keeps NaN
template <class T> {static} T _stark_min(T a, T b) { return (a < b || a != a) ? a : b; }  // keeps NaN
template <class T> {static} T _stark_square(T a) { return a * a; }
// Has the sign of the divisor, as in Python.
{static} float _stark_remainder(float a, float b) {
    const float r = fmodf(a, b);
    return (r != 0.0f && (r < 0.0f) != (b < 0.0f)) ? r + b : r;
}
{static} double _stark_remainder(double a, double b) {
    const double r = fmod(a, b);
    return (r != 0.0 && (r < 0.0) != (b < 0.0)) ? r + b : r;
}
template <class T> {static} T _stark_remainder(T a, T b) {
    const T r = a % b;
    return (r != 0 && (r < 0) != (b < 0)) ? r + b : r;
}
// Rounds down, as in Python.
template <class T> {static} T _stark_floor_div_real(T a, T b) {
    if (b == 0) return a / b;
    const T r = fmod(a, b);
    T whole = (a - r) / b;
    if (r != 0 && (r < 0) != (b < 0)) whole -= 1;
    if (whole == 0) return copysign(T(0), a / b);
    const T down = floor(whole);
    return whole - down > T(0.5) ? down + 1 : down;
}
{static} float _stark_floor_div(float a, float b) { return _stark_floor_div_real(a, b); }
{static} double _stark_floor_div(double a, double b) { return _stark_floor_div_real(a, b); }
template <class T> {static} T _stark_floor_div(T a, T b) {
    const T whole = a / b;
    return (a % b != 0 && (a < 0) != (b < 0)) ? whole - 1 : whole;
}
"""
"""Of both devices; `{static}` stands for what the device says for a function of the file alone."""
_DEFINED = re.compile(r"^(?!//)[^{=]*?\b(_stark_\w+)(?=[\s({])", re.MULTILINE)


def helper_text(body: str, device_type: str) -> str:
    """Return the definitions that a body needs, in order; comments belong to what follows them."""
    cpu = device_type == "cpu"
    static = "static inline" if cpu else "__device__ __forceinline__"
    table = _SHARED.replace("{static}", static) + (cpu_helpers.TEXT if cpu else cuda_helpers.TEXT)
    definitions: list[tuple[str, str]] = []
    lines = ""
    for line in table.splitlines(keepends=True):
        lines += line
        if re.match(r"}|[^/\s#].*}(  //.*)?$", line):
            found = _DEFINED.search(lines)
            assert found is not None
            definitions.append((found[1], lines))
            lines = ""
    needed: set[str] = set()
    todo = [body]
    while todo:
        calls = set(re.findall(r"_stark_\w+", todo.pop())) - needed
        needed |= calls
        todo += [text for name, text in definitions if name in calls]
    return "".join(text for name, text in definitions if name in needed)
