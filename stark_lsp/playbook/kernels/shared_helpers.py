"""Helper functions that kernels of both devices may call.

In a text `{static}`, `{exp}` and `{log1p}` stand for what the device has for it.
"""

from __future__ import annotations

Table = dict[str, tuple[tuple[str, ...], str]]
"""By name: the names of those it needs, and its text, which may define several functions."""

HELPERS: Table = {
    "max": (
        (),
        """\
template <class T> {static} T _stark_max(T a, T b) { return (a > b || a != a) ? a : b; }  // keeps NaN
""",
    ),
    "min": (
        (),
        """\
template <class T> {static} T _stark_min(T a, T b) { return (a < b || a != a) ? a : b; }  // keeps NaN
""",
    ),
    "square": (
        (),
        """\
template <class T> {static} T _stark_square(T a) { return a * a; }
""",
    ),
    "remainder": (
        (),
        """\
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
""",
    ),
    "floor_div": (
        (),
        """\
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
""",
    ),
    "softplus": (
        (),
        """\
// log(1 + e^x) without overflow.
{static} float _stark_softplus(float x) { return (x < 0.0f ? 0.0f : x) + {log1p}({exp}(-fabsf(x))); }
{static} double _stark_softplus(double x) { return (x < 0.0 ? 0.0 : x) + log1p(exp(-fabs(x))); }
""",
    ),
}
