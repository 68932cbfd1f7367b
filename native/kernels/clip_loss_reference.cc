#include <ATen/TensorOperators.h>
#include <ATen/ops/clamp.h>
#include <ATen/ops/exp.h>
#include <ATen/ops/maximum.h>
#include <ATen/ops/minimum.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros_like.h>

#include <cmath>

#include "native/kernels/clip_loss.h"

namespace aegir::kernels {
namespace {

at::Tensor ppoSurrogate(const at::Tensor& advantage, const at::Tensor& ratio, const ClipLossOptions& o) {
  auto x = at::maximum(-advantage * ratio, -advantage * at::clamp(ratio, 1 - o.epsLow, 1 + o.epsHigh));
  if (o.dualClip) x = at::where(advantage.lt(0), at::minimum(x, -*o.dualClip * advantage), x);
  return x;
}

at::Tensor k25Surrogate(const at::Tensor& advantage, const at::Tensor& logRatio, const at::Tensor& ratio,
                        const ClipLossOptions& o) {
  const auto clipped = at::clamp(ratio, std::exp(o.logAlpha), std::exp(o.logBeta));
  const auto inside = logRatio.ge(o.logAlpha).logical_and(logRatio.le(o.logBeta));
  const auto penalised = o.maskPenalty ? at::where(inside, logRatio, logRatio.detach()) : logRatio;
  return -advantage * clipped + o.tau * penalised * penalised;
}

at::Tensor klTerm(const at::Tensor& d, KlForm form) {
  switch (form) {
    case KlForm::K1: return -d;
    case KlForm::K2: return d * d / 2;
    case KlForm::K3: break;
  }
  return at::exp(d) - d - 1;
}

at::Tensor aggregate(const at::Tensor& x, const at::Tensor& mask, const at::Tensor& weight,
                     const ClipLossOptions& o) {
  const auto rowSum = (x * weight).sum(-1);
  const auto rowWeight = weight.sum(-1);
  const auto sequences = mask.any(-1).sum().to(x.scalar_type());
  at::Tensor numerator = rowSum.sum();
  at::Tensor denominator = sequences;
  switch (o.aggregation) {
    case Aggregation::TokenMean: denominator = rowWeight.sum(); break;
    case Aggregation::SeqMeanTokenMean:
      numerator = at::where(rowWeight.ne(0), rowSum / rowWeight, at::zeros_like(rowSum)).sum();
      break;
    case Aggregation::SeqMeanTokenSum: break;
    case Aggregation::SeqMeanTokenSumNorm:
      denominator = at::ones_like(sequences) * (double(x.size(0)) * o.norm);
      break;
  }
  if (o.denominator) denominator = at::ones_like(sequences) * *o.denominator;
  return at::where(denominator.ne(0), numerator / denominator, numerator * 0);
}

}  // namespace

at::Tensor clipLossReference(const ClipLossTensors& in, const ClipLossOptions& o) {
  const auto mask = in.mask.defined() ? in.mask : at::ones_like(in.logp, at::kBool);
  const auto select = [&](const at::Tensor& x, double fallback) {
    return x.defined() ? at::where(mask, x, fallback) : at::ones_like(in.logp);
  };
  const auto logp = select(in.logp, 0);
  const auto weight = at::where(mask, select(in.weights, 0), 0.0);
  const auto advantage = select(in.advantages, 0) * select(in.correction, 0);
  const auto logRatio = at::clamp(logp - select(in.logpOld, 0), -20, 20);
  const auto ratio = at::exp(logRatio);
  auto x = o.kind == ClipKind::Ppo ? ppoSurrogate(advantage, ratio, o)
                                   : k25Surrogate(advantage, logRatio, ratio, o);
  if (in.logpRef.defined() && o.klCoef != 0) {
    x = x + o.klCoef * klTerm(at::clamp(select(in.logpRef, 0) - logp, -20, 20), o.klForm);
  }
  return aggregate(x, mask, weight, o);
}

}  // namespace aegir::kernels
