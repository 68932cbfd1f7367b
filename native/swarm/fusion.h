// RWKVStateFusion (docs/swarm.md): one recurrent state out of the primary's own and those of the activated
// specialists.
#pragma once

#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>
#include <torch/nn/pimpl.h>

#include <optional>
#include <vector>

namespace aegir {

enum class FusionMode { WeightedSum, Gated, ConcatProject };

struct FusionConfig {
  int64_t numHeads = 0;
  int64_t headSize = 0;
  int64_t numAgents = 0;  // specialists; the primary's own state is one slot more
  FusionMode mode = FusionMode::WeightedSum;
  int64_t layers = 1;  // 1: every layer shares the parameters; else one set a layer
  int64_t maxDenseWeights = int64_t{64} << 20;
  at::ScalarType dtype = at::kFloat;
};

// The rows of the batch that activated one specialist, with its aligned states.
struct AgentStates {
  int64_t agent = 0;  // 0 .. numAgents - 1
  at::Tensor rows;    // (b) i64, ascending
  at::Tensor states;  // (b,H,N,N)
};

struct FusedStates {
  at::Tensor states;   // (B,H,N,N)
  at::Tensor weights;  // (B, 1 + numAgents, H), the primary's own first; undefined for concat_project
};

// Shared by the three modes: the active agents' slots and the primary's own; a row with no active agent keeps
// its own state bit for bit (zeros where there is none), and inactive agents have weight exactly 0.
class RWKVStateFusionImpl : public torch::nn::Module {
 public:
  RWKVStateFusionImpl(const FusionConfig& config, std::optional<at::Generator> generator);

  const FusionConfig& config() const { return config_; }
  // own: (B,H,N,N) or undefined for zeros.
  FusedStates forward(int64_t layer, int64_t batch, const at::Tensor& own,
                      const std::vector<AgentStates>& agents);

 private:
  void checkInputs(int64_t layer, int64_t batch, const at::Tensor& own,
                   const std::vector<AgentStates>& agents) const;
  at::Tensor scores(int64_t set, int64_t batch, const at::Tensor& own,
                    const std::vector<AgentStates>& agents) const;
  // active (B) bool: rows with an agent
  at::Tensor concatProject(int64_t set, const at::Tensor& active, const at::Tensor& own,
                           const std::vector<AgentStates>& agents) const;
  at::Device device() const;

  FusionConfig config_;
  // First dimension: parameter set (1, or one a layer).
  at::Tensor query_, keyProj_;        // (P,H,N), (P,N,N*N)
  at::Tensor gates_;                  // (P,1+n,H)
  at::Tensor projection_, projBias_;  // (P,1+n,N*N,N*N), (P,N*N)
};
TORCH_MODULE(RWKVStateFusion);

}  // namespace aegir
