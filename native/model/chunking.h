// Dynamic chunking of H-Net (arXiv:2507.07955): a routing module marks boundaries, the chunk layer keeps the
// marked tokens, the dechunk layer spreads the inner stage's outputs back over all tokens.
#pragma once

#include <memory>

#include "native/model/layers.h"
#include "native/model/sequences.h"

namespace aegir::model {

struct Routing {
  at::Tensor p;           // (K) boundary probability
  at::Tensor boundary;    // (K) bool, p >= 0.5
  at::Tensor lastHidden;  // (S,D) for the next call
};

class RoutingModule : public torch::nn::Module {
 public:
  RoutingModule(const InitContext& context, int64_t dModel);
  // p_t = (1 - cos(Q h_{t-1}, K h_t)) / 2; the first token of a sequence that has no lastHidden is a boundary
  // with p = 1.
  Routing forward(const at::Tensor& h, const at::Tensor& lastHidden, const Sequences& sequences) const;

 private:
  at::Tensor query_, key_;  // (D,D), start as the identity
};

struct Chunks {
  at::Tensor kept;      // (J) i64, token of each chunk
  at::Tensor chunkOf;   // (K) i64 into [J chunks; S carried values]: last boundary at or before each token
  Sequences sequences;  // of the chunks
};

// Where the kept tokens are. Their count is the one number that the host reads from the device here.
Chunks chunk(const Routing& routing, const Sequences& sequences);

struct Dechunked {
  at::Tensor tokens;     // (K,D)
  at::Tensor lastValue;  // (S,D) for the next call
};

// y_j = P_j x_j + (1 - P_j) y_{j-1}, P = clamp(p, 1e-4, 1 - 1e-4), y_{-1} = lastValue or x_0; every token
// takes its chunk's y. inner (J,D).
Dechunked dechunk(const at::Tensor& inner, const Routing& routing, const Chunks& chunks,
                  const at::Tensor& lastValue);

// dechunked with the gradient of c * dechunked: c_t = p_t at boundaries, else 1 - p_t (straight-through,
// value 1).
at::Tensor straightThrough(const at::Tensor& dechunked, const Routing& routing);

// M/(M-1) * ((1-F)(1-G) + (M-1) F G): F share of boundaries (no gradient), G mean p; scalar, 1 at F = G =
// 1/M.
at::Tensor ratioLoss(double boundaryRate, const at::Tensor& p, double downsample);

}  // namespace aegir::model
