// Token-level clipped policy loss, forward and backward in one pass: PPO with optional dual clip
// (arXiv:1707.06347, arXiv:1912.09729) and the form of Kimi K2.5 (arXiv:2602.02276), with a KL penalty to a
// reference.
//
// Per valid token: l = clamp(logp - logpOld, +-20), r = e^l, sat = [not clamped], A the advantage:
//   PPO:  x = max(-A r, -A clip(r, 1 - epsLow, 1 + epsHigh)); dual clip c: min(x, -c A) where A < 0
//   K2.5: x = -A clip(r, e^logAlpha, e^logBeta) + tau l^2, gradient inside the window whatever the sign of A
//   KL, d = clamp(logpRef - logp, +-20): k1 -d, k2 d^2/2, k3 e^d - d - 1, times klCoef
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>

namespace aegir::kernels {

enum class ClipKind { Ppo, K25 };
enum class KlForm { K1, K2, K3 };
enum class Aggregation { TokenMean, SeqMeanTokenMean, SeqMeanTokenSum, SeqMeanTokenSumNorm };

struct ClipLossOptions {
  ClipKind kind = ClipKind::Ppo;
  double epsLow = 0.2;
  double epsHigh = 0.2;
  std::optional<double> dualClip;
  double logAlpha = -0.25;
  double logBeta = 0.25;
  double tau = 0;
  // K2.5: the penalty's gradient too is kept inside the window.
  bool maskPenalty = false;
  double klCoef = 0;
  KlForm klForm = KlForm::K3;
  Aggregation aggregation = Aggregation::TokenMean;
  // C of SeqMeanTokenSumNorm.
  double norm = 1;
  // Replaces the batch's own: sum of weights (token-mean), sequences (seq-mean-*), B C
  // (seq-mean-token-sum-norm).
  std::optional<double> denominator;
};

// (rows, tokens) row-major; null where absent. T is float or double.
template <class T>
struct ClipLossTokens {
  int64_t rows = 0;
  int64_t tokens = 0;
  const T* logp = nullptr;
  const T* logpOld = nullptr;
  const T* advantages = nullptr;
  const bool* mask = nullptr;
  const T* weights = nullptr;
  const T* correction = nullptr;
  const T* logpRef = nullptr;
};

struct ClipLossResult {
  double loss = 0;
  int64_t nValid = 0;
  int64_t clipLow = 0;
  int64_t clipHigh = 0;
  int64_t dual = 0;
  // Means over valid tokens, unweighted: -l, r - 1 - l, -logp.
  double kl1 = 0;
  double kl3 = 0;
  double entropy = 0;
  // Before the clamp.
  double maxAbsLogRatio = 0;
  // (sum r)^2 / sum r^2, in tokens.
  double ess = 0;
  // Index of the first valid token whose loss is not finite, or -1.
  int64_t badToken = -1;
};

// Writes dLoss/dlogp (rows, tokens) unless gradLogp is null. Sums of up to 16 vectors in T, of these in
// double, in an order that depends on the shape alone. Nothing valid: loss 0 and zero gradient.
template <class T>
ClipLossResult clipLoss(const ClipLossTokens<T>& tokens, const ClipLossOptions& options, T* gradLogp);

// The same loss from (B,T) tensors in plain ATen operators, differentiated by autograd: the oracle of tests.
// Undefined tensors are absent.
struct ClipLossTensors {
  at::Tensor logp, logpOld, advantages, mask, weights, correction, logpRef;
};
at::Tensor clipLossReference(const ClipLossTensors& tensors, const ClipLossOptions& options);

// The same through the CUDA plug-in, for tensors on a GPU: contiguous, all f32 or all f64, mask bool.
// gradLogp of logp's shape and dtype, or undefined. Sums in double, in an order that depends on the shape
// alone.
ClipLossResult clipLossCuda(const ClipLossTensors& tensors, const ClipLossOptions& options,
                            const at::Tensor& gradLogp);

}  // namespace aegir::kernels
