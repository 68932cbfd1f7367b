#include "native/model/heads.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/tanh.h>

#include <cmath>

#include "native/core/error.h"

namespace aegir::model {

Model::Model(const InitContext& context, std::shared_ptr<const BackboneConfig> config) {
  backbone_ = register_module("backbone", std::make_shared<Backbone>(context, std::move(config)));
}

ModelOutput Model::rest(const Prefix& prefix, const RestInput& input) {
  auto backbone = backbone_->rest(prefix, input.innerKv);
  ModelOutput output{at::Tensor(),         at::Tensor(),       backbone.after,
                     prefix.routingHidden, backbone.ratioLoss, backbone.boundaryRates};
  head(backbone, prefix, input.headResidual, output);
  return output;
}

CausalLM::CausalLM(const InitContext& context, std::shared_ptr<const BackboneConfig> config)
    : Model(context, config) {
  const int64_t d = config->stages[0].dModel;
  head_ = register_module("head", std::make_shared<Linear>(normal(context, {config->vocabSize, d}, 0.02)));
}

void CausalLM::head(const BackboneOutput& backbone, const Prefix& prefix, const at::Tensor& headResidual,
                    ModelOutput& output) {
  check(!headResidual.defined(), ErrorCode::Argument, "headResidual: a causal language model takes none");
  output.logits = prefix.packing.unpack(head_->forward(backbone.hidden));
}

ColumnAnnotation::ColumnAnnotation(const InitContext& context, std::shared_ptr<const BackboneConfig> config,
                                   int64_t numLabels, Pooling pooling)
    : Model(context, config), pooling_(pooling) {
  const int64_t d = config->stages[0].dModel;
  const auto linear = [&](int64_t in, int64_t out) {
    return std::make_shared<Linear>(uniform(context, {out, in}, 1 / std::sqrt(static_cast<double>(in))),
                                    constant(context, {out}, 0));
  };
  pooler_ = register_module("pooler", linear(pooling == Pooling::Mean ? d : 2 * d, d));
  classifier_ = register_module("classifier", linear(d, numLabels));
}

void ColumnAnnotation::head(const BackboneOutput& backbone, const Prefix& prefix,
                            const at::Tensor& headResidual, ModelOutput& output) {
  const auto& sequences = prefix.packing.sequences;
  auto summary = sequenceMean(backbone.hidden, prefix.poolWeights, sequences);
  if (pooling_ == Pooling::MeanMax) {
    summary = at::cat({summary, sequenceMax(backbone.hidden, prefix.poolWeights, sequences)}, 1);
  }
  output.pooled = at::tanh(pooler_->forward(summary));
  auto embedding = output.pooled;
  if (headResidual.defined()) {
    check(headResidual.sizes() == embedding.sizes(), ErrorCode::Shape, "headResidual: expected ",
          embedding.sizes(), ", got ", headResidual.sizes());
    embedding = embedding + headResidual;
  }
  output.logits = classifier_->forward(prefix.dropout(embedding, /*stream=*/1));
}

}  // namespace aegir::model
