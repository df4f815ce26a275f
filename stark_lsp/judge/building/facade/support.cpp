// The real library behind the facade, compiled once for each torch and compiler.
#include <ATen/ATen.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/autograd/python_variable.h>
#include <pybind11/pybind11.h>
#ifdef STARK_CUDA
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAStream.h>
#endif
#include "support.h"

#ifdef STARK_CUDA
// Declared here because their header wants the headers of cuSPARSE and cuSOLVER, which not every toolkit has.
namespace at::cuda {
cudaDeviceProp* getCurrentDeviceProperties();
cudaDeviceProp* getDeviceProperties(c10::DeviceIndex device);
struct cublasContext* getCurrentCUDABlasHandle();
} // namespace at::cuda
#endif

static_assert(sizeof(at::Tensor) == sizeof(void*) && alignof(at::Tensor) == alignof(void*), "a tensor is one pointer");
static_assert(sizeof(c10::IntArrayRef) == sizeof(stark_support::Sizes), "an array reference is a pointer and a length");
static_assert(int(at::kByte) == 0 && int(at::kChar) == 1 && int(at::kShort) == 2 && int(at::kInt) == 3, "dtypes");
static_assert(int(at::kLong) == 4 && int(at::kHalf) == 5 && int(at::kFloat) == 6 && int(at::kDouble) == 7, "dtypes");
static_assert(int(at::kBool) == 11 && int(at::kBFloat16) == 15, "dtypes");
static_assert(int(at::ScalarType::Float8_e5m2) == 23 && int(at::ScalarType::Float8_e4m3fn) == 24, "dtypes");
static_assert(int(c10::DeviceType::CPU) == 0 && int(c10::DeviceType::CUDA) == 1, "devices");
static_assert(int(c10::MemoryFormat::Contiguous) == 0 && int(c10::MemoryFormat::Preserve) == 1, "formats");
static_assert(int(c10::MemoryFormat::ChannelsLast) == 2 && int(c10::MemoryFormat::ChannelsLast3d) == 3, "formats");
static_assert(sizeof(at::ScalarType) == 1 && sizeof(c10::DeviceType) == 1 && sizeof(c10::MemoryFormat) == 1, "enums");

namespace stark_support {
namespace {

const at::Tensor& in(const void* tensor) {
  return *static_cast<const at::Tensor*>(tensor);
}
at::Tensor& place(void* tensor) {
  return *static_cast<at::Tensor*>(tensor);
}
at::IntArrayRef list(Sizes sizes) {
  return at::IntArrayRef(sizes.data, sizes.length);
}
at::Scalar scalar(Number number) {
  switch (number.kind) {
    case 0:
      return at::Scalar(number.integer);
    case 1:
      return at::Scalar(number.real);
    default:
      return at::Scalar(number.integer != 0);
  }
}
at::TensorOptions real(const Options& options) {
  at::TensorOptions found;
  if (options.dtype >= 0) found = found.dtype(static_cast<at::ScalarType>(options.dtype));
  if (options.device_type >= 0)
    found = found.device(at::Device(static_cast<c10::DeviceType>(options.device_type), options.device_index));
  if (options.pinned) found = found.pinned_memory(true);
  return found;
}

} // namespace

void fail(const char* function, const char* file, uint32_t line, const std::string& text, int kind) {
  c10::SourceLocation where{function, file, line};
  if (kind == 1) throw c10::NotImplementedError(where, text);
  throw c10::Error(where, text);
}
std::string text_of(double value) { return c10::str(value); }
std::string name_of_dtype(int dtype) { return c10::toString(static_cast<at::ScalarType>(dtype)); }
std::string name_of_device(int type, int index) { return at::Device(static_cast<c10::DeviceType>(type), index).str(); }

void undefined(void* out) noexcept { new (out) at::Tensor(); }
void copy(void* out, const void* from) noexcept { new (out) at::Tensor(in(from)); }
void assign(void* out, const void* from) { place(out) = in(from); }
void move(void* out, void* from) noexcept { new (out) at::Tensor(std::move(place(from))); }
void release(void* tensor) noexcept { place(tensor).~Tensor(); }
bool defined(const void* tensor) noexcept { return in(tensor).defined(); }

int64_t dim(const void* tensor) { return in(tensor).dim(); }
int64_t numel(const void* tensor) { return in(tensor).numel(); }
int64_t size(const void* tensor, int64_t dim) { return in(tensor).size(dim); }
int64_t stride(const void* tensor, int64_t dim) { return in(tensor).stride(dim); }
Sizes sizes(const void* tensor) { auto found = in(tensor).sizes(); return {found.data(), found.size()}; }
Sizes strides(const void* tensor) { auto found = in(tensor).strides(); return {found.data(), found.size()}; }
int64_t storage_offset(const void* tensor) { return in(tensor).storage_offset(); }
int64_t element_size(const void* tensor) { return in(tensor).element_size(); }
int64_t nbytes(const void* tensor) { return static_cast<int64_t>(in(tensor).nbytes()); }
int dtype(const void* tensor) { return static_cast<int>(in(tensor).scalar_type()); }
void device(const void* tensor, int* type, int* index) {
  auto found = in(tensor).device();
  *type = static_cast<int>(found.type());
  *index = found.index();
}
bool is_contiguous(const void* tensor, int format) {
  return in(tensor).is_contiguous(static_cast<at::MemoryFormat>(format));
}
bool is_floating_point(const void* tensor) { return in(tensor).is_floating_point(); }
bool is_same(const void* tensor, const void* other) { return in(tensor).is_same(in(other)); }
bool requires_grad(const void* tensor) { return in(tensor).requires_grad(); }
void options(const void* tensor, Options* out) {
  TORCH_CHECK(in(tensor).layout() == at::kStrided, "a sparse tensor is not expected here");
  out->dtype = dtype(tensor);
  device(tensor, &out->device_type, &out->device_index);
}
void* data(const void* tensor, int dtype, bool writes) {
  const at::Tensor& self = in(tensor);
  TORCH_CHECK(
      dtype < 0 || static_cast<int>(self.scalar_type()) == dtype,
      "expected scalar type ",
      static_cast<at::ScalarType>(dtype),
      " but found ",
      self.scalar_type());
  return writes ? self.mutable_data_ptr() : const_cast<void*>(self.const_data_ptr());
}
Number item(const void* tensor) {
  at::Scalar found = in(tensor).item();
  if (found.isBoolean()) return {2, found.to<bool>(), 0.0};
  if (found.isIntegral(false)) return {0, found.to<int64_t>(), 0.0};
  return {1, 0, found.to<double>()};
}

void contiguous(void* out, const void* self, int format) {
  place(out) = in(self).contiguous(static_cast<at::MemoryFormat>(format));
}
void view(void* out, const void* self, Sizes shape) { place(out) = in(self).view(list(shape)); }
void reshape(void* out, const void* self, Sizes shape) { place(out) = in(self).reshape(list(shape)); }
void expand(void* out, const void* self, Sizes shape) { place(out) = in(self).expand(list(shape)); }
void permute(void* out, const void* self, Sizes dims) { place(out) = in(self).permute(list(dims)); }
void transpose(void* out, const void* self, int64_t a, int64_t b) { place(out) = in(self).transpose(a, b); }
void t(void* out, const void* self) { place(out) = in(self).t(); }
void flatten(void* out, const void* self, int64_t from, int64_t to) { place(out) = in(self).flatten(from, to); }
void unsqueeze(void* out, const void* self, int64_t dim) { place(out) = in(self).unsqueeze(dim); }
void squeeze(void* out, const void* self, int64_t dim, bool all) {
  place(out) = all ? in(self).squeeze() : in(self).squeeze(dim);
}
void select(void* out, const void* self, int64_t dim, int64_t index) { place(out) = in(self).select(dim, index); }
void narrow(void* out, const void* self, int64_t dim, int64_t start, int64_t length) {
  place(out) = in(self).narrow(dim, start, length);
}
void to(void* out, const void* self, const Options& options, bool non_blocking, bool copy) {
  place(out) = in(self).to(real(options), non_blocking, copy);
}
void clone(void* out, const void* self) { place(out) = in(self).clone(); }
void detach(void* out, const void* self) { place(out) = in(self).detach(); }
void zero_(const void* self) { in(self).zero_(); }
void fill_(const void* self, Number value) { in(self).fill_(scalar(value)); }
void copy_(const void* self, const void* from, bool non_blocking) { in(self).copy_(in(from), non_blocking); }
void sum(void* out, const void* self, Sizes dims, bool all, bool keepdim) {
  place(out) = all ? in(self).sum() : in(self).sum(list(dims), keepdim);
}
void mean(void* out, const void* self, Sizes dims, bool all, bool keepdim) {
  place(out) = all ? in(self).mean() : in(self).mean(list(dims), keepdim);
}
void arithmetic(void* out, const void* self, const void* other, char what) {
  const at::Tensor &a = in(self), &b = in(other);
  place(out) = what == '+' ? a.add(b) : what == '-' ? a.sub(b) : what == '*' ? a.mul(b) : a.div(b);
}
void arithmetic_number(void* out, const void* self, Number other, char what, bool reversed) {
  const at::Tensor& a = in(self);
  at::Scalar b = scalar(other);
  if (reversed) {
    place(out) = what == '+' ? b + a : what == '-' ? b - a : what == '*' ? b * a : b / a;
  } else {
    place(out) = what == '+' ? a.add(b) : what == '-' ? a.sub(b) : what == '*' ? a.mul(b) : a.div(b);
  }
}
void arithmetic_(const void* self, const void* other, char what) {
  const at::Tensor &a = in(self), &b = in(other);
  what == '+' ? a.add_(b) : what == '-' ? a.sub_(b) : what == '*' ? a.mul_(b) : a.div_(b);
}
void arithmetic_number_(const void* self, Number other, char what) {
  const at::Tensor& a = in(self);
  at::Scalar b = scalar(other);
  what == '+' ? a.add_(b) : what == '-' ? a.sub_(b) : what == '*' ? a.mul_(b) : a.div_(b);
}
void matmul(void* out, const void* self, const void* other, char what) {
  const at::Tensor &a = in(self), &b = in(other);
  place(out) = what == '2' ? at::mm(a, b) : what == '3' ? at::bmm(a, b) : at::matmul(a, b);
}
void unary(void* out, const void* self, int what) {
  const at::Tensor& a = in(self);
  switch (what) {
    case 0: place(out) = a.sqrt(); return;
    case 1: place(out) = a.exp(); return;
    case 2: place(out) = a.abs(); return;
    case 3: place(out) = a.relu(); return;
    case 4: place(out) = a.sigmoid(); return;
    case 5: place(out) = a.tanh(); return;
    case 6: place(out) = a.neg(); return;
    default: place(out) = a.log(); return;
  }
}
void cat(void* out, const void* tensors, size_t count, int64_t dim, bool stack) {
  at::TensorList found(static_cast<const at::Tensor*>(tensors), count);
  place(out) = stack ? at::stack(found, dim) : at::cat(found, dim);
}

void create(void* out, int what, Sizes shape, Number value, const Options& options) {
  switch (what) {
    case 0: place(out) = at::empty(list(shape), real(options)); return;
    case 1: place(out) = at::zeros(list(shape), real(options)); return;
    case 2: place(out) = at::ones(list(shape), real(options)); return;
    default: place(out) = at::full(list(shape), scalar(value), real(options)); return;
  }
}
void create_like(void* out, int what, const void* like, Number value, const Options& options) {
  switch (what) {
    case 0: place(out) = at::empty_like(in(like), real(options)); return;
    case 1: place(out) = at::zeros_like(in(like), real(options)); return;
    case 2: place(out) = at::ones_like(in(like), real(options)); return;
    default: place(out) = at::full_like(in(like), scalar(value), real(options)); return;
  }
}

#ifdef STARK_CUDA
void cuda_check(int error, const char* file, const char* function, uint32_t line) {
  c10::cuda::c10_cuda_check_implementation(error, file, function, line, true);
}
void* current_stream(int device) {
  return c10::cuda::getCurrentCUDAStream(static_cast<c10::DeviceIndex>(device)).stream();
}
int stream_device(void*, int device) { return device < 0 ? c10::cuda::current_device() : device; }
int current_device() { return c10::cuda::current_device(); }
int device_count() { return c10::cuda::device_count(); }
int exchange_device(int device) { return c10::cuda::ExchangeDevice(static_cast<c10::DeviceIndex>(device)); }
void synchronize_stream(void* stream) { c10::cuda::stream_synchronize(static_cast<cudaStream_t>(stream)); }
cudaDeviceProp* device_properties(int device) {
  return device < 0 ? at::cuda::getCurrentDeviceProperties()
                    : at::cuda::getDeviceProperties(static_cast<c10::DeviceIndex>(device));
}
void* blas_handle() { return at::cuda::getCurrentCUDABlasHandle(); }
#endif

bool is_tensor(void* python) { return THPVariable_Check(static_cast<PyObject*>(python)); }
void unpack(void* out, void* python) { place(out) = THPVariable_Unpack(static_cast<PyObject*>(python)); }
void* wrap(const void* tensor) { return THPVariable_Wrap(in(tensor)); }
void translate() {
  torch::translate_exception_to_python(std::current_exception());
  throw pybind11::error_already_set();
}

} // namespace stark_support
