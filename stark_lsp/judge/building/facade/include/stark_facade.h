// A stand-in for torch's headers that compiles in a fraction of the time.
//
// It declares what bindings of kernels commonly use, laid out as in the real library, so that code compiled with it
// links with code compiled with the real headers. What it lacks does not compile, and is then built with the real ones.
// Types that the real library lays out differently lie in an inline namespace: their symbols have names of their own.
#pragma once
#include <cfloat>
#include <climits>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <limits>
#include <optional>
#include <stdexcept>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include <c10/util/Optional.h>

#include "../support.h"
#include "stark_needs.h" // written for each source: what else it uses

#define STARK_INLINE __attribute__((always_inline)) inline

#ifndef C10_UNLIKELY
#define C10_LIKELY(expr) (__builtin_expect(static_cast<bool>(expr), 1))
#define C10_UNLIKELY(expr) (__builtin_expect(static_cast<bool>(expr), 0))
#endif
#ifndef C10_HOST_DEVICE
#ifdef __CUDACC__
#define C10_HOST_DEVICE __host__ __device__
#define C10_DEVICE __device__
#define C10_HOST __host__
#else
#define C10_HOST_DEVICE
#define C10_DEVICE
#define C10_HOST
#endif
#endif

namespace c10 {

#ifndef STARK_REAL_SCALAR_TYPE
enum class ScalarType : int8_t {
  Byte = 0, Char, Short, Int, Long, Half, Float, Double, ComplexHalf, ComplexFloat, ComplexDouble, Bool, QInt8, QUInt8,
  QInt32, BFloat16, QUInt4x2, QUInt2x4, Bits1x8, Bits2x4, Bits4x2, Bits8, Bits16, Float8_e5m2, Float8_e4m3fn,
  Float8_e5m2fnuz, Float8_e4m3fnuz, UInt16, UInt32, UInt64
};
#endif
enum class DeviceType : int8_t { CPU = 0, CUDA = 1 };
enum class MemoryFormat : int8_t { Contiguous, Preserve, ChannelsLast, ChannelsLast3d };
using DeviceIndex = int8_t;

constexpr DeviceType kCPU = DeviceType::CPU;
constexpr DeviceType kCUDA = DeviceType::CUDA;

#ifdef STARK_NEEDS_HALF
struct Half;
#endif
#ifdef STARK_NEEDS_BFLOAT16
struct BFloat16;
#endif

template <typename T>
class ArrayRef {
 public:
  using value_type = T;
  using iterator = const T*;
  using const_iterator = const T*;
  constexpr ArrayRef() : data_(nullptr), length_(0) {}
  constexpr ArrayRef(const T& one) : data_(&one), length_(1) {}
  constexpr ArrayRef(const T* data, size_t length) : data_(data), length_(length) {}
  constexpr ArrayRef(const T* begin, const T* end) : data_(begin), length_(end - begin) {}
  template <typename A>
  ArrayRef(const std::vector<T, A>& list) : data_(list.data()), length_(list.size()) {}
  template <size_t N>
  constexpr ArrayRef(const T (&list)[N]) : data_(list), length_(N) {}
  constexpr ArrayRef(const std::initializer_list<T>& list)
      : data_(list.begin() == list.end() ? nullptr : list.begin()), length_(list.size()) {}
  constexpr const T* begin() const { return data_; }
  constexpr const T* end() const { return data_ + length_; }
  constexpr const T* data() const { return data_; }
  constexpr size_t size() const { return length_; }
  constexpr bool empty() const { return length_ == 0; }
  constexpr const T& operator[](size_t index) const { return data_[index]; }
  const T& at(size_t index) const {
    if (index >= length_) throw std::out_of_range("ArrayRef: invalid index");
    return data_[index];
  }
  const T& front() const { return at(0); }
  const T& back() const { return at(length_ - 1); }
  ArrayRef slice(size_t from, size_t count) const { return ArrayRef(data_ + from, count); }
  ArrayRef slice(size_t from) const { return ArrayRef(data_ + from, length_ - from); }
  std::vector<T> vec() const { return std::vector<T>(begin(), end()); }
  bool equals(ArrayRef other) const {
    if (length_ != other.length_) return false;
    for (size_t i = 0; i < length_; ++i)
      if (!(data_[i] == other.data_[i])) return false;
    return true;
  }

 private:
  const T* data_;
  size_t length_;
};
template <typename T>
bool operator==(ArrayRef<T> a, ArrayRef<T> b) { return a.equals(b); }
template <typename T>
bool operator!=(ArrayRef<T> a, ArrayRef<T> b) { return !a.equals(b); }
template <typename T>
bool operator==(const std::vector<T>& a, ArrayRef<T> b) { return ArrayRef<T>(a).equals(b); }
template <typename T>
bool operator==(ArrayRef<T> a, const std::vector<T>& b) { return a.equals(ArrayRef<T>(b)); }
using IntArrayRef = ArrayRef<int64_t>;

inline namespace stark_facade {

STARK_INLINE stark_support::Sizes raw(IntArrayRef list) { return {list.data(), list.size()}; }

struct Device {
  Device(DeviceType type, DeviceIndex index = -1) : type_(type), index_(index) {}
  DeviceType type() const { return type_; }
  DeviceIndex index() const { return index_; }
  bool has_index() const { return index_ != -1; }
  bool is_cuda() const { return type_ == DeviceType::CUDA; }
  bool is_cpu() const { return type_ == DeviceType::CPU; }
  std::string str() const { return stark_support::name_of_device(int(type_), index_); }
  bool operator==(const Device& other) const { return type_ == other.type_ && index_ == other.index_; }
  bool operator!=(const Device& other) const { return !(*this == other); }

 private:
  DeviceType type_;
  DeviceIndex index_;
};

struct TypeMeta {
  TypeMeta(ScalarType type) : type_(type) {}
  ScalarType toScalarType() const { return type_; }
  size_t itemsize() const;

 private:
  ScalarType type_;
};
inline bool operator==(TypeMeta a, TypeMeta b) { return a.toScalarType() == b.toScalarType(); }
inline bool operator!=(TypeMeta a, TypeMeta b) { return !(a == b); }

struct TensorOptions : private stark_support::Options {
  TensorOptions() = default;
  TensorOptions(ScalarType type) { Options::dtype = int(type); }
  TensorOptions(TypeMeta type) { Options::dtype = int(type.toScalarType()); }
  TensorOptions(Device device) { set(device); }
  TensorOptions(DeviceType type) { set(Device(type)); }
  explicit TensorOptions(const stark_support::Options& options) : Options(options) {}
  TensorOptions dtype(ScalarType type) const { TensorOptions r = *this; r.Options::dtype = int(type); return r; }
  TensorOptions dtype(TypeMeta type) const { return dtype(type.toScalarType()); }
  TensorOptions device(Device device) const { TensorOptions r = *this; r.set(device); return r; }
  TensorOptions device(DeviceType type, DeviceIndex index = -1) const { return device(Device(type, index)); }
  TensorOptions pinned_memory(bool pinned) const { TensorOptions r = *this; r.pinned = pinned; return r; }
  TypeMeta dtype() const { return TypeMeta(ScalarType(Options::dtype < 0 ? int(ScalarType::Float) : Options::dtype)); }
  const stark_support::Options& raw() const { return *this; }

 private:
  void set(Device device) { device_type = int(device.type()); device_index = device.index(); }
};
inline TensorOptions dtype(ScalarType type) { return TensorOptions(type); }
inline TensorOptions dtype(TypeMeta type) { return TensorOptions(type); }
inline TensorOptions device(Device device) { return TensorOptions(device); }

struct Scalar : stark_support::Number {
  template <typename T, typename = std::enable_if_t<std::is_arithmetic<T>::value>>
  Scalar(T value)
      : Number{std::is_same<T, bool>::value ? 2 : std::is_integral<T>::value ? 0 : 1, int64_t(value), double(value)} {}
};

// What goes into an error's text.
inline void append(std::string& out, const char* text) { out += text; }
inline void append(std::string& out, const std::string& text) { out += text; }
inline void append(std::string& out, char sign) { out += sign; }
inline void append(std::string& out, bool value) { out += value ? "1" : "0"; }
template <typename T>
inline std::enable_if_t<std::is_integral<T>::value> append(std::string& out, T value) { out += std::to_string(value); }
inline void append(std::string& out, double value) { out += stark_support::text_of(value); }
inline void append(std::string& out, ScalarType type) { out += stark_support::name_of_dtype(int(type)); }
inline void append(std::string& out, Device device) { out += device.str(); }
inline void append(std::string& out, IntArrayRef list) {
  out += "[";
  for (size_t i = 0; i < list.size(); ++i) (out += i ? ", " : "") += std::to_string(list[i]);
  out += "]";
}
template <typename... T>
std::string str(const T&... parts) {
  std::string out;
  (append(out, parts), ...);
  return out;
}
template <typename... T>
[[noreturn]] __attribute__((noinline)) void
fail(int kind, const char* function, const char* file, uint32_t line, const char* plain, const T&... parts) {
  stark_support::fail(function, file, line, sizeof...(T) ? str(parts...) : std::string(plain), kind);
}

} // namespace stark_facade
} // namespace c10

#define TORCH_CHECK(cond, ...)                                                                                  \
  if (C10_UNLIKELY(!(cond)))                                                                                    \
  ::c10::stark_facade::fail(                                                                                    \
      0, __func__, __FILE__, uint32_t(__LINE__),                                                                \
      "Expected " #cond " to be true, but got false.  (Could this error message be improved?  If so, please "   \
      "report an enhancement request to PyTorch.)",                                                             \
      ##__VA_ARGS__)
#define TORCH_INTERNAL_ASSERT(cond, ...) TORCH_CHECK(cond, ##__VA_ARGS__)
#define AT_ASSERT(cond) TORCH_CHECK(cond)
#define AT_ASSERTM(cond, ...) TORCH_CHECK(cond, ##__VA_ARGS__)
#define AT_ERROR(...) TORCH_CHECK(false, ##__VA_ARGS__)

namespace at {
using c10::ArrayRef;
using c10::Device;
using c10::DeviceIndex;
using c10::DeviceType;
using c10::IntArrayRef;
using c10::kCPU;
using c10::kCUDA;
using c10::MemoryFormat;
using c10::Scalar;
using c10::ScalarType;
using c10::TensorOptions;
#ifdef STARK_NEEDS_HALF
using c10::Half;
#endif
#ifdef STARK_NEEDS_BFLOAT16
using c10::BFloat16;
#endif
constexpr ScalarType kByte = ScalarType::Byte, kChar = ScalarType::Char, kShort = ScalarType::Short,
                     kInt = ScalarType::Int, kLong = ScalarType::Long, kHalf = ScalarType::Half,
                     kFloat = ScalarType::Float, kDouble = ScalarType::Double, kBool = ScalarType::Bool,
                     kBFloat16 = ScalarType::BFloat16, kFloat8_e5m2 = ScalarType::Float8_e5m2,
                     kFloat8_e4m3fn = ScalarType::Float8_e4m3fn;

namespace stark_facade_types {
template <typename T>
struct Code {
  static_assert(sizeof(T) == 0, "not a type of the facade");
};
template <> struct Code<uint8_t> { static constexpr ScalarType value = kByte; };
template <> struct Code<int8_t> { static constexpr ScalarType value = kChar; };
template <> struct Code<int16_t> { static constexpr ScalarType value = kShort; };
template <> struct Code<int> { static constexpr ScalarType value = kInt; };
template <> struct Code<int64_t> { static constexpr ScalarType value = kLong; };
template <> struct Code<float> { static constexpr ScalarType value = kFloat; };
template <> struct Code<double> { static constexpr ScalarType value = kDouble; };
template <> struct Code<bool> { static constexpr ScalarType value = kBool; };
#ifdef STARK_NEEDS_HALF
template <> struct Code<c10::Half> { static constexpr ScalarType value = kHalf; };
#endif
#ifdef STARK_NEEDS_BFLOAT16
template <> struct Code<c10::BFloat16> { static constexpr ScalarType value = kBFloat16; };
#endif
template <ScalarType>
struct Type;
template <> struct Type<kByte> { using type = uint8_t; };
template <> struct Type<kChar> { using type = int8_t; };
template <> struct Type<kShort> { using type = int16_t; };
template <> struct Type<kInt> { using type = int; };
template <> struct Type<kLong> { using type = int64_t; };
template <> struct Type<kFloat> { using type = float; };
template <> struct Type<kDouble> { using type = double; };
template <> struct Type<kBool> { using type = bool; };
#ifdef STARK_NEEDS_HALF
template <> struct Type<kHalf> { using type = c10::Half; };
#endif
#ifdef STARK_NEEDS_BFLOAT16
template <> struct Type<kBFloat16> { using type = c10::BFloat16; };
#endif
} // namespace stark_facade_types

#define STARK_MADE(call)      \
  Tensor out_;                \
  stark_support::call;        \
  return out_

class Tensor {
 public:
  STARK_INLINE Tensor() { stark_support::undefined(this); }
  STARK_INLINE Tensor(const Tensor& other) { stark_support::copy(this, &other); }
  STARK_INLINE Tensor(Tensor&& other) noexcept { stark_support::move(this, &other); }
  STARK_INLINE ~Tensor() { stark_support::release(this); }
  STARK_INLINE Tensor& operator=(const Tensor& other) { stark_support::assign(this, &other); return *this; }
  STARK_INLINE Tensor& operator=(Tensor&& other) noexcept {
    if (this != &other) {
      stark_support::release(this);
      stark_support::move(this, &other);
    }
    return *this;
  }

  STARK_INLINE bool defined() const { return stark_support::defined(this); }
  STARK_INLINE int64_t dim() const { return stark_support::dim(this); }
  STARK_INLINE int64_t ndimension() const { return dim(); }
  STARK_INLINE int64_t numel() const { return stark_support::numel(this); }
  STARK_INLINE int64_t size(int64_t dim) const { return stark_support::size(this, dim); }
  STARK_INLINE int64_t stride(int64_t dim) const { return stark_support::stride(this, dim); }
  STARK_INLINE IntArrayRef sizes() const { auto s = stark_support::sizes(this); return IntArrayRef(s.data, s.length); }
  STARK_INLINE IntArrayRef strides() const {
    auto s = stark_support::strides(this);
    return IntArrayRef(s.data, s.length);
  }
  STARK_INLINE int64_t storage_offset() const { return stark_support::storage_offset(this); }
  STARK_INLINE int64_t element_size() const { return stark_support::element_size(this); }
  STARK_INLINE int64_t itemsize() const { return element_size(); }
  STARK_INLINE size_t nbytes() const { return size_t(stark_support::nbytes(this)); }
  STARK_INLINE ScalarType scalar_type() const { return ScalarType(stark_support::dtype(this)); }
  STARK_INLINE c10::TypeMeta dtype() const { return c10::TypeMeta(scalar_type()); }
  STARK_INLINE Device device() const {
    int type, index;
    stark_support::device(this, &type, &index);
    return Device(DeviceType(type), DeviceIndex(index));
  }
  STARK_INLINE int64_t get_device() const { return device().index(); }
  STARK_INLINE bool is_cuda() const { return device().is_cuda(); }
  STARK_INLINE bool is_cpu() const { return device().is_cpu(); }
  STARK_INLINE bool is_contiguous(MemoryFormat format = MemoryFormat::Contiguous) const {
    return stark_support::is_contiguous(this, int(format));
  }
  STARK_INLINE bool is_floating_point() const { return stark_support::is_floating_point(this); }
  STARK_INLINE bool is_same(const Tensor& other) const { return stark_support::is_same(this, &other); }
  STARK_INLINE bool requires_grad() const { return stark_support::requires_grad(this); }
  STARK_INLINE TensorOptions options() const {
    stark_support::Options found;
    stark_support::options(this, &found);
    return TensorOptions(found);
  }

  STARK_INLINE void* data_ptr() const { return stark_support::data(this, -1, true); }
  STARK_INLINE void* mutable_data_ptr() const { return stark_support::data(this, -1, true); }
  STARK_INLINE const void* const_data_ptr() const { return stark_support::data(this, -1, false); }
  template <typename T>
  STARK_INLINE T* data_ptr() const {
    using Plain = std::remove_const_t<T>;
    return static_cast<T*>(
        stark_support::data(this, int(stark_facade_types::Code<Plain>::value), !std::is_const<T>::value));
  }
  template <typename T>
  STARK_INLINE T* mutable_data_ptr() const { return data_ptr<T>(); }
  template <typename T>
  STARK_INLINE const std::remove_const_t<T>* const_data_ptr() const { return data_ptr<const std::remove_const_t<T>>(); }
  template <typename T>
  T item() const {
    auto found = stark_support::item(this);
    return found.kind == 1 ? static_cast<T>(found.real) : static_cast<T>(found.integer);
  }

  Tensor contiguous(MemoryFormat format = MemoryFormat::Contiguous) const {
    STARK_MADE(contiguous(&out_, this, int(format)));
  }
  Tensor view(IntArrayRef shape) const { STARK_MADE(view(&out_, this, c10::raw(shape))); }
  Tensor reshape(IntArrayRef shape) const { STARK_MADE(reshape(&out_, this, c10::raw(shape))); }
  Tensor expand(IntArrayRef shape) const { STARK_MADE(expand(&out_, this, c10::raw(shape))); }
  Tensor permute(IntArrayRef dims) const { STARK_MADE(permute(&out_, this, c10::raw(dims))); }
  Tensor transpose(int64_t a, int64_t b) const { STARK_MADE(transpose(&out_, this, a, b)); }
  Tensor t() const { STARK_MADE(t(&out_, this)); }
  Tensor flatten(int64_t from = 0, int64_t to = -1) const { STARK_MADE(flatten(&out_, this, from, to)); }
  Tensor unsqueeze(int64_t dim) const { STARK_MADE(unsqueeze(&out_, this, dim)); }
  Tensor squeeze() const { STARK_MADE(squeeze(&out_, this, 0, true)); }
  Tensor squeeze(int64_t dim) const { STARK_MADE(squeeze(&out_, this, dim, false)); }
  Tensor select(int64_t dim, int64_t index) const { STARK_MADE(select(&out_, this, dim, index)); }
  Tensor operator[](int64_t index) const { return select(0, index); }
  Tensor narrow(int64_t dim, int64_t start, int64_t length) const {
    STARK_MADE(narrow(&out_, this, dim, start, length));
  }
  Tensor to(const TensorOptions& options, bool non_blocking = false, bool copy = false) const {
    STARK_MADE(to(&out_, this, options.raw(), non_blocking, copy));
  }
  Tensor to(ScalarType type, bool non_blocking = false, bool copy = false) const {
    return to(TensorOptions(type), non_blocking, copy);
  }
  Tensor to(Device device, bool non_blocking = false, bool copy = false) const {
    return to(TensorOptions(device), non_blocking, copy);
  }
  Tensor to(Device device, ScalarType type, bool non_blocking = false, bool copy = false) const {
    return to(TensorOptions(device).dtype(type), non_blocking, copy);
  }
  Tensor toType(ScalarType type) const { return to(type); }
  Tensor cpu() const { return to(TensorOptions(DeviceType::CPU)); }
  Tensor cuda() const { return to(TensorOptions(DeviceType::CUDA)); }
  Tensor clone() const { STARK_MADE(clone(&out_, this)); }
  Tensor detach() const { STARK_MADE(detach(&out_, this)); }
  const Tensor& zero_() const { stark_support::zero_(this); return *this; }
  const Tensor& fill_(Scalar value) const { stark_support::fill_(this, value); return *this; }
  const Tensor& copy_(const Tensor& from, bool non_blocking = false) const {
    stark_support::copy_(this, &from, non_blocking);
    return *this;
  }
  Tensor sum() const { STARK_MADE(sum(&out_, this, {nullptr, 0}, true, false)); }
  Tensor sum(IntArrayRef dims, bool keepdim = false) const {
    STARK_MADE(sum(&out_, this, c10::raw(dims), false, keepdim));
  }
  Tensor mean() const { STARK_MADE(mean(&out_, this, {nullptr, 0}, true, false)); }
  Tensor mean(IntArrayRef dims, bool keepdim = false) const {
    STARK_MADE(mean(&out_, this, c10::raw(dims), false, keepdim));
  }
#define STARK_ARITHMETIC(name, sign)                                                                              \
  Tensor name(const Tensor& other) const { STARK_MADE(arithmetic(&out_, this, &other, sign)); }                    \
  Tensor name(Scalar other) const { STARK_MADE(arithmetic_number(&out_, this, other, sign, false)); }              \
  const Tensor& name##_(const Tensor& other) const { stark_support::arithmetic_(this, &other, sign); return *this; } \
  const Tensor& name##_(Scalar other) const { stark_support::arithmetic_number_(this, other, sign); return *this; }
  STARK_ARITHMETIC(add, '+')
  STARK_ARITHMETIC(sub, '-')
  STARK_ARITHMETIC(mul, '*')
  STARK_ARITHMETIC(div, '/')
#undef STARK_ARITHMETIC
  Tensor& operator+=(const Tensor& other) { add_(other); return *this; }
  Tensor& operator-=(const Tensor& other) { sub_(other); return *this; }
  Tensor& operator*=(const Tensor& other) { mul_(other); return *this; }
  Tensor& operator/=(const Tensor& other) { div_(other); return *this; }
  Tensor matmul(const Tensor& other) const { STARK_MADE(matmul(&out_, this, &other, 'n')); }
  Tensor mm(const Tensor& other) const { STARK_MADE(matmul(&out_, this, &other, '2')); }
  Tensor bmm(const Tensor& other) const { STARK_MADE(matmul(&out_, this, &other, '3')); }
  Tensor sqrt() const { STARK_MADE(unary(&out_, this, 0)); }
  Tensor exp() const { STARK_MADE(unary(&out_, this, 1)); }
  Tensor abs() const { STARK_MADE(unary(&out_, this, 2)); }
  Tensor relu() const { STARK_MADE(unary(&out_, this, 3)); }
  Tensor sigmoid() const { STARK_MADE(unary(&out_, this, 4)); }
  Tensor tanh() const { STARK_MADE(unary(&out_, this, 5)); }
  Tensor neg() const { STARK_MADE(unary(&out_, this, 6)); }
  Tensor log() const { STARK_MADE(unary(&out_, this, 7)); }
  Tensor operator-() const { return neg(); }

#ifdef STARK_NEEDS_ACCESSOR
  template <typename T, size_t N>
  auto accessor() const&;
  template <typename T, size_t N, template <typename U> class PtrTraits, typename index_t>
  auto generic_packed_accessor() const&;
  template <typename T, size_t N, template <typename U> class PtrTraits = torch::headeronly::DefaultPtrTraits>
  auto packed_accessor32() const& { return generic_packed_accessor<T, N, PtrTraits, int32_t>(); }
  template <typename T, size_t N, template <typename U> class PtrTraits = torch::headeronly::DefaultPtrTraits>
  auto packed_accessor64() const& { return generic_packed_accessor<T, N, PtrTraits, int64_t>(); }
#endif

 private:
  void* impl_;
};
static_assert(sizeof(Tensor) == sizeof(void*), "a tensor is one pointer");

#define STARK_OPERATOR(sign, name)                                                                       \
  inline Tensor operator sign(const Tensor& a, const Tensor& b) { return a.name(b); }                     \
  inline Tensor operator sign(const Tensor& a, Scalar b) { return a.name(b); }                            \
  inline Tensor operator sign(Scalar a, const Tensor& b) { STARK_MADE(arithmetic_number(&out_, &b, a, #sign[0], true)); }
STARK_OPERATOR(+, add)
STARK_OPERATOR(-, sub)
STARK_OPERATOR(*, mul)
STARK_OPERATOR(/, div)
#undef STARK_OPERATOR

using TensorList = ArrayRef<Tensor>;

inline namespace stark_facade {
#define STARK_CREATE(name, what)                                                                    \
  inline Tensor name(IntArrayRef shape, const TensorOptions& options = {}) {                        \
    STARK_MADE(create(&out_, what, c10::raw(shape), Scalar(0), options.raw()));                     \
  }                                                                                                 \
  inline Tensor name##_like(const Tensor& like, const TensorOptions& options = {}) {                \
    STARK_MADE(create_like(&out_, what, &like, Scalar(0), options.raw()));                          \
  }
STARK_CREATE(empty, 0)
STARK_CREATE(zeros, 1)
STARK_CREATE(ones, 2)
#undef STARK_CREATE
inline Tensor full(IntArrayRef shape, Scalar value, const TensorOptions& options = {}) {
  STARK_MADE(create(&out_, 3, c10::raw(shape), value, options.raw()));
}
inline Tensor full_like(const Tensor& like, Scalar value, const TensorOptions& options = {}) {
  STARK_MADE(create_like(&out_, 3, &like, value, options.raw()));
}
inline Tensor matmul(const Tensor& a, const Tensor& b) { return a.matmul(b); }
inline Tensor mm(const Tensor& a, const Tensor& b) { return a.mm(b); }
inline Tensor bmm(const Tensor& a, const Tensor& b) { return a.bmm(b); }
inline Tensor sum(const Tensor& a) { return a.sum(); }
inline Tensor sum(const Tensor& a, IntArrayRef dims, bool keepdim = false) { return a.sum(dims, keepdim); }
inline Tensor mean(const Tensor& a) { return a.mean(); }
inline Tensor relu(const Tensor& a) { return a.relu(); }
inline Tensor sigmoid(const Tensor& a) { return a.sigmoid(); }
inline Tensor tanh(const Tensor& a) { return a.tanh(); }
inline Tensor exp(const Tensor& a) { return a.exp(); }
inline Tensor sqrt(const Tensor& a) { return a.sqrt(); }
inline Tensor add(const Tensor& a, const Tensor& b) { return a.add(b); }
inline Tensor mul(const Tensor& a, const Tensor& b) { return a.mul(b); }
inline Tensor cat(TensorList list, int64_t dim = 0) { STARK_MADE(cat(&out_, list.data(), list.size(), dim, false)); }
inline Tensor stack(TensorList list, int64_t dim = 0) { STARK_MADE(cat(&out_, list.data(), list.size(), dim, true)); }
inline std::optional<Device> device_of(const Tensor& t) {
  return t.defined() ? std::optional<Device>(t.device()) : std::nullopt;
}
inline ScalarType stark_type(ScalarType type) { return type; }
inline ScalarType stark_type(c10::TypeMeta type) { return type.toScalarType(); }
} // namespace stark_facade
} // namespace at

#ifdef STARK_NEEDS_ACCESSOR
#include "stark_facade_accessor.h"
#endif

namespace c10 {
inline namespace stark_facade {
inline void append(std::string& out, TypeMeta type) { append(out, type.toScalarType()); }
} // namespace stark_facade
} // namespace c10

#define AT_DISPATCH_CASE(code, ...)                                                \
  case code: {                                                                     \
    using scalar_t [[maybe_unused]] = at::stark_facade_types::Type<code>::type;    \
    return __VA_ARGS__();                                                          \
  }
#define AT_DISPATCH_SWITCH(TYPE, NAME, ...)                                                                        \
  [&] {                                                                                                            \
    const auto& the_type = TYPE;                                                                                   \
    constexpr const char* at_dispatch_name = NAME;                                                                 \
    at::ScalarType _st = ::at::stark_type(the_type);                                                               \
    switch (_st) {                                                                                                 \
      __VA_ARGS__                                                                                                  \
      default:                                                                                                     \
        ::c10::stark_facade::fail(                                                                                 \
            1, __func__, __FILE__, uint32_t(__LINE__), "", '"', at_dispatch_name, "\" not implemented for '", _st, \
            "'");                                                                                                  \
    }                                                                                                              \
  }()
#define AT_DISPATCH_CASE_FLOATING_TYPES(...) \
  AT_DISPATCH_CASE(at::ScalarType::Double, __VA_ARGS__) AT_DISPATCH_CASE(at::ScalarType::Float, __VA_ARGS__)
#define AT_DISPATCH_CASE_INTEGRAL_TYPES(...)            \
  AT_DISPATCH_CASE(at::ScalarType::Byte, __VA_ARGS__)   \
  AT_DISPATCH_CASE(at::ScalarType::Char, __VA_ARGS__)   \
  AT_DISPATCH_CASE(at::ScalarType::Int, __VA_ARGS__)    \
  AT_DISPATCH_CASE(at::ScalarType::Long, __VA_ARGS__)   \
  AT_DISPATCH_CASE(at::ScalarType::Short, __VA_ARGS__)
#define AT_DISPATCH_CASE_ALL_TYPES(...) \
  AT_DISPATCH_CASE_INTEGRAL_TYPES(__VA_ARGS__) AT_DISPATCH_CASE_FLOATING_TYPES(__VA_ARGS__)
#define AT_DISPATCH_FLOATING_TYPES(TYPE, NAME, ...) \
  AT_DISPATCH_SWITCH(TYPE, NAME, AT_DISPATCH_CASE_FLOATING_TYPES(__VA_ARGS__))
#define AT_DISPATCH_FLOATING_TYPES_AND_HALF(TYPE, NAME, ...) \
  AT_DISPATCH_SWITCH(                                        \
      TYPE, NAME, AT_DISPATCH_CASE_FLOATING_TYPES(__VA_ARGS__) AT_DISPATCH_CASE(at::ScalarType::Half, __VA_ARGS__))
#define AT_DISPATCH_FLOATING_TYPES_AND(T1, TYPE, NAME, ...) \
  AT_DISPATCH_SWITCH(TYPE, NAME, AT_DISPATCH_CASE_FLOATING_TYPES(__VA_ARGS__) AT_DISPATCH_CASE(T1, __VA_ARGS__))
#define AT_DISPATCH_FLOATING_TYPES_AND2(T1, T2, TYPE, NAME, ...)  \
  AT_DISPATCH_SWITCH(                                             \
      TYPE,                                                       \
      NAME,                                                       \
      AT_DISPATCH_CASE_FLOATING_TYPES(__VA_ARGS__)                \
          AT_DISPATCH_CASE(T1, __VA_ARGS__) AT_DISPATCH_CASE(T2, __VA_ARGS__))
#define AT_DISPATCH_INTEGRAL_TYPES(TYPE, NAME, ...) \
  AT_DISPATCH_SWITCH(TYPE, NAME, AT_DISPATCH_CASE_INTEGRAL_TYPES(__VA_ARGS__))
#define AT_DISPATCH_ALL_TYPES(TYPE, NAME, ...) \
  AT_DISPATCH_SWITCH(TYPE, NAME, AT_DISPATCH_CASE_ALL_TYPES(__VA_ARGS__))

namespace torch {
using namespace at;
using Tensor = at::Tensor;
constexpr ScalarType kUInt8 = at::kByte, kInt8 = at::kChar, kInt16 = at::kShort, kInt32 = at::kInt, kInt64 = at::kLong,
                     kFloat16 = at::kHalf, kFloat32 = at::kFloat, kFloat64 = at::kDouble;
using c10::device;
using c10::dtype;
} // namespace torch
