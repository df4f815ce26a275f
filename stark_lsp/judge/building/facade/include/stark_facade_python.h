// The part of the facade that binds functions to Python: what torch/csrc/utils/pybind.h does for tensors.
#pragma once
#include <pybind11/functional.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include "stark_facade.h"

namespace py = pybind11;

namespace pybind11::detail {
template <>
struct __attribute__((visibility("hidden"))) type_caster<at::Tensor> {
 public:
  PYBIND11_TYPE_CASTER(at::Tensor, const_name("torch.Tensor"));
  bool load(handle from, bool) {
    if (!stark_support::is_tensor(from.ptr())) return false;
    stark_support::unpack(&value, from.ptr());
    return true;
  }
  static handle cast(const at::Tensor& from, return_value_policy, handle) {
    return handle(static_cast<PyObject*>(stark_support::wrap(&from)));
  }
};
} // namespace pybind11::detail

namespace torch {
inline namespace stark_facade {
template <typename R, typename... A>
auto wrap_pybind_function(R (*function)(A...)) {
  return [function](A... arguments) -> R {
    try {
      return function(std::forward<A>(arguments)...);
    } catch (...) {
      stark_support::translate();
    }
  };
}
} // namespace stark_facade
} // namespace torch
