// OutputFusion (docs/swarm.md): what the activated specialists say, as a residual for the primary's head.
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>
#include <torch/nn/pimpl.h>

#include <optional>
#include <vector>

namespace aegir {

struct OutputFusionConfig {
  struct Specialist {
    int64_t dModel = 0;
    int64_t numLabels = 0;
    // Of each of its labels the primary's label of that name, -1: none. Empty: no matrix between labels.
    std::vector<int64_t> labels = {};
    // Initial share of the labels of one name.
    double weight = 0;
  };
  int64_t dModel = 0;     // the primary's
  int64_t numLabels = 0;  // the primary's; 0: no specialist has a matrix between labels
  double ownWeight = 1;   // initial share of the primary's own answer where specialists answer
  std::vector<Specialist> specialists;
  at::ScalarType dtype = at::kFloat;
};

struct AgentOutputs {
  int64_t agent = 0;
  at::Tensor rows;    // (b) i64, ascending
  at::Tensor pooled;  // (b,Ds)
  at::Tensor logits;  // (b,Cs)
};

// What the head of the primary adds: (B,D) to the pooled embedding and (B,C) to the logits, after these were
// multiplied by scale (B,1). The last two are undefined where no specialist has a matrix between labels, or a
// share in the pool.
struct OutputResiduals {
  at::Tensor embedding;
  at::Tensor logits;
  at::Tensor scale;
};

// embedding = sum over active n of P_n [pooled_n ; softmax(logits_n)], P_n (D, Ds + Cs) zero at the start.
// Probabilities and not raw logits: like the tanh-pooled embedding they lie within [-1, 1] however sure a
// specialist is, so no specialist drowns another and one learning rate serves all; that they sum to 1 gives
// each specialist a bias.
// logits = sum over active n of (w_n F J_n + L_n) f_n, f_n = 1 + max(ln p_n, -F) / F in [0, 1], F = ln 10^4:
// a logarithmic opinion pool (Genest and Zidek 1986). J_n (C, Cs) is 1 between labels of one name, so that
// w_n = 1 gives ln p_n but for a constant; w_n starts at `weight`, L_n (C, Cs) at 0. The primary's own logits
// are a member of the pool: where a specialist that started with a share is active they count w_0 times,
// elsewhere once.
class OutputFusionImpl : public torch::nn::Module {
 public:
  explicit OutputFusionImpl(const OutputFusionConfig& config);

  const OutputFusionConfig& config() const { return config_; }
  // Exactly zero, and a scale of 1, for rows with no active agent.
  OutputResiduals forward(int64_t batch, const std::vector<AgentOutputs>& agents);

 private:
  OutputFusionConfig config_;
  std::vector<at::Tensor> projections_;
  struct LabelMap {
    at::Tensor same;     // F J; follows the parameters to their device
    at::Tensor weight;   // (1) w
    at::Tensor learned;  // L
    bool pooled;         // starts with a share in the pool
  };
  std::vector<std::optional<LabelMap>> labelMaps_;
  at::Tensor ownWeight_;  // (1) w_0; undefined where nothing has a share
};
TORCH_MODULE(OutputFusion);

}  // namespace aegir
