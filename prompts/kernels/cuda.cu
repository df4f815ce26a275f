// Helper functions of kernels for CUDA; only those that a kernel calls are written into a candidate.

__device__ __forceinline__ float _stark_max(float a, float b) {
#if __CUDA_ARCH__ >= 800
    float found;
    asm("max.NaN.f32 %0, %1, %2;" : "=f"(found) : "f"(a), "f"(b));
    return found;
#else
    return (a > b || a != a) ? a : b;
#endif
}
__device__ __forceinline__ float _stark_min(float a, float b) {
#if __CUDA_ARCH__ >= 800
    float found;
    asm("min.NaN.f32 %0, %1, %2;" : "=f"(found) : "f"(a), "f"(b));
    return found;
#else
    return (a < b || a != a) ? a : b;
#endif
}
// log(1 + e^x) without overflow.
__device__ __forceinline__ float _stark_softplus(float x) { return (x < 0.0f ? 0.0f : x) + log1pf(expf(-fabsf(x))); }
__device__ __forceinline__ double _stark_softplus(double x) { return (x < 0.0 ? 0.0 : x) + log1p(exp(-fabs(x))); }
__device__ __forceinline__ float _stark_round_float16(float x) { return __half2float(__float2half_rn(x)); }
__device__ __forceinline__ float _stark_round_bfloat16(float x) { return __bfloat162float(__float2bfloat16_rn(x)); }
// V neighbouring elements, moved by as few instructions as their alignment allows.
template <class T, int V> struct alignas(sizeof(T) * V > 16 ? 16 : sizeof(T) * V) _stark_vec { T at[V]; };
template <int V, class T> __device__ __forceinline__ _stark_vec<T, V> _stark_load(const T* from) {
    return *reinterpret_cast<const _stark_vec<T, V>*>(from);
}
template <int V, class T> __device__ __forceinline__ void _stark_store(T* to, const _stark_vec<T, V>& value) {
    *reinterpret_cast<_stark_vec<T, V>*>(to) = value;
}
template <int V, class... T> static bool _stark_aligned(const T*... pointers) {
    return (... && (reinterpret_cast<uintptr_t>(pointers) % alignof(_stark_vec<T, V>) == 0));
}
// Makes a device current for as long as it lives.
struct _stark_on_device {
    int device, previous;
    explicit _stark_on_device(int wanted) : device(wanted), previous(wanted) {
        cudaGetDevice(&previous);
        if (previous != device) cudaSetDevice(device);
    }
    ~_stark_on_device() {
        if (previous != device) cudaSetDevice(previous);
    }
};
// Joins the values of WIDTH neighbouring threads; all of them get the result.
template <int WIDTH, class T, class Join> __device__ __forceinline__ T _stark_warp_join(T value, Join join) {
    #pragma unroll
    for (int step = WIDTH / 2; step > 0; step /= 2) value = join(value, T(__shfl_xor_sync(0xffffffffu, value, step)));
    return value;
}
// Joins the values of all threads of a block; all of them get the result.
template <int THREADS, class T, class Join> __device__ __forceinline__ T _stark_block_join(T value, Join join) {
    __shared__ T warps[THREADS / 32];
    value = _stark_warp_join<32>(value, join);
    __syncthreads();
    if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = value;
    __syncthreads();
    return _stark_warp_join<THREADS / 32>(warps[threadIdx.x % (THREADS / 32)], join);
}
// Joins the values of all threads of a cluster of BLOCKS blocks; none may end before all have read. Joins have a place
// each, since each has a type of its own.
template <int THREADS, int BLOCKS, class T, class Join>
__device__ __forceinline__ T _stark_cluster_join(T value, Join join) {
    __shared__ T share;
    const auto cluster = cooperative_groups::this_cluster();
    value = _stark_block_join<THREADS>(value, join);
    if (threadIdx.x == 0) share = value;
    cluster.sync();
    return _stark_warp_join<BLOCKS>(*cluster.map_shared_rank(&share, threadIdx.x % BLOCKS), join);
}
// Joins the values of threads that stand above each other in a block of DOWN rows; all of them get the result.
template <int THREADS, int DOWN, int V, class T, class Join>
__device__ __forceinline__ void _stark_stack_join(T (&values)[V], Join join) {
    constexpr int ACROSS = THREADS / DOWN;
    __shared__ T all[V][THREADS];
    __syncthreads();
    #pragma unroll
    for (int k = 0; k < V; ++k) all[k][threadIdx.x] = values[k];
    #pragma unroll
    for (int half = DOWN / 2; half > 0; half /= 2) {
        __syncthreads();
        if (threadIdx.x < half * ACROSS) {
            #pragma unroll
            for (int k = 0; k < V; ++k)
                all[k][threadIdx.x] = join(all[k][threadIdx.x], all[k][threadIdx.x + half * ACROSS]);
        }
    }
    __syncthreads();
    #pragma unroll
    for (int k = 0; k < V; ++k) values[k] = all[k][threadIdx.x % ACROSS];
}
