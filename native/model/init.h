// Initial values (RWKV-LM reference code, x070; table in docs/model.md). All are drawn in f64 from one
// generator in the order in which modules are built, so a seed decides them whatever the dtype.
#pragma once

#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>

#include <cstdint>

#include "native/model/config.h"

namespace aegir::model {

struct InitContext {
  InitScheme scheme;
  at::Generator generator;
  c10::ScalarType dtype;
  // Of the matrix products inside blocks: dtype, or bf16 with f32 parameters.
  c10::ScalarType products = dtype;
};

// Index of a layer in its stack (an encoder, a decoder or the innermost blocks) and the stack's depth.
struct LayerPosition {
  int64_t layer = 0;
  int64_t layers = 1;
};

at::Tensor constant(const InitContext& context, at::IntArrayRef sizes, double value);
at::Tensor identity(const InitContext& context, int64_t size);
// Uniform in [-bound, bound].
at::Tensor uniform(const InitContext& context, at::IntArrayRef sizes, double bound);
at::Tensor normal(const InitContext& context, at::IntArrayRef sizes, double std);
// Rows or columns orthonormal, times gain, times sqrt(rows/columns) where there are more rows.
at::Tensor orthogonal(const InitContext& context, int64_t rows, int64_t columns, double gain);
// A projection back into the residual stream: zero, or small normal values in the annotation scheme.
at::Tensor outputProjection(const InitContext& context, at::IntArrayRef sizes, LayerPosition position);

// The vectors of time mixing, width D, head size N.
struct TimeMixVectors {
  at::Tensor mu;                  // (6,D), rows r, w, k, v, a, g
  at::Tensor w0, a0, v0, kK, kA;  // (D)
  at::Tensor rK;                  // (D / N, N)
};
TimeMixVectors timeMixVectors(const InitContext& context, int64_t dModel, int64_t headSize,
                              LayerPosition position);

// mu_k of channel mixing: 1 - c^(q^4).
at::Tensor channelMixMu(const InitContext& context, int64_t dModel, LayerPosition position);

}  // namespace aegir::model
