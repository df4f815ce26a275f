// Helper functions of kernels for CPU and CUDA; there `static inline` is what a function for the GPU is declared with.

template <class T> static inline T _stark_max(T a, T b) { return (a > b || a != a) ? a : b; }  // keeps NaN
template <class T> static inline T _stark_min(T a, T b) { return (a < b || a != a) ? a : b; }  // keeps NaN
template <class T> static inline T _stark_square(T a) { return a * a; }
// Has the sign of the divisor, as in Python.
static inline float _stark_remainder(float a, float b) {
    const float r = fmodf(a, b);
    return (r != 0.0f && (r < 0.0f) != (b < 0.0f)) ? r + b : r;
}
static inline double _stark_remainder(double a, double b) {
    const double r = fmod(a, b);
    return (r != 0.0 && (r < 0.0) != (b < 0.0)) ? r + b : r;
}
template <class T> static inline T _stark_remainder(T a, T b) {
    const T r = a % b;
    return (r != 0 && (r < 0) != (b < 0)) ? r + b : r;
}
// Rounds down, as in Python.
template <class T> static inline T _stark_floor_div_real(T a, T b) {
    if (b == 0) return a / b;
    const T r = fmod(a, b);
    T whole = (a - r) / b;
    if (r != 0 && (r < 0) != (b < 0)) whole -= 1;
    if (whole == 0) return copysign(T(0), a / b);
    const T down = floor(whole);
    return whole - down > T(0.5) ? down + 1 : down;
}
static inline float _stark_floor_div(float a, float b) { return _stark_floor_div_real(a, b); }
static inline double _stark_floor_div(double a, double b) { return _stark_floor_div_real(a, b); }
template <class T> static inline T _stark_floor_div(T a, T b) {
    const T whole = a / b;
    return (a % b != 0 && (a < 0) != (b < 0)) ? whole - 1 : whole;
}
