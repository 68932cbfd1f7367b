// Whole models: a backbone with a head.
#pragma once

#include "native/model/backbone.h"
#include "native/model/decode.h"

namespace aegir::model {

// R rows: the targets of a column-wise annotation model, else the sequences.
struct ModelOutput {
  at::Tensor logits;  // annotation (R,C); causal LM (B,T,V)
  at::Tensor pooled;  // annotation (R,D), after the last tanh, without headResidual
  AegirState state;
  at::Tensor routingHidden;  // (S,D)
  at::Tensor ratioLoss;
  std::vector<double> boundaryRates;
  at::Tensor ownLogits = {};  // column-wise annotation (R,C): from the target columns alone
};

struct RestInput {
  std::vector<StageKv> innerKv;
  at::Tensor headResidual = {};   // (R,D) or undefined
  at::Tensor logitResidual = {};  // (R,C) or undefined
  at::Tensor logitScale = {};     // (R,1) or undefined
};

class Model : public torch::nn::Module {
 public:
  void checkInput(const ModelInput& input) const { backbone_->checkInput(input); }
  PackedInput pack(const ModelInput& input) const { return backbone_->pack(input); }
  Prefix prefix(const PackedInput& input) { return backbone_->prefix(input); }
  Prefix prefix(const ModelInput& input) { return prefix(pack(input)); }
  ModelOutput rest(const Prefix& prefix, const RestInput& input = {});
  ModelOutput forward(const ModelInput& input) { return rest(prefix(input)); }
  // What lies before and after the blocks of a flat layout, for those that run them otherwise
  // (grouped_blocks.h): h (K,D) embedded, and the output from h (K,D) after the last block.
  at::Tensor embed(const PackedInput& input, AegirState& after) const {
    return backbone_->embed(input, after);
  }
  ModelOutput finish(const PackedInput& input, const at::Tensor& h, AegirState after);
  const std::shared_ptr<const BackboneConfig>& config() const { return backbone_->config(); }
  const std::shared_ptr<Backbone>& backbone() const { return backbone_; }

 protected:
  // With `backbone` of the same config: two models share it, each with a head of its own.
  Model(const InitContext& context, std::shared_ptr<const BackboneConfig> config,
        std::shared_ptr<Backbone> backbone = nullptr);
  virtual void head(const BackboneOutput& backbone, const Prefix& prefix, const RestInput& input,
                    ModelOutput& output) = 0;

 private:
  std::shared_ptr<Backbone> backbone_;
};

// One token for each of B sequences.
struct StepInput {
  at::Tensor ids;    // (B) i64
  at::Tensor roles;  // (B) i64 or undefined: role 0
};

// Next-byte prediction: logits of every position.
class CausalLM : public Model {
 public:
  CausalLM(const InitContext& context, std::shared_ptr<const BackboneConfig> config);

  // The logits (B,V) after one more token, without a graph; `state` is advanced, in place where the decoder
  // serves: it must be a copy that no one else holds, or the start of sequences. The same as forward of (B,1)
  // tokens to rounding. Throws ERR_SHAPE, ERR_DTYPE, ERR_ARGUMENT or ERR_NON_FINITE naming the input.
  at::Tensor advance(const StepInput& input, AegirState& state);
  // Whether the decoder serves from here on.
  bool decodes(const AegirState& state) const { return decoder_->serves(state); }

 protected:
  void head(const BackboneOutput& backbone, const Prefix& prefix, const RestInput& input,
            ModelOutput& output) override;

 private:
  std::shared_ptr<Linear> head_;
  std::unique_ptr<const Decoder> decoder_;
};

// What an annotation head reads of a sequence: mean or maximum over the tokens of poolMask, mean over the
// others.
enum class Pooling { Mean, Max, Context };

// Embedding (R,D) -> logits (R,C): W x + b, and with factors W x + b + A F x, the rows of F being factors
// that labels share (Book and name of Book/name) and A (C,F) saying which label has which.
class LabelHead : public torch::nn::Module {
 public:
  // factors: (C) lists of each label's factors, or none.
  LabelHead(const InitContext& context, int64_t dModel, int64_t numLabels,
            const std::vector<std::vector<int64_t>>& factors);
  at::Tensor forward(const at::Tensor& x) const;

 private:
  at::Tensor weight_, bias_;
  std::shared_ptr<Linear> factors_;  // F, or null
  at::Tensor membership_;            // A, no parameter
};

struct HeadConfig {
  int64_t numLabels = 0;
  std::vector<Pooling> pooling{Pooling::Mean};
  std::vector<std::vector<int64_t>> factors;
  // Column-wise: heads of the attention over a table's columns, and learned positions; 0 heads: none.
  int64_t columnHeads = 0, columnPositions = 0;
  // Each summary is brought to mean 0 and variance 1 over its channels.
  bool poolNorm = false;
};

// One label a sequence: summaries (normalised) side by side -> tanh pooler -> (+ headResidual) -> classifier
// (x logitScale + logitResidual). Column-wise, one label a target: the pooler's output is the column's
// embedding, and attention over the table's other columns stands before the classifier; an own-column head
// reads the target's embedding alone.
class ColumnAnnotation : public Model {
 public:
  ColumnAnnotation(const InitContext& context, std::shared_ptr<const BackboneConfig> config,
                   const HeadConfig& head, std::shared_ptr<Backbone> backbone = nullptr);

 protected:
  void head(const BackboneOutput& backbone, const Prefix& prefix, const RestInput& input,
            ModelOutput& output) override;

 private:
  at::Tensor summary(const at::Tensor& hidden, const Prefix& prefix, Pooling pooling) const;

  std::vector<Pooling> pooling_;
  std::shared_ptr<Linear> pooler_;
  std::shared_ptr<LabelHead> classifier_, ownClassifier_;
  std::shared_ptr<ColumnAttention> attention_;  // or null
  bool poolNorm_;
};

}  // namespace aegir::model
