// What the facade asks of the real library: plain types only, so that both sides can be compiled apart.
// A tensor is passed as a pointer to an object that is laid out as at::Tensor: one pointer.
#pragma once
#include <cstdint>
#include <string>

struct cudaDeviceProp;

namespace stark_support __attribute__((visibility("hidden"))) {

struct Options {
  int dtype = -1;
  int device_type = -1;
  int device_index = -1;
  int pinned = 0;
};

struct Sizes {
  const int64_t* data;
  size_t length;
};

struct Number {
  int kind; // 0 integer, 1 floating point, 2 truth value
  int64_t integer;
  double real;
};

[[noreturn]] void fail(const char* function, const char* file, uint32_t line, const std::string& text, int kind);
std::string text_of(double value);
std::string name_of_dtype(int dtype);
std::string name_of_device(int type, int index);

void undefined(void* out) noexcept;
void copy(void* out, const void* from) noexcept;
void assign(void* out, const void* from);
void move(void* out, void* from) noexcept;
void release(void* tensor) noexcept;
bool defined(const void* tensor) noexcept;

int64_t dim(const void* tensor);
int64_t numel(const void* tensor);
int64_t size(const void* tensor, int64_t dim);
int64_t stride(const void* tensor, int64_t dim);
Sizes sizes(const void* tensor);
Sizes strides(const void* tensor);
int64_t storage_offset(const void* tensor);
int64_t element_size(const void* tensor);
int64_t nbytes(const void* tensor);
int dtype(const void* tensor);
void device(const void* tensor, int* type, int* index);
bool is_contiguous(const void* tensor, int format);
bool is_floating_point(const void* tensor);
bool is_same(const void* tensor, const void* other);
bool requires_grad(const void* tensor);
void options(const void* tensor, Options* out);
// dtype -1: any. `writes`: the data will be written to.
void* data(const void* tensor, int dtype, bool writes);
Number item(const void* tensor);

void contiguous(void* out, const void* self, int format);
void view(void* out, const void* self, Sizes shape);
void reshape(void* out, const void* self, Sizes shape);
void expand(void* out, const void* self, Sizes shape);
void permute(void* out, const void* self, Sizes dims);
void transpose(void* out, const void* self, int64_t a, int64_t b);
void t(void* out, const void* self);
void flatten(void* out, const void* self, int64_t from, int64_t to);
void unsqueeze(void* out, const void* self, int64_t dim);
void squeeze(void* out, const void* self, int64_t dim, bool all);
void select(void* out, const void* self, int64_t dim, int64_t index);
void narrow(void* out, const void* self, int64_t dim, int64_t start, int64_t length);
void to(void* out, const void* self, const Options& options, bool non_blocking, bool copy);
void clone(void* out, const void* self);
void detach(void* out, const void* self);
void zero_(const void* self);
void fill_(const void* self, Number value);
void copy_(const void* self, const void* from, bool non_blocking);
void sum(void* out, const void* self, Sizes dims, bool all, bool keepdim);
void mean(void* out, const void* self, Sizes dims, bool all, bool keepdim);
void arithmetic(void* out, const void* self, const void* other, char what);
void arithmetic_number(void* out, const void* self, Number other, char what, bool reversed);
void arithmetic_(const void* self, const void* other, char what);
void arithmetic_number_(const void* self, Number other, char what);
void matmul(void* out, const void* self, const void* other, char what);
void unary(void* out, const void* self, int what);
void cat(void* out, const void* tensors, size_t count, int64_t dim, bool stack);

void create(void* out, int what, Sizes shape, Number value, const Options& options);
void create_like(void* out, int what, const void* like, Number value, const Options& options);

void cuda_check(int error, const char* file, const char* function, uint32_t line);
void* current_stream(int device);
int stream_device(void* stream, int device);
int current_device();
int device_count();
int exchange_device(int device);
void synchronize_stream(void* stream);
cudaDeviceProp* device_properties(int device);
void* blas_handle();

bool is_tensor(void* python);
void unpack(void* out, void* python);
void* wrap(const void* tensor);
[[noreturn]] void translate();

} // namespace stark_support
