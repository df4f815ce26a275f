// Accessors: torch's own, for code that runs on the GPU must be the same.
#pragma once
namespace at {
using torch::headeronly::DefaultPtrTraits;
#ifdef __CUDACC__
using torch::headeronly::RestrictPtrTraits;
#endif
namespace detail {
inline namespace stark_facade {
template <size_t N, typename index_t>
struct IndexBoundsCheck {
  IndexBoundsCheck(index_t i) {
    TORCH_CHECK(0 <= i && i < index_t{N}, "Index ", i, " is not within bounds of a tensor of dimension ", N);
  }
};
} // namespace stark_facade
} // namespace detail
template <typename T, size_t N, template <typename U> class PtrTraits = DefaultPtrTraits, typename index_t = int64_t>
using TensorAccessor = torch::headeronly::detail::TensorAccessor<c10::IntArrayRef, T, N, PtrTraits, index_t>;
template <typename T, size_t N, template <typename U> class PtrTraits = DefaultPtrTraits, typename index_t = int64_t>
using GenericPackedTensorAccessor = torch::headeronly::detail::GenericPackedTensorAccessor<
    TensorAccessor<T, N - 1, PtrTraits, index_t>, detail::IndexBoundsCheck<N, index_t>, T, N, PtrTraits, index_t>;
template <typename T, size_t N, template <typename U> class PtrTraits = DefaultPtrTraits>
using PackedTensorAccessor32 = GenericPackedTensorAccessor<T, N, PtrTraits, int32_t>;
template <typename T, size_t N, template <typename U> class PtrTraits = DefaultPtrTraits>
using PackedTensorAccessor64 = GenericPackedTensorAccessor<T, N, PtrTraits, int64_t>;

template <typename T, size_t N>
auto Tensor::accessor() const& {
  TORCH_CHECK(dim() == N, "TensorAccessor expected ", N, " dims but tensor has ", dim());
  return TensorAccessor<T, N>(data_ptr<T>(), sizes().data(), strides().data());
}
template <typename T, size_t N, template <typename U> class PtrTraits, typename index_t>
auto Tensor::generic_packed_accessor() const& {
  TORCH_CHECK(dim() == N, "TensorAccessor expected ", N, " dims but tensor has ", dim());
  TORCH_CHECK(
      sizeof(index_t) == 8 || numel() <= static_cast<int64_t>(std::numeric_limits<int32_t>::max()),
      "numel needs to be smaller than int32_t max; otherwise, please use packed_accessor64");
  using Pointer = typename PtrTraits<T>::PtrType;
  return GenericPackedTensorAccessor<T, N, PtrTraits, index_t>(
      static_cast<Pointer>(data_ptr<T>()), sizes().data(), strides().data());
}
} // namespace at
