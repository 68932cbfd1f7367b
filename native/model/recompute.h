// Recomputation: of a part of a model only the inputs are kept for the backward pass, which runs the part
// once more to get what it needs. The results and gradients are the same, bit for bit; a training step takes
// about a forward pass longer and keeps one part's intermediate values instead of all parts'.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

namespace aegir::model {

using Part = std::function<std::vector<at::Tensor>(const std::vector<at::Tensor>&)>;

// part(inputs), recomputed in the backward pass. `part` must give the same tensors each time, all defined; it
// may read parameters, whose gradients accumulate. Inputs may be undefined; one must require a gradient.
std::vector<at::Tensor> recomputed(const Part& part, const std::vector<at::Tensor>& inputs);

// Whether models recompute their blocks: as said for the calling thread while the guard lives, else where a
// stack of blocks would keep more than an eighth of the process's memory.
class RecomputeMode {
 public:
  explicit RecomputeMode(std::optional<bool> recompute);
  ~RecomputeMode();
  RecomputeMode(const RecomputeMode&) = delete;
  RecomputeMode& operator=(const RecomputeMode&) = delete;

  // For a stack on `device` that would keep so many bytes.
  static bool recomputes(int64_t bytes, at::Device device);

 private:
  const std::optional<bool> outer_;
};

}  // namespace aegir::model
