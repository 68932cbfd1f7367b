#include "native/kernels/clip_loss.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <type_traits>
#include <vector>

#include "native/kernels/clip_loss_kernel.h"
#include "native/kernels/simd_level.h"

namespace aegir::kernels {
namespace {

// Tokens a partial sum; fixed, so that the result does not depend on the number of threads.
constexpr int64_t kBlock = 2048;

template <class T>
const ClipLossKernel<T>& kernelOf() {
  return kernelsFor<T>(chosenTables(clipLossSse2, clipLossAvx2, clipLossAvx512));
}

template <class T>
ClipLossForm<T> formOf(const ClipLossOptions& o, bool hasReference) {
  ClipLossForm<T> form;
  form.k25 = o.kind == ClipKind::K25;
  form.low = static_cast<T>(form.k25 ? std::exp(o.logAlpha) : 1 - o.epsLow);
  form.high = static_cast<T>(form.k25 ? std::exp(o.logBeta) : 1 + o.epsHigh);
  form.dual = static_cast<T>(o.dualClip.value_or(std::numeric_limits<double>::infinity()));
  form.logLow = static_cast<T>(o.logAlpha);
  form.logHigh = static_cast<T>(o.logBeta);
  form.tau = static_cast<T>(o.tau);
  form.maskPenalty = o.maskPenalty;
  form.klCoef = static_cast<T>(hasReference ? o.klCoef : 0);
  form.klForm = o.klForm == KlForm::K1 ? 1 : o.klForm == KlForm::K2 ? 2 : 3;
  return form;
}

// What a token's loss and gradient are multiplied by, one factor a row.
template <class T>
std::vector<double> rowScales(const ClipLossTokens<T>& in, const ClipLossOptions& o) {
  std::vector<double> rowWeight(in.rows, 0);
  double sequences = 0, total = 0;
  for (int64_t row = 0; row < in.rows; ++row) {
    const int64_t at = row * in.tokens;
    const RowWeight sum = kernelOf<T>().rowWeight(in.mask ? in.mask + at : nullptr,
                                                  in.weights ? in.weights + at : nullptr, in.tokens);
    rowWeight[row] = sum.weight;
    sequences += sum.valid > 0;
    total += sum.weight;
  }
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

// Tokens [begin, end) of the flat layout, row by row where rows differ in scale.
template <class T, class Each>
void forEachRun(const ClipLossTokens<T>& in, const std::vector<double>& scales, bool oneScale, int64_t begin,
                int64_t end, T* grad, const Each& each) {
  const auto at = [](auto* x, int64_t i) { return x ? x + i : nullptr; };
  for (int64_t i = begin; i < end;) {
    const int64_t row = i / in.tokens;
    const int64_t stop = oneScale ? end : std::min(end, (row + 1) * in.tokens);
    each(i, ClipLossRun<T>{in.logp + i, in.logpOld + i, in.advantages + i, at(in.mask, i), at(in.weights, i),
                           at(in.correction, i), at(in.logpRef, i), at(grad, i), stop - i, scales[row]});
    i = stop;
  }
}

struct Partial {
  ClipLossResult sums;  // ess unused, kl1 … entropy are sums
  double ratio = 0;
  double ratioSquared = 0;

  void add(const ClipLossSums& other, double scale, int64_t begin) {
    sums.loss += scale * other.loss;
    sums.nValid += other.valid;
    sums.clipLow += other.clipLow;
    sums.clipHigh += other.clipHigh;
    sums.dual += other.dual;
    sums.kl1 -= other.logRatio;
    sums.kl3 += other.kl3;
    sums.entropy -= other.logp;
    sums.maxAbsLogRatio = std::max(sums.maxAbsLogRatio, other.maxAbsLogRatio);
    if (sums.badToken < 0 && other.bad >= 0) sums.badToken = begin + other.bad;
    ratio += other.ratio;
    ratioSquared += other.ratioSquared;
  }

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

}  // namespace

template <class T>
ClipLossResult clipLoss(const ClipLossTokens<T>& in, const ClipLossOptions& options, T* gradLogp) {
  const auto form = formOf<T>(options, in.logpRef != nullptr);
  const auto scales = rowScales(in, options);
  const bool oneScale = options.aggregation != Aggregation::SeqMeanTokenMean;
  const int64_t count = in.rows * in.tokens;
  std::vector<Partial> partials((count + kBlock - 1) / kBlock);
  at::parallel_for(0, int64_t(partials.size()), 1, [&](int64_t first, int64_t last) {
    for (int64_t block = first; block < last; ++block) {
      forEachRun(in, scales, oneScale, block * kBlock, std::min((block + 1) * kBlock, count), gradLogp,
                 [&](int64_t begin, const ClipLossRun<T>& run) {
                   partials[block].add(kernelOf<T>().run(run, form), run.scale, begin);
                 });
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
