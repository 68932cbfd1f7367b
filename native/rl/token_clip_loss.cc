#include "native/rl/token_clip_loss.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>

#include <cmath>
#include <string>
#include <utility>

#include "native/core/dtype.h"
#include "native/core/error.h"
#include "native/rl/known_gradient.h"

namespace aegir::rl {
namespace {

using kernels::ClipLossOptions;
using kernels::ClipLossResult;
using kernels::ClipLossTensors;

void checkFloating(const at::Tensor& tensor, const char* name) {
  const auto type = tensor.scalar_type();
  check(type == at::kFloat || type == at::kDouble || type == at::kBFloat16, ErrorCode::Dtype, name,
        ": expected f32, f64 or bf16, got ", dtypeName(type));
}

void checkLikeLogp(const at::Tensor& tensor, const char* name, const at::Tensor& logp) {
  check(tensor.sizes() == logp.sizes(), ErrorCode::Shape, name, ": expected the shape of logp ", logp.sizes(),
        ", got ", tensor.sizes());
}

void checkInput(const ClipLossTensors& in) {
  check(in.logp.dim() == 1 || in.logp.dim() == 2, ErrorCode::Shape, "logp: expected (B,T) or (R), got ",
        in.logp.sizes());
  checkFloating(in.logp, "logp");
  const std::pair<const char*, const at::Tensor&> others[] = {{"logpOld", in.logpOld},
                                                              {"advantages", in.advantages},
                                                              {"weights", in.weights},
                                                              {"correction", in.correction},
                                                              {"logpRef", in.logpRef}};
  for (const auto& [name, tensor] : others) {
    if (!tensor.defined()) continue;
    checkLikeLogp(tensor, name, in.logp);
    checkFloating(tensor, name);
  }
  if (!in.mask.defined()) return;
  checkLikeLogp(in.mask, "mask", in.logp);
  check(in.mask.scalar_type() == at::kBool, ErrorCode::Dtype, "mask: expected bool, got ",
        dtypeName(in.mask.scalar_type()));
}

void checkOptions(const ClipLossOptions& o) {
  check(o.epsLow >= 0 && o.epsLow <= 1, ErrorCode::Config, "epsLow: expected a number in [0, 1], got ",
        o.epsLow);
  check(o.epsHigh >= 0, ErrorCode::Config, "epsHigh: expected at least 0, got ", o.epsHigh);
  check(!o.dualClip || *o.dualClip > 1, ErrorCode::Config, "dualClip: expected more than 1, got ",
        o.dualClip.value_or(0));
  check(o.logAlpha <= 0 && o.logBeta >= 0, ErrorCode::Config,
        "logAlpha, logBeta: expected logAlpha <= 0 <= logBeta, got ", o.logAlpha, ", ", o.logBeta);
  check(o.norm > 0, ErrorCode::Config, "norm: expected more than 0, got ", o.norm);
  check(!o.denominator || *o.denominator > 0, ErrorCode::Config, "denominator: expected more than 0, got ",
        o.denominator.value_or(0));
}

int64_t tokensPerRow(const at::Tensor& logp) { return logp.dim() == 2 ? logp.size(1) : 1; }

// `grad` (of logp's shape, dtype T) is written unless undefined.
template <class T>
ClipLossResult runKernel(const ClipLossTensors& in, const ClipLossOptions& options, at::Tensor& grad) {
  const auto type = c10::CppTypeToScalarType<T>::value;
  ClipLossTensors ready = in;
  for (at::Tensor* x :
       {&ready.logp, &ready.logpOld, &ready.advantages, &ready.weights, &ready.correction, &ready.logpRef}) {
    if (x->defined()) *x = x->detach().to(in.logp.device(), type).contiguous();
  }
  if (ready.mask.defined()) ready.mask = ready.mask.to(in.logp.device()).contiguous();
  if (!in.logp.is_cpu()) return kernels::clipLossCuda(ready, options, grad);
  const auto data = [](const at::Tensor& x) { return x.defined() ? x.const_data_ptr<T>() : nullptr; };
  kernels::ClipLossTokens<T> tokens;
  tokens.rows = in.logp.size(0);
  tokens.tokens = tokensPerRow(in.logp);
  tokens.logp = data(ready.logp);
  tokens.logpOld = data(ready.logpOld);
  tokens.advantages = data(ready.advantages);
  tokens.mask = ready.mask.defined() ? ready.mask.const_data_ptr<bool>() : nullptr;
  tokens.weights = data(ready.weights);
  tokens.correction = data(ready.correction);
  tokens.logpRef = data(ready.logpRef);
  return kernels::clipLoss<T>(tokens, options, grad.defined() ? grad.mutable_data_ptr<T>() : nullptr);
}

void checkFinite(const ClipLossResult& result, const ClipLossTensors& in) {
  const int64_t bad = result.badToken;
  check(bad >= 0 || std::isfinite(result.loss), ErrorCode::NonFinite,
        "tokenClipLoss: the sum of the losses is not finite, though each of them is: scale the advantages "
        "down");
  if (bad < 0) return;
  const int64_t width = tokensPerRow(in.logp);
  const auto value = [&](const at::Tensor& x) {
    return x.defined() ? x.detach().flatten()[bad].item<double>() : 1.0;
  };
  fail(ErrorCode::NonFinite, "tokenClipLoss: the loss of token [", bad / width, ", ", bad % width,
       "] is not finite: logp ", value(in.logp), ", logpOld ", value(in.logpOld), ", advantage ",
       value(in.advantages), ", weight ", value(in.weights), ", correction ", value(in.correction),
       in.logpRef.defined() ? ", logpRef " + std::to_string(value(in.logpRef)) : "",
       "; mask it or find where it comes from");
}

}  // namespace

TokenClipLoss tokenClipLoss(const ClipLossTensors& input, const ClipLossOptions& options) {
  checkInput(input);
  checkOptions(options);
  const auto type = accumulateType(input.logp.scalar_type());
  const auto onDevice = at::TensorOptions().dtype(type).device(input.logp.device());
  at::Tensor grad;
  if (input.logp.requires_grad()) {
    grad = at::empty(input.logp.sizes(), onDevice);
  }
  const auto result =
      type == at::kDouble ? runKernel<double>(input, options, grad) : runKernel<float>(input, options, grad);
  checkFinite(result, input);
  const auto loss = at::full({}, result.loss, onDevice);
  return {withKnownGradient(input.logp, loss, grad), result};
}

}  // namespace aegir::rl
