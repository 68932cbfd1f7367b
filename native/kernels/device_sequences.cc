#include "native/kernels/device_sequences.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include "native/core/transfer.h"

namespace aegir::kernels {

DeviceSequences deviceSequences(int64_t batch, int64_t tokens, const at::Tensor& lengths,
                                const at::Tensor& cuSeqlens, at::Device device) {
  const auto there = [&](const at::Tensor& x) { return x.defined() ? queuedTo(x, device).contiguous() : x; };
  return {batch, tokens, there(lengths), there(cuSeqlens)};
}

cuda::Layout DeviceSequences::layout() const {
  const auto pointer = [](const at::Tensor& x) {
    return x.defined() ? x.const_data_ptr<int64_t>() : nullptr;
  };
  return {count(), tokens, pointer(cuSeqlens), pointer(lengths)};
}

at::Tensor DeviceSequences::outputLike(const at::Tensor& x) const {
  return lengths.defined() ? at::zeros(x.sizes(), x.options()) : at::empty(x.sizes(), x.options());
}

bool cudaStores(at::ScalarType type) { return type == at::kFloat || type == at::kBFloat16; }

cuda::Storage cudaStorage(at::ScalarType type) {
  return type == at::kBFloat16 ? cuda::Storage::Bf16 : cuda::Storage::F32;
}

}  // namespace aegir::kernels
