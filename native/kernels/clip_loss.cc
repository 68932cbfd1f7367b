#include "native/kernels/clip_loss.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <cmath>
#include <vector>

namespace aegir::kernels {
namespace {

constexpr double kMaxLogRatio = 20;
// Tokens a partial sum; fixed, so that the result does not depend on the number of threads.
constexpr int64_t kBlock = 2048;

struct TokenTerms {
  double loss = 0;
  double grad = 0;
  bool clipLow = false;
  bool clipHigh = false;
  bool dual = false;
};

// The bounds of the ratio and of its logarithm, computed once.
struct Bounds {
  double low, high, alpha, beta;
  explicit Bounds(const ClipLossOptions& o)
      : low(1 - o.epsLow), high(1 + o.epsHigh), alpha(std::exp(o.logAlpha)), beta(std::exp(o.logBeta)) {}
};

// The surrogate with gradient 0 outside the window; `saturated`: the log-ratio was clamped.
template <class T>
TokenTerms ppoTerms(T advantage, T ratio, bool saturated, const ClipLossOptions& o, const Bounds& bounds) {
  TokenTerms out;
  const bool gain = advantage >= 0;
  out.clipHigh = gain && ratio > bounds.high;
  out.clipLow = !gain && ratio < bounds.low;
  out.dual = !gain && o.dualClip && ratio > *o.dualClip;
  const double used = out.clipHigh ? bounds.high : out.clipLow ? bounds.low : out.dual ? *o.dualClip : ratio;
  out.loss = -advantage * used;
  out.grad = out.clipHigh || out.clipLow || out.dual || saturated ? 0 : -advantage * ratio;
  return out;
}

template <class T>
TokenTerms k25Terms(T advantage, T logRatio, T ratio, bool saturated, const ClipLossOptions& o,
                    const Bounds& bounds) {
  TokenTerms out;
  out.clipLow = logRatio < o.logAlpha;
  out.clipHigh = logRatio > o.logBeta;
  const bool inside = !out.clipLow && !out.clipHigh;
  const double used = out.clipLow ? bounds.alpha : out.clipHigh ? bounds.beta : ratio;
  out.loss = -advantage * used + o.tau * logRatio * logRatio;
  if (saturated) return out;
  if (inside) out.grad = -advantage * ratio;
  if (inside || !o.maskPenalty) out.grad += 2 * o.tau * logRatio;
  return out;
}

template <class T>
void addKl(TokenTerms& terms, T logp, T logpRef, const ClipLossOptions& o) {
  const double raw = double(logpRef) - double(logp);
  const double d = std::clamp(raw, -kMaxLogRatio, kMaxLogRatio);
  const double inside = std::abs(raw) <= kMaxLogRatio ? o.klCoef : 0;
  switch (o.klForm) {
    case KlForm::K1:
      terms.loss -= o.klCoef * d;
      terms.grad += inside;
      break;
    case KlForm::K2:
      terms.loss += o.klCoef * d * d / 2;
      terms.grad -= inside * d;
      break;
    case KlForm::K3:
      terms.loss += o.klCoef * (std::expm1(d) - d);
      terms.grad -= inside * std::expm1(d);
      break;
  }
}

// What a token's loss and gradient are multiplied by, one factor a row.
template <class T>
std::vector<double> rowScales(const ClipLossTokens<T>& in, const ClipLossOptions& o) {
  std::vector<double> rowWeight(in.rows, 0);
  double sequences = 0;
  for (int64_t row = 0; row < in.rows; ++row) {
    bool any = false;
    for (int64_t i = row * in.tokens; i < (row + 1) * in.tokens; ++i) {
      if (in.mask && !in.mask[i]) continue;
      any = true;
      rowWeight[row] += in.weights ? double(in.weights[i]) : 1.0;
    }
    sequences += any;
  }
  double total = 0;
  for (const double weight : rowWeight) total += weight;

  double denominator = sequences;
  if (o.aggregation == Aggregation::TokenMean) denominator = total;
  if (o.aggregation == Aggregation::SeqMeanTokenSumNorm) denominator = double(in.rows) * o.norm;
  denominator = o.denominator.value_or(denominator);

  std::vector<double> scales(in.rows, 0);
  for (int64_t row = 0; row < in.rows; ++row) {
    const double divisor =
        o.aggregation == Aggregation::SeqMeanTokenMean ? denominator * rowWeight[row] : denominator;
    if (divisor != 0) scales[row] = 1 / divisor;
  }
  return scales;
}

struct Partial {
  ClipLossResult sums;  // ess unused, kl1 … entropy are sums
  double ratio = 0;
  double ratioSquared = 0;

  void add(const Partial& other) {
    sums.loss += other.sums.loss;
    sums.nValid += other.sums.nValid;
    sums.clipLow += other.sums.clipLow;
    sums.clipHigh += other.sums.clipHigh;
    sums.dual += other.sums.dual;
    sums.kl1 += other.sums.kl1;
    sums.kl3 += other.sums.kl3;
    sums.entropy += other.sums.entropy;
    sums.maxAbsLogRatio = std::max(sums.maxAbsLogRatio, other.sums.maxAbsLogRatio);
    if (sums.badToken < 0) sums.badToken = other.sums.badToken;
    ratio += other.ratio;
    ratioSquared += other.ratioSquared;
  }
};

template <class T>
void addToken(Partial& partial, int64_t i, double scale, const ClipLossTokens<T>& in,
              const ClipLossOptions& o, const Bounds& bounds, T* gradLogp) {
  const T raw = in.logp[i] - in.logpOld[i];
  const T logRatio = std::clamp(raw, T(-kMaxLogRatio), T(kMaxLogRatio));
  const T ratio = std::exp(logRatio);
  const bool saturated = std::abs(raw) > T(kMaxLogRatio);
  const T advantage = in.correction ? in.advantages[i] * in.correction[i] : in.advantages[i];
  TokenTerms terms = o.kind == ClipKind::Ppo ? ppoTerms(advantage, ratio, saturated, o, bounds)
                                             : k25Terms(advantage, logRatio, ratio, saturated, o, bounds);
  if (in.logpRef && o.klCoef != 0) addKl(terms, in.logp[i], in.logpRef[i], o);

  const double factor = in.weights ? scale * double(in.weights[i]) : scale;
  auto& sums = partial.sums;
  sums.loss += factor * terms.loss;
  if (!std::isfinite(factor * terms.loss) && sums.badToken < 0) sums.badToken = i;
  if (gradLogp) gradLogp[i] = T(factor * terms.grad);
  sums.nValid += 1;
  sums.clipLow += terms.clipLow;
  sums.clipHigh += terms.clipHigh;
  sums.dual += terms.dual;
  sums.kl1 -= logRatio;
  sums.kl3 += std::expm1(double(logRatio)) - logRatio;
  sums.entropy -= in.logp[i];
  sums.maxAbsLogRatio = std::max(sums.maxAbsLogRatio, double(std::abs(raw)));
  partial.ratio += ratio;
  partial.ratioSquared += double(ratio) * ratio;
}

}  // namespace

template <class T>
ClipLossResult clipLoss(const ClipLossTokens<T>& in, const ClipLossOptions& options, T* gradLogp) {
  const Bounds bounds(options);
  const auto scales = rowScales(in, options);
  const int64_t count = in.rows * in.tokens;
  std::vector<Partial> partials((count + kBlock - 1) / kBlock);
  at::parallel_for(0, int64_t(partials.size()), 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin * kBlock; i < std::min(end * kBlock, count); ++i) {
      if (in.mask && !in.mask[i]) {
        if (gradLogp) gradLogp[i] = 0;
        continue;
      }
      addToken(partials[i / kBlock], i, scales[i / in.tokens], in, options, bounds, gradLogp);
    }
  });
  Partial total;
  for (const auto& partial : partials) total.add(partial);
  ClipLossResult result = total.sums;
  if (result.nValid > 0) {
    result.kl1 /= double(result.nValid);
    result.kl3 /= double(result.nValid);
    result.entropy /= double(result.nValid);
    result.ess = total.ratio * total.ratio / total.ratioSquared;
  }
  return result;
}

template ClipLossResult clipLoss<float>(const ClipLossTokens<float>&, const ClipLossOptions&, float*);
template ClipLossResult clipLoss<double>(const ClipLossTokens<double>&, const ClipLossOptions&, double*);

}  // namespace aegir::kernels
