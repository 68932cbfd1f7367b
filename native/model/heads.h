// Whole models: a backbone with a head.
#pragma once

#include "native/model/backbone.h"

namespace aegir::model {

struct ModelOutput {
  at::Tensor logits;  // annotation (S,C); causal LM (B,T,V)
  at::Tensor pooled;  // annotation (S,D), after the tanh pooler, without headResidual
  AegirState state;
  at::Tensor routingHidden;  // (S,D)
  at::Tensor ratioLoss;
  std::vector<double> boundaryRates;
};

struct RestInput {
  std::vector<StageKv> innerKv;
  at::Tensor headResidual;  // (S,D) or undefined
};

class Model : public torch::nn::Module {
 public:
  void checkInput(const ModelInput& input) const { backbone_->checkInput(input); }
  PackedInput pack(const ModelInput& input) const { return backbone_->pack(input); }
  Prefix prefix(const PackedInput& input) { return backbone_->prefix(input); }
  Prefix prefix(const ModelInput& input) { return prefix(pack(input)); }
  ModelOutput rest(const Prefix& prefix, const RestInput& input = {});
  ModelOutput forward(const ModelInput& input) { return rest(prefix(input)); }
  const std::shared_ptr<const BackboneConfig>& config() const { return backbone_->config(); }

 protected:
  explicit Model(const InitContext& context, std::shared_ptr<const BackboneConfig> config);
  virtual void head(const BackboneOutput& backbone, const Prefix& prefix, const at::Tensor& headResidual,
                    ModelOutput& output) = 0;

 private:
  std::shared_ptr<Backbone> backbone_;
};

// Next-byte prediction: logits of every position.
class CausalLM : public Model {
 public:
  CausalLM(const InitContext& context, std::shared_ptr<const BackboneConfig> config);

 protected:
  void head(const BackboneOutput& backbone, const Prefix& prefix, const at::Tensor& headResidual,
            ModelOutput& output) override;

 private:
  std::shared_ptr<Linear> head_;
};

// What an annotation head reads of a sequence: mean or maximum over the tokens of poolMask, mean over the
// others.
enum class Pooling { Mean, Max, Context };

// One label a sequence: summaries side by side -> tanh pooler -> (+ headResidual) -> classifier.
class ColumnAnnotation : public Model {
 public:
  ColumnAnnotation(const InitContext& context, std::shared_ptr<const BackboneConfig> config,
                   int64_t numLabels, std::vector<Pooling> pooling = {Pooling::Mean});

 protected:
  void head(const BackboneOutput& backbone, const Prefix& prefix, const at::Tensor& headResidual,
            ModelOutput& output) override;

 private:
  at::Tensor summary(const at::Tensor& hidden, const Prefix& prefix, Pooling pooling) const;

  std::vector<Pooling> pooling_;
  std::shared_ptr<Linear> pooler_, classifier_;
};

}  // namespace aegir::model
