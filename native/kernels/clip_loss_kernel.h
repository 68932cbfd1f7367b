// The clipped loss over a run of tokens that share one scale, compiled for several instruction sets.
#pragma once

#include <cstdint>

namespace aegir::kernels {

// What stays the same for every token; bounds of the ratio and of its logarithm.
template <class Real>
struct ClipLossForm {
  bool k25 = false;
  Real low = 0, high = 0;
  Real dual = 0;  // infinite: off
  Real logLow = 0, logHigh = 0;
  Real tau = 0;
  bool maskPenalty = false;
  Real klCoef = 0;  // 0 where there is no reference
  int klForm = 3;   // 1, 2 or 3
};

// `count` tokens; null where absent.
template <class Real>
struct ClipLossRun {
  const Real* logp;
  const Real* logpOld;
  const Real* advantages;
  const bool* mask;
  const Real* weights;
  const Real* correction;
  const Real* logpRef;
  Real* grad;
  int64_t count;
  double scale;
};

struct ClipLossSums {
  double loss = 0;  // weighted, not scaled
  int64_t valid = 0, clipLow = 0, clipHigh = 0, dual = 0;
  double logRatio = 0, kl3 = 0, logp = 0, ratio = 0, ratioSquared = 0;
  double maxAbsLogRatio = 0;
  int64_t bad = -1;  // first valid token of the run whose loss is not finite
};

// Valid tokens of a row and the sum of their weights.
struct RowWeight {
  double weight = 0;
  int64_t valid = 0;
};

template <class Real>
struct ClipLossKernel {
  ClipLossSums (*run)(const ClipLossRun<Real>&, const ClipLossForm<Real>&);
  RowWeight (*rowWeight)(const bool* mask, const Real* weights, int64_t count);
};

struct ClipLossTable {
  ClipLossKernel<float> f32;
  ClipLossKernel<double> f64;
};
extern const ClipLossTable clipLossSse2, clipLossAvx2, clipLossAvx512;

}  // namespace aegir::kernels
