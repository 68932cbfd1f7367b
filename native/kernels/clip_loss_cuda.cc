// The clipped token loss through the CUDA plug-in.
#include <ATen/ops/empty.h>

#include <cmath>

#include "native/cuda/loader.h"
#include "native/kernels/clip_loss.h"

namespace aegir::kernels {
namespace {

cuda::ClipLossForm formOf(const ClipLossOptions& o) {
  return {o.kind == ClipKind::K25,
          o.maskPenalty,
          static_cast<int32_t>(o.klForm),
          static_cast<int32_t>(o.aggregation),
          o.epsLow,
          o.epsHigh,
          o.dualClip.value_or(0),
          o.logAlpha,
          o.logBeta,
          o.tau,
          o.klCoef,
          o.norm,
          o.denominator.value_or(0)};
}

// The numbers that the host reads: one wait.
ClipLossResult resultOf(const at::Tensor& onDevice) {
  const at::Tensor sums = onDevice.cpu();
  const double* of = sums.const_data_ptr<double>();
  const auto count = [of](cuda::ClipLossSum sum) { return static_cast<int64_t>(of[sum]); };
  ClipLossResult result;
  result.loss = of[cuda::clipLoss];
  result.nValid = count(cuda::clipValid);
  result.clipLow = count(cuda::clipLow);
  result.clipHigh = count(cuda::clipHigh);
  result.dual = count(cuda::clipDual);
  result.maxAbsLogRatio = of[cuda::clipMaxLogRatio];
  result.badToken = std::isfinite(of[cuda::clipBadToken]) ? count(cuda::clipBadToken) : -1;
  if (result.nValid == 0) return result;
  const double valid = of[cuda::clipValid];
  result.kl1 = of[cuda::clipKl1] / valid;
  result.kl3 = of[cuda::clipKl3] / valid;
  result.entropy = of[cuda::clipEntropy] / valid;
  result.ess = of[cuda::clipRatio] * of[cuda::clipRatio] / of[cuda::clipRatioSquared];
  return result;
}

}  // namespace

ClipLossResult clipLossCuda(const ClipLossTensors& in, const ClipLossOptions& options,
                            const at::Tensor& gradLogp) {
  const at::Tensor& logp = in.logp;
  const int64_t rows = logp.size(0), tokens = logp.dim() == 2 ? logp.size(1) : 1;
  const auto room = [&](at::IntArrayRef shape) {
    return at::empty(shape, logp.options().dtype(at::kDouble));
  };
  const int64_t blocks = (rows * tokens + cuda::clipLossBlock - 1) / cuda::clipLossBlock;
  const at::Tensor rowSums = room({rows, 2}), scales = room({rows}),
                   partials = room({blocks, cuda::clipLossSums}), sums = room({cuda::clipLossSums});
  const auto data = [](const at::Tensor& x) { return x.defined() ? x.const_data_ptr() : nullptr; };
  cuda::launch(
      &cuda::Table::clipLoss, logp,
      {rows, tokens, logp.scalar_type() == at::kDouble, formOf(options), data(logp), data(in.logpOld),
       data(in.advantages), in.mask.defined() ? in.mask.const_data_ptr<bool>() : nullptr, data(in.weights),
       data(in.correction), data(in.logpRef), gradLogp.defined() ? gradLogp.mutable_data_ptr() : nullptr,
       rowSums.mutable_data_ptr<double>(), scales.mutable_data_ptr<double>(),
       partials.mutable_data_ptr<double>(), sums.mutable_data_ptr<double>()});
  return resultOf(sums);
}

}  // namespace aegir::kernels
