"""Ways around the reader in C++, and the honest code that looks like them."""

from __future__ import annotations

import pytest

from stark_lsp.judge.integrity import check_native

REFUSED = {
    "data by .word": r"""void f(const float* x, float* y, long n) { asm volatile(".word 0x050f" ::: "memory"); }""",
    "data by .value after an instruction": r"""void f(const float* x, float* y, long n) { asm volatile("nop; .value 0x050f"); }""",
    "data by .2byte": r"""void f(const float* x, float* y, long n) { asm volatile(".2byte 1295"); }""",
    "data by .ascii": r"""void f(const float* x, float* y, long n) { asm volatile(".ascii \"\\017\\005\""); }""",
    "data by .octa behind a jump": r"""void f(const float* x, float* y, long n) { asm volatile("jmp 1f\n.octa 0x050f\n1:"); }""",
    "data behind what looks like PTX": r"""void f(const float* x, float* y, long n) { asm volatile("mov. %0, %1\n\t.long 5"); }""",
    "data behind a comment": r"""void f(const float* x, float* y, long n) { asm volatile("nop; /* a */ .long 5"); }""",
    "a symbol behind what looks like PTX": r"""void f(const float* x, float* y, long n) { asm volatile("ld.global.f32 %0, [%1];\n\t.globl x"); }""",
    "a system call behind what looks like PTX": r"""void f(const float* x, float* y, long n) { asm volatile("mov. %0, %1;\n\tsyscall"); }""",
    "a directive whose name is an operand": r"""void f(const float* x, float* y, long n) { asm volatile(".%c0 1" :: "i"(5)); }""",
    "a call through the table of functions": r"""void f(const float* x, float* y, long n) { asm volatile("call system@PLT"); }""",
    "redefine_extname": r"""#pragma redefine_extname zz clock_gettime
extern "C" int zz(int, void* t) { return 0; }""",
    "pragma weak": r"""#pragma weak zz = clock_gettime
extern "C" int zz(int, void* t) { return 0; }""",
    "a pragma by its operator": r"""_Pragma("redefine_extname zz clock_gettime") extern "C" int zz(int, void* t) { return 0; }""",
    "trigraph that joins lines": r"""void f(const float* x, float* y, long n) { sys??/
tem("id"); }""",
    "trigraph in a comment": r"""// what is this??/
int a;
""",
    "trigraph for a brace": "void f(const float* x, float* y, long n) { int a??(3]; }",
    "a name spelled by numbers": r"""void f(const float* x, float* y, long n) { s\u0079stem("id"); }""",
    "a call behind a branch that is never compiled": r"""void f(const float* x, float* y, long n) {
#if 0
hi
#else
system("id");
#endif
 }""",
    "a macro of which a dead branch says something else": "#define S system\n#if 0\n#define S puts\n#endif\n"
    'void f() { S("id"); }',
    "a macro that a dead branch takes back": "#define S system\n#if 0\n#undef S\n#endif\nvoid f() { S(0); }",
    "a macro that joins in one branch only": "#if __GNUC__ < 3\n#define J(a, b) a\n#else\n#define J(a, b) a##b\n#endif\n"
    'void f() { J(sys, tem)("id"); }',
    "a header that one of two branches names": "#ifdef A\n#define H <cmath>\n#else\n#define H </etc/passwd>\n#endif\n"
    "#include H\n",
    "inner parts of libc": r"""void f(const float* x, float* y, long n) { __libc_dlsym(0, "system"); }""",
    "tables of loaded libraries": "void f(const float* x, float* y, long n) { extern void* _GLOBAL_OFFSET_TABLE_[]; _GLOBAL_OFFSET_TABLE_[3] = 0; }",
    "torch's libraries": r"""#include <torch/extension.h>
torch::Tensor f(torch::Tensor x) { at::DynamicLibrary l("libc.so.6"); return torch::relu(x); }""",
    "a global function as value": "void f(const float* x, float* y, long n) { auto g = &::fork; g(); }",
    "a function as value": "void f(const float* x, float* y, long n) { int (*g)() = fork; g(); }",
    "a declared function as value": r"""extern "C" int kill(int, int);
void f(const float* x, float* y, long n) { auto g = kill; g(1, 0); }""",
    "a function of std as value": r"""void f(const float* x, float* y, long n) { using std::system; auto g = &system; g("id"); }""",
    "at::launch": r"""#include <torch/extension.h>
torch::Tensor f(torch::Tensor x) { at::launch([] {}); return torch::relu(x); }""",
    "launch after using namespace": r"""#include <torch/extension.h>
using namespace at;
torch::Tensor f(torch::Tensor x) { launch([] {}); return torch::relu(x); }""",
    "at::launch by alias": r"""#include <torch/extension.h>
namespace a = at;
torch::Tensor f(torch::Tensor x) { a::launch([] {}); return torch::relu(x); }""",
    "c10's threads": r"""#include <torch/extension.h>
torch::Tensor f(torch::Tensor x) { c10::ThreadPool p(2); return torch::relu(x); }""",
    "torch::load": r"""#include <torch/extension.h>
torch::Tensor f(torch::Tensor x) { torch::load(x, "/tmp/x"); return torch::relu(x); }""",
    "a file as tensor": r"""#include <torch/extension.h>
torch::Tensor f(torch::Tensor x) { auto t = at::from_file("/x", false, 100, at::kByte); return torch::relu(x); }""",
    "a file by its base class": r"""void f(const float* x, float* y, long n) { auto o = std::basic_ifstream<char>("/x"); }""",
    "atexit": "void f(const float* x, float* y, long n) { atexit([] {}); }",
    "__cxa_atexit": "void f(const float* x, float* y, long n) { __cxa_atexit(0, 0, 0); }",
    "sleeping": "void f(const float* x, float* y, long n) { std::this_thread::sleep_for(std::chrono::seconds(1)); }",
    "pybind by alias": r"""#include <torch/extension.h>
namespace q = pybind11;
torch::Tensor f(torch::Tensor x) { q::exec("1"); return torch::relu(x); }""",
    "pybind by alias of an alias": r"""#include <torch/extension.h>
namespace q = ::pybind11;
namespace r = q;
torch::Tensor f(torch::Tensor x) { r::eval("1"); return torch::relu(x); }""",
    "pybind by using": r"""#include <torch/extension.h>
using namespace pybind11;
torch::Tensor f(torch::Tensor x) { exec("1"); return torch::relu(x); }""",
    "attributes with underscores": r"""#include <torch/extension.h>
torch::Tensor f(torch::Tensor x) { py::cast(1).attr("__class__"); return torch::relu(x); }""",
    "attributes by joined texts": r"""#include <torch/extension.h>
torch::Tensor f(torch::Tensor x) { py::cast(1).attr("_" "_class__"); return torch::relu(x); }""",
    "attributes by a variable": r"""#include <torch/extension.h>
torch::Tensor f(torch::Tensor x) { py::cast(1).attr(name); return torch::relu(x); }""",
    "frames": r"""#include <torch/extension.h>
torch::Tensor f(torch::Tensor x) { auto* fr = PyThreadState_GetFrame(PyGILState_GetThisThreadState()); return torch::relu(x); }""",
    "globals of a frame": r"""#include <torch/extension.h>
torch::Tensor f(torch::Tensor x) { PyFrame_GetGlobals(0); return torch::relu(x); }""",
    "imports": r"""#include <torch/extension.h>
torch::Tensor f(torch::Tensor x) { PyImport_ImportModuleNoBlock("os"); return torch::relu(x); }""",
    "modules": r"""#include <torch/extension.h>
torch::Tensor f(torch::Tensor x) { PyImport_GetModule(0); return torch::relu(x); }""",
    "attributes by C functions": r"""#include <torch/extension.h>
torch::Tensor f(torch::Tensor x) { PyObject_GetAttrString(0, "a"); return torch::relu(x); }""",
    "calls by C functions": r"""#include <torch/extension.h>
torch::Tensor f(torch::Tensor x) { PyObject_CallMethod(0, "a", 0); return torch::relu(x); }""",
    "inner functions of Python": r"""#include <torch/extension.h>
torch::Tensor f(torch::Tensor x) { _PyThreadState_UncheckedGet(); return torch::relu(x); }""",
    "implements for aten": r"""#include <torch/extension.h>
TORCH_LIBRARY_IMPL(aten, CPU, m) { }
torch::Tensor f(torch::Tensor x) {  return torch::relu(x); }""",
    "implements for every namespace": r"""#include <torch/extension.h>
TORCH_LIBRARY_IMPL(_, CPU, m) { }
torch::Tensor f(torch::Tensor x) {  return torch::relu(x); }""",
    "implements for a namespace of others": r"""#include <torch/extension.h>
TORCH_LIBRARY_IMPL(others, CPU, m) { }
torch::Tensor f(torch::Tensor x) {  return torch::relu(x); }""",
    "a fragment of aten": r"""#include <torch/extension.h>
TORCH_LIBRARY_FRAGMENT(aten, m) { }
torch::Tensor f(torch::Tensor x) {  return torch::relu(x); }""",
    "a library as object": r"""#include <torch/extension.h>
static auto z = torch::Library(torch::Library::IMPL, "aten", k, __FILE__, __LINE__);
torch::Tensor f(torch::Tensor x) {  return torch::relu(x); }""",
    "vectors": r"""#include <vector>
static std::vector<float> K, V;
void f(const float* x, float* y, long n) { if (K.size() == n) memcpy(y, V.data(), 4 * n); }""",
    "a vector of a struct": r"""#include <vector>
struct Row { std::vector<float> v; };
static std::vector<Row> rows;
void f(const float* x, float* y, long n) { rows.push_back(Row{}); }""",
    "a vector of whole numbers": r"""#include <vector>
static std::vector<long> seen;
void f(const float* x, float* y, long n) { seen.push_back(n); }""",
    "a vector in an unnamed namespace": r"""#include <vector>
namespace { std::vector<float> V; }
void f(const float* x, float* y, long n) { V.assign(x, x + n); }""",
    "a struct that holds a map": r"""#include <map>
struct Cache { std::map<long, std::vector<float>> m; };
Cache cache;
void f(const float* x, float* y, long n) { cache.m[n] = {x[0]}; }""",
    "a map of each thread": "void f(const float* x, float* y, long n) { static thread_local std::map<void*, std::vector<float>> m; m[y]; }",
    "a member of a class": r"""struct Keep { static std::vector<float> all; };
std::vector<float> Keep::all;
void f(const float* x, float* y, long n) { Keep::all.push_back(x[0]); }""",
    "a static member": "struct Keep { inline static std::vector<float> all; };\nvoid f(float x) { Keep::all.push_back(x); }",
    "an address as number": r"""#include <torch/extension.h>
torch::Tensor f(torch::Tensor x) { static uintptr_t p = 0; if (!p) p = (uintptr_t)new torch::Tensor(x); return *(torch::Tensor*)p; return torch::relu(x); }""",
    "an address as long": "void f(const float* x, float* y, long n) { static long p = 0; if (!p) p = reinterpret_cast<long>(y); }",
    "an address in an atomic": "void f(const float* x, float* y, long n) { static std::atomic<size_t> p; p.store((uintptr_t)y); }",
    "auto": r"""#include <torch/extension.h>
torch::Tensor f(torch::Tensor x) { static auto p = new std::pair<int, decltype(x)>(0, x); return p->second; return torch::relu(x); }""",
    "auto of the first input": r"""#include <torch/extension.h>
torch::Tensor f(torch::Tensor x) { static auto p = torch::relu(x); return p.clone(); return torch::relu(x); }""",
    "const of the first input": r"""#include <torch/extension.h>
torch::Tensor f(torch::Tensor x) { static const auto p = torch::relu(x); return p.clone(); return torch::relu(x); }""",
    "a const tensor": r"""#include <torch/extension.h>
torch::Tensor f(torch::Tensor x) { static const torch::Tensor p = torch::relu(x); return p.clone(); return torch::relu(x); }""",
    "a function object": r"""#include <torch/extension.h>
torch::Tensor f(torch::Tensor x) { static std::function<decltype(x)()> g; if (!g) { auto y = torch::relu(x); g = [y] { return y; }; } return g(); return torch::relu(x); }""",
    "std::any": r"""#include <torch/extension.h>
torch::Tensor f(torch::Tensor x) { static std::any a; if (!a.has_value()) a = torch::relu(x); return std::any_cast<decltype(x)>(a); return torch::relu(x); }""",
    "std::optional": "void f(const float* x, float* y, long n) { static std::optional<std::vector<float>> o; if (!o) o = std::vector<float>(x, x + n); }",
    "std::shared_ptr": "void f(const float* x, float* y, long n) { static std::shared_ptr<float> p; if (!p) p = std::make_shared<float>(x[0]); }",
    "std::string": "void f(const float* x, float* y, long n) { static std::string s; s.append((const char*)x, 4 * n); }",
    "a counter in a condition": "void f(const float* x, float* y, long n) { static int calls = 0; calls++; if (n > 0 && calls > 9) return; }",
    "an atomic counter": "void f(const float* x, float* y, long n) { static std::atomic<int> calls{0}; if (calls.fetch_add(1) > 9) return; }",
    "a counter that goes down": "void f(const float* x, float* y, long n) { static int left = 9; left = left - 1; if (left < 0) return; }",
    "a constructor": r"""struct S { S() { std::printf("INIT"); } } s;
""",
    "a destructor": r"""void f(const float* x, float* y, long n) { static struct G { ~G() { std::puts("DTOR"); } } g; }""",
    "an object after its class": r"""struct S { S() { run(); } };
static S s;
""",
    "an object by auto": r"""struct S { S(int) { run(); } };
static auto s = S(1);
""",
    "a constructor elsewhere": r"""struct S { S(); };
S::S() { run(); }
S s;
""",
}
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


@pytest.mark.parametrize("source", REFUSED.values(), ids=REFUSED.keys())
def test_what_leads_around_the_reader_of_cpp_is_refused(source: str) -> None:
    refusal = check_native(source)
    assert refusal is not None
    assert refusal.line is not None
    assert 1 <= refusal.line <= source.count("\n") + 1


@pytest.mark.parametrize("source", FINE.values(), ids=FINE.keys())
def test_honest_cpp_that_looks_alike_passes(source: str) -> None:
    assert check_native(source) is None
