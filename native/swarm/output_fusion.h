// OutputFusion (docs/swarm.md): what the activated specialists say, as a residual for the primary's head.
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>
#include <torch/nn/pimpl.h>

#include <vector>

namespace aegir {

struct OutputFusionConfig {
  struct Specialist {
    int64_t dModel = 0;
    int64_t numLabels = 0;
  };
  int64_t dModel = 0;  // the primary's
  std::vector<Specialist> specialists;
  at::ScalarType dtype = at::kFloat;
};

struct AgentOutputs {
  int64_t agent = 0;
  at::Tensor rows;    // (b) i64, ascending
  at::Tensor pooled;  // (b,Ds)
  at::Tensor logits;  // (b,Cs)
};

// residual = sum over active n of P_n [pooled_n ; softmax(logits_n)], P_n (D, Ds + Cs) zero at the start.
// Probabilities and not raw logits: like the tanh-pooled embedding they lie within [-1, 1] however sure a
// specialist is, so no specialist drowns another and one learning rate serves all; that they sum to 1 gives
// each specialist a bias.
class OutputFusionImpl : public torch::nn::Module {
 public:
  explicit OutputFusionImpl(const OutputFusionConfig& config);

  const OutputFusionConfig& config() const { return config_; }
  // (B,D), exactly zero for rows with no active agent.
  at::Tensor forward(int64_t batch, const std::vector<AgentOutputs>& agents);

 private:
  OutputFusionConfig config_;
  std::vector<at::Tensor> projections_;
};
TORCH_MODULE(OutputFusion);

}  // namespace aegir
