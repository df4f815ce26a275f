// Helper functions of kernels for the CPU; only those that a kernel calls are written into a candidate.
// The float functions have no branch and no call, so that a loop over them is vectorised. Their polynomials are weighted
// least-maximum fits made for this project; the error is a few units in the last place, as the tests check.

static inline float _stark_as_float(int32_t bits) { float x; memcpy(&x, &bits, 4); return x; }
static inline int32_t _stark_as_int(float x) { int32_t bits; memcpy(&bits, &x, 4); return bits; }
// e^r - 1 for |r| <= ln(2) / 2.
static inline float _stark_expm1_part(float r) {
    const float p = (1.3951717410236597e-03f * r + 8.369598537683487e-03f) * r + 4.166618734598160e-02f;
    return ((p * r + 1.6666512191295624e-01f) * r + 0.5f) * (r * r) + r;
}
// e^x = 2^n * e^r. Adding 1.5 * 2^23 rounds to an integer and leaves n in the lowest bits. A factor 2 is kept apart, so
// that 2^n stays in range up to the largest float; results below 2e-38 become 0.
static inline float _stark_exp(float x) {
    x = x < -87.33f ? -87.33f : x;
    x = x > 89.0f ? 89.0f : x;
    const float shifted = x * 1.44269504f + 12582912.0f;
    const float n = shifted - 12582912.0f;
    const float r = (x - n * 0.693145751953125f) - n * 1.42860677e-6f;
    const float scale = _stark_as_float(int32_t((uint32_t(_stark_as_int(shifted)) << 23) + (126u << 23)));
    return (_stark_expm1_part(r) * 2.0f + 2.0f) * scale;
}
static inline float _stark_exp2(float x) {
    x = x < -126.0f ? -126.0f : x;
    x = x > 129.0f ? 129.0f : x;
    const float shifted = x + 12582912.0f;
    const float r = (x - (shifted - 12582912.0f)) * 0.693147181f;
    const float scale = _stark_as_float(int32_t((uint32_t(_stark_as_int(shifted)) << 23) + (126u << 23)));
    return (_stark_expm1_part(r) * 2.0f + 2.0f) * scale;
}
// e^x - 1 = 2^n * (e^r - 1) + (2^n - 1), which does not cancel for small x.
static inline float _stark_expm1(float x) {
    const float y = x < -104.0f ? -104.0f : (x > 89.0f ? 89.0f : x);
    const float n = (y * 1.44269504f + 12582912.0f) - 12582912.0f;
    const float r = (y - n * 0.693145751953125f) - n * 1.42860677e-6f;
    const int32_t k = n < -30.0f ? -30 : (n > 127.0f ? 127 : int32_t(n));
    const float scale = _stark_as_float((k + 127) << 23);
    const float y1 = scale * _stark_expm1_part(r) + (scale - 1.0f);
    const float big = n > 127.0f ? y1 * 2.0f + 1.0f : y1;
    return x == 0.0f ? x : big;
}
// log(1 + f) for sqrt(1/2) <= 1 + f < sqrt(2).
static inline float _stark_log_part(float f) {
    float p = 6.915595382452011e-02f;
    p = p * f - 1.1794091761112213e-01f;
    p = p * f + 1.1875075846910477e-01f;
    p = p * f - 1.2383799999952316e-01f;
    p = p * f + 1.4218325912952423e-01f;
    p = p * f - 1.6669270396232605e-01f;
    p = p * f + 2.0002242922782898e-01f;
    p = p * f - 2.4999986588954926e-01f;
    p = p * f + 3.3333310484886170e-01f;
    const float f2 = f * f;
    return (p * f2 * f - 0.5f * f2) + f;
}
// x = 2^n * (1 + f); also for x below the smallest normal number.
static inline float _stark_split(float x, float* n) {
    const bool tiny = x < 1.17549435e-38f;
    const int32_t bits = _stark_as_int(tiny ? x * 8388608.0f : x);
    const int32_t k = (bits - 0x3f3504f3) >> 23;
    *n = float(tiny ? k - 23 : k);
    return _stark_as_float(bits - (k << 23)) - 1.0f;
}
static inline float _stark_log_ends(float x, float y) {
    y = x == INFINITY ? x : y;
    y = x == 0.0f ? -INFINITY : y;
    y = x < 0.0f ? NAN : y;
    return x != x ? x : y;
}
static inline float _stark_log(float x) {
    float n;
    const float f = _stark_split(x, &n);
    return _stark_log_ends(x, n * 0.693145751953125f + (_stark_log_part(f) + n * 1.42860677e-6f));
}
static inline float _stark_log2(float x) {
    float n;
    const float f = _stark_split(x, &n);
    return _stark_log_ends(x, n + _stark_log_part(f) * 1.44269504f);
}
// log(u) * x / (u - 1) with u = 1 + x makes up for what the sum lost.
static inline float _stark_log1p(float x) {
    const float u = 1.0f + x;
    const float y = _stark_log(u) * (x / (u - 1.0f));
    return u == 1.0f ? x : (u == INFINITY ? u : (u == 0.0f ? -INFINITY : y));
}
// -t / (t + 2) with t = e^y - 1 = 2^n * (e^r - 1) + (2^n - 1) and y = -2|x|, which does not cancel for small x.
static inline float _stark_tanh(float x) {
    const float y = fabsf(x) > 10.0f ? -20.0f : -2.0f * fabsf(x), n = (y * 1.44269504f + 12582912.0f) - 12582912.0f;
    const float scale = _stark_as_float((int32_t(n) + 127) << 23), r = y - n * 0.693145751953125f - n * 1.42860677e-6f;
    const float p = (1.3951717410236597e-03f * r + 8.369598537683487e-03f) * r + 4.166618734598160e-02f;
    const float t = scale * (((p * r + 1.6666512191295624e-01f) * r + 0.5f) * (r * r) + r) + (scale - 1.0f);
    return copysignf(-t / (t + 2.0f), x);
}
// A polynomial near zero; 1 - e^-q(|x|) further out, where q = -log(erfc).
static inline float _stark_erf(float x) {
    const float a = fabsf(x), z = x * x;
    float p = 7.889119297033176e-05f;
    p = p * z - 8.020841050893068e-04f;
    p = p * z + 5.189535208046436e-03f;
    p = p * z - 2.6854444295167923e-02f;
    p = p * z + 1.1283600330352783e-01f;
    p = p * z - 3.7612625956535340e-01f;
    p = p * z + 1.1283791065216064e+00f;
    const float t = a > 4.0f ? 4.0f : a;
    float q = 2.168876562791411e-05f;
    q = q * t - 4.4136031647212803e-04f;
    q = q * t + 4.20468719676137e-03f;
    q = q * t - 2.52086129039526e-02f;
    q = q * t + 1.0841917246580124e-01f;
    q = q * t + 6.33219301700592e-01f;
    q = q * t + 1.129578709602356e+00f;
    q = q * t - 1.881098869489506e-04f;
    return a < 1.0f ? p * x : copysignf(1.0f - _stark_exp(-q), x);
}
// log(1 + e^x) without overflow.
static inline float _stark_softplus(float x) { return (x < 0.0f ? 0.0f : x) + _stark_log1p(_stark_exp(-fabsf(x))); }
static inline double _stark_softplus(double x) { return (x < 0.0 ? 0.0 : x) + log1p(exp(-fabs(x))); }
// sin(x + quarter * pi / 2). The quarter turns are taken off in double, which is exact enough below 2^30.
static inline float _stark_turn(float x, int64_t quarter) {
    const double n = nearbyint(double(x) * 0.63661977236758134);
    const double r = (double(x) - n * 1.5707963267948966) - n * 6.123233995736766e-17;
    const double z = r * r;
    const double s = r + r * z * (-1.6666666666666666e-1 + z * (8.333333333333333e-3 + z * (-1.984126984126984e-4
        + z * (2.7557319223985893e-6 - z * 2.505210838544172e-8))));
    const double c = 1.0 + z * (-0.5 + z * (4.1666666666666664e-2 + z * (-1.388888888888889e-3
        + z * (2.48015873015873e-5 - z * 2.755731922398589e-7))));
    const int64_t turns = (fabs(n) < 1e18 ? int64_t(n) : 0) + quarter;
    const double y = (turns & 1) ? c : s;
    return float((turns & 2) ? -y : y);
}
static inline float _stark_sin(float x) { return _stark_turn(x, 0); }
static inline float _stark_cos(float x) { return _stark_turn(x, 1); }
static inline float _stark_from_float16(uint16_t h) {
    const float x = _stark_as_float(int32_t(h & 0x7fff) << 13) * 5.192296858534828e+33f;  // 2^112
    const int32_t bits = _stark_as_int(x) | ((h & 0x7c00) == 0x7c00 ? 0x7f800000 : 0);
    return _stark_as_float(bits | (int32_t(h & 0x8000) << 16));
}
// Rounds to nearest, ties to even; adding 2^k aligns the bits that a small result keeps.
static inline uint16_t _stark_to_float16(float x) {
    const int32_t bits = _stark_as_int(x) & 0x7fffffff;
    const int32_t sign = (_stark_as_int(x) >> 16) & 0x8000;
    const int32_t normal = (bits - 0x38000000 + 0xfff + ((bits >> 13) & 1)) >> 13;
    const int32_t small = _stark_as_int(_stark_as_float(bits) + 0.5f) - 0x3f000000;
    int32_t half = bits < 0x38800000 ? small : normal;
    half = bits >= 0x477ff000 ? 0x7c00 : half;
    half = bits > 0x7f800000 ? 0x7e00 : half;
    return uint16_t(sign | half);
}
static inline float _stark_from_bfloat16(uint16_t h) { return _stark_as_float(int32_t(uint32_t(h) << 16)); }
static inline uint16_t _stark_to_bfloat16(float x) {
    const uint32_t bits = uint32_t(_stark_as_int(x));
    return x != x ? 0x7fc0 : uint16_t((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}
static inline float _stark_round_float16(float x) { return _stark_from_float16(_stark_to_float16(x)); }
static inline float _stark_round_bfloat16(float x) { return _stark_from_bfloat16(_stark_to_bfloat16(x)); }
// Copies a block to memory without reading that memory into the cache first.
static inline void _stark_stream(void* to, const void* from, size_t bytes) {
    char* out = static_cast<char*>(to);
    const char* in = static_cast<const char*>(from);
    const size_t head = (64 - reinterpret_cast<uintptr_t>(out) % 64) % 64;
#ifdef __SSE2__
    if (bytes >= head + 64) {
        memcpy(out, in, head);
        size_t at = head;
        for (; at + 64 <= bytes; at += 64)
            for (int part = 0; part < 64; part += 16)
                _mm_stream_si128(reinterpret_cast<__m128i*>(out + at + part),
                                 _mm_loadu_si128(reinterpret_cast<const __m128i*>(in + at + part)));
        memcpy(out + at, in + at, bytes - at);
        return;
    }
#endif
    memcpy(out, in, bytes);
}
// Makes the streamed blocks visible to the other threads.
static inline void _stark_stream_end() {
#ifdef __SSE2__
    _mm_sfence();
#endif
}
// Visits begin to end - 1; element j goes to lane (j - begin) % LANES, which keeps LANES sums apart and vectorises.
template <int LANES, class Visit> static inline void _stark_walk(int64_t begin, int64_t end, Visit visit) {
    int64_t j = begin;
    for (; j + LANES <= end; j += LANES)
        for (int lane = 0; lane < LANES; ++lane) visit(j + lane, lane);
    for (int lane = 0; j < end; ++j, ++lane) visit(j, lane);
}
// Joins the lanes pairwise, always in the same order.
template <int LANES, class T, class Join> static inline T _stark_join(T (&lanes)[LANES], Join join) {
    for (int half = LANES / 2; half > 0; half /= 2)
        for (int lane = 0; lane < half; ++lane) lanes[lane] = join(lanes[lane], lanes[lane + half]);
    return lanes[0];
}
template <int LANES, class T> static inline void _stark_fill(T (&lanes)[LANES], T value) {
    for (int lane = 0; lane < LANES; ++lane) lanes[lane] = value;
}
