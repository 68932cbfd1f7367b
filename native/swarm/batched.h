// Frozen specialists of one geometry as one model (docs/swarm.md): embeddings and heads one by one, the
// blocks stacked (grouped_blocks.h).
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "native/model/grouped_blocks.h"

namespace aegir {

// What one specialist says of its rows.
struct SpecialistSays {
  at::Tensor logits;              // annotation (S,C); causal LM (B,T,V)
  at::Tensor pooled;              // annotation (S,D)
  std::vector<at::Tensor> attKv;  // (S,H,N,N) per layer that a swarm exchanges
};

class BatchedSpecialists {
 public:
  // Copies the weights of the models' blocks. Throws ERR_CONFIG where they cannot be stacked.
  explicit BatchedSpecialists(std::vector<std::shared_ptr<model::Model>> models);

  // inputs[g] is what specialist g reads; one without an input is left out. Throws as the models do.
  std::vector<std::optional<SpecialistSays>> forward(
      const std::vector<std::optional<model::ModelInput>>& inputs) const;

  size_t size() const { return models_.size(); }
  std::vector<at::Tensor> tensors() const { return blocks_.tensors(); }

 private:
  const std::vector<std::shared_ptr<model::Model>> models_;
  const model::GroupedBlocks blocks_;
};

}  // namespace aegir
