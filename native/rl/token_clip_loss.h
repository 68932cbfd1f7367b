// The clipped token loss as an autograd function.
#pragma once

#include <ATen/core/Tensor.h>

#include "native/kernels/clip_loss.h"

namespace aegir::rl {

struct TokenClipLoss {
  // Scalar in f32 (f64 for f64 logp), differentiable once in logp.
  at::Tensor loss;
  kernels::ClipLossResult stats;
};

// logp (B,T) or (R), f32, f64 or bf16; the others of the same shape and a floating dtype, mask bool;
// they may lie elsewhere than logp, where all is computed. On a GPU the host waits for the statistics.
// Throws ERR_SHAPE, ERR_DTYPE or ERR_CONFIG naming the argument, and ERR_NON_FINITE naming the
// first valid token whose loss is NaN or infinite.
TokenClipLoss tokenClipLoss(const kernels::ClipLossTensors& input, const kernels::ClipLossOptions& options);

}  // namespace aegir::rl
