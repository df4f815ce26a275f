// The part of the facade that is about streams and devices.
#pragma once
#include <cuda_runtime.h>

#include "stark_facade.h"

struct cublasContext;

namespace c10::cuda {
inline namespace stark_facade {
class CUDAStream {
 public:
  CUDAStream(cudaStream_t stream, int device) : stream_(stream), device_(device) {}
  operator cudaStream_t() const { return stream_; }
  cudaStream_t stream() const { return stream_; }
  DeviceIndex device_index() const { return DeviceIndex(device_); }
  void synchronize() const { stark_support::synchronize_stream(stream_); }

 private:
  cudaStream_t stream_;
  int device_;
};
inline CUDAStream getCurrentCUDAStream(DeviceIndex device = -1) {
  auto stream = static_cast<cudaStream_t>(stark_support::current_stream(device));
  return CUDAStream(stream, stark_support::stream_device(stream, device));
}
inline DeviceIndex current_device() { return DeviceIndex(stark_support::current_device()); }
inline DeviceIndex device_count() { return DeviceIndex(stark_support::device_count()); }

class OptionalCUDAGuard {
 public:
  OptionalCUDAGuard() = default;
  explicit OptionalCUDAGuard(std::optional<Device> device) { if (device) set(device->index()); }
  explicit OptionalCUDAGuard(std::optional<DeviceIndex> index) { if (index) set(*index); }
  OptionalCUDAGuard(const OptionalCUDAGuard&) = delete;
  OptionalCUDAGuard& operator=(const OptionalCUDAGuard&) = delete;
  ~OptionalCUDAGuard() { if (before_ >= 0) stark_support::exchange_device(before_); }

 protected:
  void set(int device) {
    int found = stark_support::current_device();
    if (device < 0 || device == found) return;
    stark_support::exchange_device(device);
    before_ = found;
  }

 private:
  int before_ = -1;
};
class CUDAGuard : public OptionalCUDAGuard {
 public:
  explicit CUDAGuard(DeviceIndex index) { set(index); }
  explicit CUDAGuard(Device device) { set(device.index()); }
};
} // namespace stark_facade
} // namespace c10::cuda

namespace at::cuda {
using c10::cuda::CUDAGuard;
using c10::cuda::CUDAStream;
using c10::cuda::getCurrentCUDAStream;
using c10::cuda::OptionalCUDAGuard;
inline namespace stark_facade {
inline cudaDeviceProp* getCurrentDeviceProperties() { return stark_support::device_properties(-1); }
inline cudaDeviceProp* getDeviceProperties(c10::DeviceIndex device) { return stark_support::device_properties(device); }
inline cublasContext* getCurrentCUDABlasHandle() { return static_cast<cublasContext*>(stark_support::blas_handle()); }
} // namespace stark_facade
} // namespace at::cuda

#define C10_CUDA_CHECK(EXPR)                                                                              \
  do {                                                                                                    \
    const cudaError_t __err = EXPR;                                                                       \
    if (C10_UNLIKELY(__err != cudaSuccess))                                                               \
      stark_support::cuda_check(int(__err), __FILE__, __func__, static_cast<uint32_t>(__LINE__));         \
  } while (0)
#define AT_CUDA_CHECK(EXPR) C10_CUDA_CHECK(EXPR)
#define C10_CUDA_KERNEL_LAUNCH_CHECK() C10_CUDA_CHECK(cudaGetLastError())
