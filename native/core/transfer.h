// Copies to a device that the host does not wait for.
#pragma once

#include <ATen/core/Tensor.h>

namespace aegir {

// x on `device`, queued on the current stream. From the CPU it goes by page-locked memory, whose copy the
// host need not wait for; a copy of pageable memory it would. Keeps no graph from the CPU.
inline at::Tensor queuedTo(const at::Tensor& x, at::Device device) {
  if (!x.defined() || x.device() == device) return x;
  if (!x.is_cpu() || x.numel() == 0 || x.requires_grad()) return x.to(device);
  return x.contiguous().pin_memory().to(device, /*non_blocking=*/true);
}

}  // namespace aegir
