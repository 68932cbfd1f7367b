// AlignmentProjection (docs/swarm.md): maps a specialist's recurrent states into the primary's geometry.
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>
#include <torch/nn/pimpl.h>

#include <vector>

#include "native/swarm/geometry.h"

namespace aegir {

enum class AlignmentMode {
  Identity,  // no parameters; heads and head size must agree
  Bilinear,  // S' = L S R^T per head
  Dense,     // flatten and project
};

struct AlignmentConfig {
  StateGeometry primary;
  StateGeometry specialist;
  AlignmentMode mode = AlignmentMode::Bilinear;
  // Also map the token-shift vectors (attXPrev, ffnXPrev).
  bool vectors = false;
  // Refuse a dense map with more weights than this.
  int64_t maxDenseWeights = int64_t{64} << 20;
  at::ScalarType dtype = at::kFloat;
};

class AlignmentProjectionImpl : public torch::nn::Module {
 public:
  explicit AlignmentProjectionImpl(const AlignmentConfig& config);

  const AlignmentConfig& config() const { return config_; }
  // The specialist's layer that feeds layer `layer` of the primary: both stacks are stretched over
  // each other.
  int64_t sourceLayer(int64_t layer) const;
  // The specialist's head that feeds head `head` of the primary: floor(head * Hs / Hp).
  int64_t sourceHead(int64_t head) const;

  // One layer of the primary: (b,Hs,Ns,Ns) of its source layer -> (b,Hp,Np,Np).
  at::Tensor forward(int64_t layer, const at::Tensor& states);
  // `index` counts attXPrev and ffnXPrev of the primary's layers, interleaved: (b,Ds) -> (b,Dp).
  at::Tensor forwardVector(int64_t index, const at::Tensor& vectors);

  // Closed-form start from paired states: `source` per layer of the specialist (R,Hs,Ns,Ns), `target` per
  // layer of the primary (R,Hp,Np,Np); vectors: (R,Ds) and (R,Dp), attXPrev and ffnXPrev interleaved per
  // layer. Returns the relative residual ||fit(source) - target|| / ||target|| over all layers.
  double fit(const std::vector<at::Tensor>& source, const std::vector<at::Tensor>& target, double ridge);

 private:
  void registerBilinear(const at::TensorOptions& options);
  void registerDense(const at::TensorOptions& options);
  void registerVectors(const at::TensorOptions& options);
  at::Tensor selectHeads(const at::Tensor& states) const;
  // On the device of the weights.
  at::Tensor here(const at::Tensor& x) const;
  void checkPairs(const std::vector<at::Tensor>& source, const std::vector<at::Tensor>& target,
                  bool vectors) const;
  void fitLayer(int64_t layer, const at::Tensor& source, const at::Tensor& target, double ridge);
  void fitVector(int64_t index, const at::Tensor& source, const at::Tensor& target, double ridge);

  AlignmentConfig config_;
  at::Tensor headMap_;           // (Hp) i64, undefined where it is the identity
  at::Tensor left_, right_;      // (Lp,Hp,Np,Ns)
  at::Tensor dense_;             // (Lp, Hp*Np*Np, Hs*Ns*Ns)
  at::Tensor vectorMap_, bias_;  // (2 Lp, Dp, Ds), (2 Lp, Dp)
};
TORCH_MODULE(AlignmentProjection);

}  // namespace aegir
