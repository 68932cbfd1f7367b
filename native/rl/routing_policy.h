// The capped-Bernoulli routing policy on tensors. z (R,n), or (B,T,n) for a decision at each of T tokens, in
// f32, f64 or bf16 with n up to 128; forbidden specialists have z = -inf; a cap above n is n. Shapes below
// are those of (R,n): R stands for B,T as well. Computed in double. Gradients flow into z, once
// differentiable. All throw ERR_SHAPE, ERR_DTYPE or ERR_ARGUMENT naming the argument, and
// ERR_NON_FINITE for a z of NaN or +inf.
#pragma once

#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>

#include <cstdint>

namespace aegir::rl {

// z where a specialist may be activated, -inf elsewhere: `allowed` bool of z's shape or (n), `mask` bool of
// z's shape without its last dimension; either may be undefined. A masked decision allows nothing: its only
// action is all-off, of log-probability, entropy, KL and gradient 0, and what its z holds, NaN too, is never
// read.
at::Tensor restrictLogits(const at::Tensor& z, const at::Tensor& allowed, const at::Tensor& mask);

// Log-probabilities of actions (R,n) as (R), or of G draws (G,R,n) as (G,R); f32, or f64 for f64 z. An action
// that exceeds the cap or activates a forbidden specialist is an error: it was not drawn from this policy.
at::Tensor cappedBernoulliLogProb(const at::Tensor& z, const at::Tensor& actions, int64_t cap);

// (draws,R,n) bool, exact samples: draws * R * n uniforms from `generator`, whatever the logits.
at::Tensor cappedBernoulliSample(const at::Tensor& z, int64_t cap, int64_t draws,
                                 const at::Generator& generator);

// (R,n) bool: up to `cap` largest z above logit(threshold).
at::Tensor cappedBernoulliMode(const at::Tensor& z, int64_t cap, double threshold);

struct CappedBernoulliStats {
  // P(a = 1) (R,n) and entropy (R) in nats; KL(z || zOld) (R) in nats, undefined without zOld.
  at::Tensor marginals, entropy, kl;
};

// zOld (R,n) is a constant: no gradient flows into it.
CappedBernoulliStats cappedBernoulliStats(const at::Tensor& z, int64_t cap, const at::Tensor& zOld);

}  // namespace aegir::rl
