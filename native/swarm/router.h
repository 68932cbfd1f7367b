// SpecialistRouter (docs/swarm.md, docs/rl.md §4): logits of activating each specialist.
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>
#include <torch/nn/pimpl.h>

namespace aegir {

struct RouterConfig {
  int64_t dModel = 0;
  int64_t numSpecialists = 0;
  double softCap = 6;  // |logit| stays below it; 0: off
  at::ScalarType dtype = at::kFloat;
};

// z = cap * tanh((W norm(h) + b) / cap). The features are layer-normalised without affine parameters (W
// absorbs them); W and b start at zero, so every specialist starts at p = 0.5. A soft cap keeps a gradient
// where a hard clamp would have none.
class SpecialistRouterImpl : public torch::nn::Module {
 public:
  explicit SpecialistRouterImpl(const RouterConfig& config);

  const RouterConfig& config() const { return config_; }
  // hidden (B,D) -> logits (B,n)
  at::Tensor forward(const at::Tensor& hidden);

 private:
  RouterConfig config_;
  at::Tensor weight_, bias_;  // (n,D), (n)
};
TORCH_MODULE(SpecialistRouter);

}  // namespace aegir
