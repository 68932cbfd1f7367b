// Where the sequences of a batch lie, for kernels that read it on their device (see sequence_layout.h).
#pragma once

#include <ATen/core/Tensor.h>

#include "native/cuda/table.h"

namespace aegir::kernels {

struct DeviceSequences {
  int64_t batch, tokens;
  at::Tensor lengths, cuSeqlens;  // on the device, contiguous, or undefined

  int64_t count() const { return cuSeqlens.defined() ? cuSeqlens.numel() - 1 : batch; }
  // Pointers into the tensors above.
  cuda::Layout layout() const;
  // Padded positions are not written by kernels and must be zero.
  at::Tensor outputLike(const at::Tensor& x) const;
};

DeviceSequences deviceSequences(int64_t batch, int64_t tokens, const at::Tensor& lengths,
                                const at::Tensor& cuSeqlens, at::Device device);

// f32 or bf16, as the plug-in names them.
bool cudaStores(at::ScalarType type);
cuda::Storage cudaStorage(at::ScalarType type);

}  // namespace aegir::kernels
