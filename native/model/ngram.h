// The embedding of the byte n-grams that end at each token: a hashed table, and a map to the model's width.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>

#include "native/kernels/ngram_embedding.h"
#include "native/model/config.h"
#include "native/model/init.h"
#include "native/model/layers.h"
#include "native/model/sequences.h"

namespace aegir::model {

class NgramEmbedding : public torch::nn::Module {
 public:
  NgramEmbedding(const InitContext& context, const NgramConfig& config, int64_t dModel) : form_(config.form) {
    table_ = register_parameter("weight", normal(context, {config.buckets, config.width}, 0.02));
    projection_ = register_module(
        "projection", std::make_shared<Linear>(uniform(context, {dModel, config.width},
                                                       1 / std::sqrt(static_cast<double>(config.width)))));
  }

  // residual (K,D) plus the embedding of ids (K); advances history (S,longest n-gram - 1), undefined at the
  // start of sequences.
  at::Tensor addTo(const at::Tensor& residual, const at::Tensor& ids, const Sequences& sequences,
                   const at::Tensor& before, at::Tensor& after) const {
    const kernels::NgramInput input{table_, ids, sequences.cuSeqlens, before, form_};
    if (form_.history() > 0) after = kernels::ngramHistory(input);
    return projection_->addTo(residual, kernels::ngramEmbedding(input));
  }

 private:
  kernels::NgramForm form_;
  at::Tensor table_;  // (V,W)
  std::shared_ptr<Linear> projection_;
};

}  // namespace aegir::model
