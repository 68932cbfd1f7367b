#include "native/model/cross_entropy.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/gather.h>
#include <ATen/ops/log_softmax.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>

#include "native/core/error.h"
#include "native/core/transfer.h"

namespace aegir::model {

namespace {

void checkInput(const at::Tensor& logits, const at::Tensor& labels, double labelSmoothing,
                const at::Tensor& weights) {
  check(logits.dim() >= 2 && logits.numel() > 0, ErrorCode::Shape, "logits: expected (R,C) or (B,T,C), got ",
        logits.sizes());
  check(at::isFloatingType(logits.scalar_type()), ErrorCode::Dtype, "logits: expected floating point, got ",
        logits.scalar_type());
  check(labels.sizes() == logits.sizes().slice(0, logits.dim() - 1), ErrorCode::Shape, "labels: expected ",
        logits.sizes().slice(0, logits.dim() - 1), ", the rows of logits, got ", labels.sizes());
  check(labels.scalar_type() == at::kLong, ErrorCode::Dtype, "labels: expected i64, got ",
        labels.scalar_type());
  const int64_t classes = logits.size(-1);
  const auto allowed = (labels == kIgnoredLabel).logical_or((labels >= 0).logical_and(labels < classes));
  check(allowed.all().item<bool>(), ErrorCode::Argument, "labels: every label must lie in 0..", classes - 1,
        " or be -100; got ", labels.min().item<int64_t>(), " to ", labels.max().item<int64_t>());
  check(labelSmoothing >= 0 && labelSmoothing < 1, ErrorCode::Argument,
        "labelSmoothing: expected 0 <= s < 1, got ", labelSmoothing);
  check(!weights.defined() || weights.numel() == labels.numel(), ErrorCode::Shape, "weights: expected ",
        labels.numel(), " values, one per row, got ", weights.defined() ? weights.numel() : 0);
}

}  // namespace

at::Tensor softCrossEntropy(const at::Tensor& logits, const at::Tensor& targets) {
  check(logits.dim() == 2 && logits.numel() > 0 && targets.sizes() == logits.sizes(), ErrorCode::Shape,
        "targets: expected the shape of logits, (R,C), got ", targets.sizes(), " for ", logits.sizes());
  const auto q = queuedTo(targets, logits.device()).to(logits.scalar_type());
  return -(q * at::log_softmax(logits, -1)).sum(1).mean();
}

std::tuple<at::Tensor, at::Tensor> crossEntropy(const at::Tensor& logits, const at::Tensor& labels,
                                                double labelSmoothing, const at::Tensor& weights) {
  checkInput(logits, labels, labelSmoothing, weights);
  const int64_t classes = logits.size(-1);
  const auto target = queuedTo(labels.reshape({-1}), logits.device());
  const auto counted = target != kIgnoredLabel;
  const auto zero = at::zeros({}, logits.options().requires_grad(false));
  // Selected, not multiplied: NaN in a row that is left out reaches neither the loss nor a gradient.
  const auto rows = at::where(counted.unsqueeze(1), logits.reshape({-1, classes}), zero);
  const auto logp = at::log_softmax(rows, -1);
  const auto picked = at::gather(logp, 1, target.clamp_min(0).unsqueeze(1)).squeeze(1);
  auto loss = picked.neg();
  if (labelSmoothing > 0) loss = loss * (1 - labelSmoothing) - logp.mean(-1) * labelSmoothing;

  auto rowWeights = counted.to(logp.scalar_type());
  if (weights.defined()) rowWeights = at::where(counted, weights.reshape({-1}).to(logp.options()), zero);
  const auto total = rowWeights.sum();
  const auto mean = (loss * rowWeights).sum() / at::where(total == 0, zero + 1, total);
  return {mean, at::where(counted, picked.detach(), zero).view(labels.sizes())};
}

}  // namespace aegir::model
