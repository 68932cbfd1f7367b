// Cross-entropy of classes with label smoothing.
#pragma once

#include <ATen/core/Tensor.h>

#include <tuple>

namespace aegir::model {

constexpr int64_t kIgnoredLabel = -100;

// Cross-entropy against distributions: mean over the rows of -sum_c q_c log p(c); logits and q (R,C), q
// without a gradient. Throws ERR_SHAPE.
at::Tensor softCrossEntropy(const at::Tensor& logits, const at::Tensor& targets);

// logits (R,C) or (B,T,C); labels (R) or (B,T) i64 in 0..C-1, or -100: the row is left out, whatever its
// logits hold; weights of the rows, labels' shape, or undefined: 1. Row loss: -(1-s) log p(label) - s mean_c
// log p(c). Returns the weighted mean (0 where no row counts) and log p(label) per row without a graph, 0
// where left out. Throws ERR_SHAPE, ERR_DTYPE or ERR_ARGUMENT.
std::tuple<at::Tensor, at::Tensor> crossEntropy(const at::Tensor& logits, const at::Tensor& labels,
                                                double labelSmoothing, const at::Tensor& weights);

}  // namespace aegir::model
