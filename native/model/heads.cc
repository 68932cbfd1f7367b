#include "native/model/heads.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/layer_norm.h>
#include <ATen/ops/rsub.h>
#include <ATen/ops/tanh.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cmath>

#include "native/core/error.h"

namespace aegir::model {

Model::Model(const InitContext& context, std::shared_ptr<const BackboneConfig> config,
             std::shared_ptr<Backbone> backbone) {
  if (backbone == nullptr) backbone = std::make_shared<Backbone>(context, std::move(config));
  backbone_ = register_module("backbone", std::move(backbone));
}

ModelOutput Model::rest(const Prefix& prefix, const RestInput& input) {
  auto backbone = backbone_->rest(prefix, input.innerKv);
  ModelOutput output{at::Tensor(),         at::Tensor(),       backbone.after,
                     prefix.routingHidden, backbone.ratioLoss, backbone.boundaryRates};
  head(backbone, prefix, input, output);
  return output;
}

ModelOutput Model::finish(const PackedInput& input, const at::Tensor& h, AegirState after) {
  const auto backbone = backbone_->finish(h, std::move(after));
  const Prefix prefix{
      input.packing, h,          at::Tensor(), input.poolWeights, at::Tensor(), input.before, backbone.after,
      input.dropout, input.table};
  ModelOutput output{at::Tensor(), at::Tensor(), backbone.after, at::Tensor(), backbone.ratioLoss, {}};
  head(backbone, prefix, {}, output);
  return output;
}

CausalLM::CausalLM(const InitContext& context, std::shared_ptr<const BackboneConfig> config)
    : Model(context, config) {
  check(!config->readsAhead(), ErrorCode::Config,
        "archLayout: a causal language model can have no reversed blocks: they would read what is to be "
        "predicted");
  const int64_t d = config->stages[0].dModel;
  head_ = register_module("head", std::make_shared<Linear>(normal(context, {config->vocabSize, d}, 0.02)));
  decoder_ = std::make_unique<const Decoder>(*this, config);
}

namespace {

void checkStepIds(const char* name, const at::Tensor& ids, int64_t rows, int64_t size) {
  check(ids.scalar_type() == at::kLong, ErrorCode::Dtype, name, ": expected i64, got ", ids.scalar_type());
  check(ids.dim() == 1 && ids.size(0) == rows && rows > 0, ErrorCode::Shape, name,
        ": expected (B) ids, one a sequence, got ", ids.sizes());
  const auto values = ids.accessor<int64_t, 1>();
  for (int64_t b = 0; b < rows; ++b) {
    check(values[b] >= 0 && values[b] < size, ErrorCode::Argument, name, ": every id must lie in 0..",
          size - 1, "; got ", values[b]);
  }
}

}  // namespace

at::Tensor CausalLM::advance(const StepInput& input, AegirState& state) {
  const StepInput given{input.ids.cpu(), input.roles.defined() ? input.roles.cpu() : input.roles};
  const int64_t rows = given.ids.dim() == 1 ? given.ids.size(0) : 0;
  checkStepIds("inputIds", given.ids, rows, config()->vocabSize);
  if (given.roles.defined()) checkStepIds("roleIds", given.roles, rows, config()->numRoles);
  if (!decodes(state)) {
    ModelInput whole;
    whole.inputIds = given.ids.unsqueeze(1);
    if (given.roles.defined()) whole.roleIds = given.roles.unsqueeze(1);
    whole.state = &state;
    auto output = forward(whole);
    state = output.state;
    return output.logits.squeeze(1);
  }
  state.checkGeometry(*config(), "state");
  const int64_t sequences = state.stages[0].encoder[0].attKv.size(0);
  check(sequences == rows, ErrorCode::Shape, "state: is of ", sequences, " sequences, the input has ", rows);
  return decoder_->step(given.ids, given.roles, state);
}

void CausalLM::head(const BackboneOutput& backbone, const Prefix& prefix, const RestInput& input,
                    ModelOutput& output) {
  check(!input.headResidual.defined(), ErrorCode::Argument,
        "headResidual: a causal language model takes none");
  check(!input.logitResidual.defined() && !input.logitScale.defined(), ErrorCode::Argument,
        "logitResidual, logitScale: a causal language model takes none");
  output.logits = prefix.packing.unpack(head_->forward(backbone.hidden));
}

namespace {

double inverseRoot(int64_t n) { return 1 / std::sqrt(static_cast<double>(n)); }

at::Tensor withResidual(const at::Tensor& value, const at::Tensor& residual, const char* name) {
  if (!residual.defined()) return value;
  check(residual.sizes() == value.sizes(), ErrorCode::Shape, name, ": expected ", value.sizes(), ", got ",
        residual.sizes());
  return value + residual.to(value.device());
}

at::Tensor scaled(const at::Tensor& logits, const at::Tensor& scale) {
  if (!scale.defined()) return logits;
  check(scale.dim() == 2 && scale.size(0) == logits.size(0) && scale.size(1) == 1, ErrorCode::Shape,
        "logitScale: expected (", logits.size(0), ",1), got ", scale.sizes());
  return logits * scale.to(logits.device());
}

}  // namespace

ColumnAnnotation::ColumnAnnotation(const InitContext& context, std::shared_ptr<const BackboneConfig> config,
                                   const HeadConfig& head, std::shared_ptr<Backbone> backbone)
    : Model(context, config, std::move(backbone)), pooling_(head.pooling), poolNorm_(head.poolNorm) {
  const int64_t d = config->stages[0].dModel, in = d * static_cast<int64_t>(pooling_.size());
  const auto labelHead = [&](const char* name) {
    return register_module(name, std::make_shared<LabelHead>(context, d, head.numLabels, head.factors));
  };
  pooler_ = register_module("pooler", std::make_shared<Linear>(uniform(context, {d, in}, inverseRoot(in)),
                                                               constant(context, {d}, 0)));
  classifier_ = labelHead("classifier");
  if (head.columnHeads == 0) return;
  attention_ = register_module(
      "columns", std::make_shared<ColumnAttention>(context, d, head.columnHeads, head.columnPositions));
  ownClassifier_ = labelHead("ownClassifier");
}

LabelHead::LabelHead(const InitContext& context, int64_t dModel, int64_t numLabels,
                     const std::vector<std::vector<int64_t>>& factors) {
  weight_ = register_parameter("weight", uniform(context, {numLabels, dModel}, inverseRoot(dModel)));
  bias_ = register_parameter("bias", constant(context, {numLabels}, 0));
  if (factors.empty()) return;
  check(static_cast<int64_t>(factors.size()) == numLabels, ErrorCode::Config, "labelFactors: expected ",
        numLabels, " lists, one a label, got ", factors.size());
  int64_t count = 0;
  for (const auto& own : factors)
    for (const int64_t factor : own) count = std::max(count, factor + 1);
  factors_ = register_module(
      "factors", std::make_shared<Linear>(uniform(context, {count, dModel}, inverseRoot(dModel))));
  membership_ = constant(context, {numLabels, count}, 0);
  for (int64_t label = 0; label < numLabels; ++label)
    for (const int64_t factor : factors[static_cast<size_t>(label)]) membership_[label][factor] = 1;
}

at::Tensor LabelHead::forward(const at::Tensor& x) const {
  const auto logits = kernels::linear(x, weight_, bias_);
  if (!factors_) return logits;
  return kernels::linear(factors_->forward(x), membership_.to(x.device()), logits);
}

// (S,D)
at::Tensor ColumnAnnotation::summary(const at::Tensor& hidden, const Prefix& prefix, Pooling pooling) const {
  const auto& sequences = prefix.packing.sequences;
  const auto& weights = prefix.poolWeights;
  if (pooling == Pooling::Mean) return sequenceMean(hidden, weights, sequences);
  if (pooling == Pooling::Max) return sequenceMax(hidden, weights, sequences);
  if (!weights.defined()) return at::zeros({sequences.count, hidden.size(1)}, hidden.options());
  return sequenceMean(hidden, 1 - weights, sequences);
}

void ColumnAnnotation::head(const BackboneOutput& backbone, const Prefix& prefix, const RestInput& input,
                            ModelOutput& output) {
  std::vector<at::Tensor> summaries;
  for (const auto pooling : pooling_) {
    const auto own = summary(backbone.hidden, prefix, pooling);
    summaries.push_back(poolNorm_ ? at::layer_norm(own, {own.size(1)}) : own);
  }
  output.pooled = at::tanh(pooler_->forward(summaries.size() == 1 ? summaries[0] : at::cat(summaries, 1)));
  if (attention_) {
    const auto& table = prefix.table;
    const auto columns = prefix.dropout(output.pooled, /*stream=*/2);
    const auto own = table.targets.defined() ? columns.index_select(0, table.targets) : columns;
    output.ownLogits = ownClassifier_->forward(own);
    output.pooled = attention_->forward(columns, table);
  } else {
    check(!prefix.table.defined(), ErrorCode::Argument,
          "targets: of a model with column attention alone (option columns)");
  }
  const auto embedding = withResidual(output.pooled, input.headResidual, "headResidual");
  const auto logits = classifier_->forward(prefix.dropout(embedding, /*stream=*/1));
  output.logits = withResidual(scaled(logits, input.logitScale), input.logitResidual, "logitResidual");
}

}  // namespace aegir::model
