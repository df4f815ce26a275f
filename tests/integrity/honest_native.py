"""Honest C++ and CUDA that looks like something else."""

from __future__ import annotations

FINE = {
    "a qualifier for one compiler": "#ifdef __CUDACC__\n#define HD __host__ __device__\n#else\n#define HD\n#endif\n"
    'HD float g(float a) { return a; }\nextern "C" void f(float* y) { y[0] = g(y[0]); }',
    "a check in two ways": "#ifdef A\n#define CHECK(x) if (x) return 1\n#else\n#define CHECK(x) x\n#endif\n"
    "int f() { CHECK(cudaGetLastError()); return 0; }",
    "a type for each size": "#ifndef N\n#define N 4\n#endif\n#if N > 4\n#define T float\n#else\n#define T double\n#endif\n"
    "template <int M> __global__ void k(T* x) { x[0] = N; }\nvoid f(T* x) { k<N><<<1, 1>>>(x); }",
    "members": "struct Slot { long count; std::vector<float> row; };\n"
    "void f(long n) { Slot s; s.count += 1; if (s.count > n) s.row.push_back(1); }",
    "handle": "static cublasHandle_t handle() { static cublasHandle_t h = nullptr; if (!h) cublasCreate(&h); return h; }",
    "handle2": r"""static cublasHandle_t h;
void f() { static bool made = (cublasCreate(&h), true); }""",
    "attr": "void f() { static bool initialised = false; if (!initialised) { cudaFuncSetAttribute(k, cudaFuncAttributeMaxDynamicSharedMemorySize, 1 << 16); initialised = true; } }",
    "props": "static const cudaDeviceProp& props() { static cudaDeviceProp p; static bool made = false; if (!made) { cudaGetDeviceProperties(&p, 0); made = true; } return p; }",
    "props2": "int sms() { static int count = 0; if (count == 0) cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, 0); return count; }",
    "props3": "int sms() { static const int count = at::cuda::getCurrentDeviceProperties()->multiProcessorCount; return count; }",
    "lambda": "int sms() { static const int count = [] { int n = 0; cudaDeviceGetAttribute(&n, cudaDevAttrMultiProcessorCount, 0); return n; }(); return count; }",
    "occ": r"""#include <unordered_map>
int occ(int device) { static std::unordered_map<int, int> known; auto it = known.find(device); if (it != known.end()) return it->second; int n = 0; known[device] = n; return n; }""",
    "occvec": r"""#include <vector>
int occ(int device) { static std::vector<int> known(16, 0); if (!known[device]) known[device] = 3; return known[device]; }""",
    "table": r"""static const float table[4] = {1, 2, 3, 4};
static constexpr int N = 4;
float f(int i) { return table[i]; }""",
    "table2": r"""#include <array>
static const std::array<float, 4> table = {1, 2, 3, 4};
float f(int i) { return table[i]; }""",
    "table3": r"""#include <vector>
static const std::vector<int> sizes = {1, 2, 4};
int f(int i) { return sizes[i]; }""",
    "table4": r"""#include <map>
void f() { static const std::map<int, void (*)(int)> launchers = {{1, &a}, {2, &b}}; launchers.at(1)(2); }""",
    "const": r"""__constant__ float w[1024];
__device__ int counter;
__global__ void k(float* x) { __shared__ float s[32]; x[0] = s[0]; }""",
    "once": r"""#include <mutex>
static std::once_flag once;
void f() { std::call_once(once, [] {}); }""",
    "mutex": r"""#include <mutex>
static std::mutex lock;
void f() { std::lock_guard<std::mutex> held(lock); }""",
    "stream": r"""#include <c10/cuda/CUDAStream.h>
void f() { auto stream = at::cuda::getCurrentCUDAStream(); }""",
    "guard": r"""struct Guard { explicit Guard(int d) { cudaGetDevice(&old); } ~Guard() { cudaSetDevice(old); } int old; };
void f() { Guard guard(0); }""",
    "kernelstruct": r"""struct Add { float b; __device__ float operator()(float a) const { return a + b; } };
template <class F> __global__ void k(F f, float* x) { x[0] = f(x[0]); }""",
    "ctor_local": r"""struct P { P(int a, int b) : a(a), b(b) { n = a * b; check(n); } int a, b, n; };
int f(int x) { P p(x, 2); return p.n; }
P make(int x) { return P(x, 1); }""",
    "ctor_default": r"""struct P { P() = default; int a = 0; };
static P p;
""",
    "ptx": r"""__device__ void f(unsigned* d) { asm volatile("{\n\t.reg .pred p;\n\tsetp.ne.b32 p, %0, 0;\n\t@p bra DONE;\n\tDONE:\n}" :: "r"(d[0])); }""",
    "ptx2": r"""__device__ void f(unsigned a) { asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0}, [%1];" : "=r"(a) : "r"(a)); asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0}, {%1};" : "=r"(a) : "r"(a)); asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(a) : "r"(a)); asm("bar.sync 1, 64;"); asm volatile(".pragma \"nounroll\";"); }""",
    "ptx3": r"""__device__ void f(float4& v, const float* p, unsigned w, uint64_t h) {
asm volatile("{\n\t.reg .pred p;\n\tsetp.ne.u32 p, %5, 0;\n\t@p ld.global.nc.L1::no_allocate.L2::cache_hint.v4.f32 {%0, %1, %2, %3}, [%4], %6;\n\t}"
  : "+f"(v.x), "+f"(v.y), "+f"(v.z), "+f"(v.w) : "l"(p), "r"(w), "l"(h)); asm("@%p0 st.global.v2.f32 [%0], {%1, %2};" :: "l"(p)); }""",
    "x86": r"""static inline void f() { asm volatile("" ::: "memory"); __asm__ volatile("vfmadd231ps %1, %2, %0" : "+x"(a) : "x"(b), "x"(c)); asm volatile("prefetcht0 (%0)" :: "r"(p)); }""",
    "read": "float f(const float* x) { const float read = x[0]; float write = read * 2; g(read, write); return write; }",
    "system": "struct S { int system; int kill; }; int f(S s, bool raise) { return s.system + (raise ? s.kill : 0); }",
    "oplib": r"""#include <torch/library.h>
at::Tensor f(const at::Tensor& x) { return x + 1; }
TORCH_LIBRARY(mine, m) { m.def("f(Tensor x) -> Tensor"); }
TORCH_LIBRARY_IMPL(mine, CPU, m) { m.impl("f", &f); }
TORCH_LIBRARY_IMPL(mine, Autograd, m) { m.impl("f", torch::autograd::autogradNotImplementedFallback()); }""",
    "bind": r"""#include <torch/extension.h>
namespace py = pybind11;
at::Tensor f(const at::Tensor& x) { py::gil_scoped_release release; return x + 1; }
PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.doc() = "x"; m.def("f", &f, py::arg("x"), py::call_guard<py::gil_scoped_release>()); }""",
    "launch": r"""template <int N> void launch(const float* x) { k<N><<<1, 32>>>(x); }
extern "C" void run(const float* x) { launch<4>(x); }""",
    "load": r"""#include <torch/extension.h>
using namespace at;
__device__ float load(const float* x) { return *x; }
template <class T> __device__ T save(T v) { return v; }
void launch(Tensor x) {}
Tensor f(Tensor x) { launch(x); return x; }""",
    "ternary": r"""int f(int a) { return a > 1 ? (a < 3 ? 1 : 2) : 0; }
#pragma unroll
#pragma once
#pragma omp parallel for
#pragma nv_diag_suppress 177
#pragma GCC optimize("O3")
""",
    "epoch": "void f(int* bars) { static unsigned epoch = 0; ++epoch; k<<<1, 32>>>(bars, epoch); }",
    "ws": r"""static float* workspace = nullptr; static size_t room = 0;
void f(size_t n) { if (n > room) { cudaFree(workspace); cudaMalloc(&workspace, n); room = n; } }""",
    "plans": r"""#include <map>
#include <tuple>
static std::map<std::tuple<int, int, int>, cublasLtMatmulAlgo_t> algos;
void f(int m) { algos[{m, 1, 2}] = {}; }""",
    "string": r"""#include <string>
void f() { std::string text = "a" + std::to_string(3); TORCH_CHECK(false, text); }
static const std::string name = "kernel";""",
    "localvec": r"""#include <vector>
std::vector<at::Tensor> f(at::Tensor x) { std::vector<int64_t> sizes = x.sizes().vec(); std::map<int, int> m; auto g = [&](int a) { return a; }; return {x}; }""",
    "fnptr": r"""#include <functional>
void f() { std::function<int(int)> g = [](int a) { return a; }; g(1); }""",
    "proto": r"""at::Tensor forward(at::Tensor x);
std::vector<at::Tensor> backward(at::Tensor grad, std::vector<int64_t> sizes);
static std::tuple<at::Tensor, at::Tensor> two(const at::Tensor& x);
at::Tensor forward(at::Tensor x) { return x; }""",
    "protostatic": r"""#include <vector>
static std::vector<float> make(int n);
template <class T> static std::pair<T, T> both(T a);
namespace mine { struct Row; std::vector<Row> rows_of(const float* x); }""",
    "thread_local_handle": r"""static thread_local cublasLtHandle_t lt = nullptr;
void f() { if (lt == nullptr) cublasLtCreate(&lt); }""",
    "generation": r"""template <typename T> struct Vec { T v[4]; __host__ __device__ Vec() {} __host__ __device__ Vec(T a) { v[0] = a; } };
__global__ void k(Vec<float>* x) { Vec<float> a; x[0] = a; }
void f(Vec<float> a) {}""",
    "errors": r"""#include <cstdlib>
#define CHECK(x) do { if ((x) != cudaSuccess) { printf("bad"); exit(1); } } while (0)
void f() { CHECK(cudaGetLastError()); std::abort(); }""",
}
