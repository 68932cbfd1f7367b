// The backbone of any nested layout: byte and role embedding, then stages, each encoder -> routing -> chunk
// -> inner stage -> dechunk -> residual -> decoder; the innermost has blocks only.
#pragma once

#include <memory>
#include <vector>

#include "native/model/block.h"
#include "native/model/chunking.h"
#include "native/model/column_attention.h"
#include "native/model/dropout.h"
#include "native/model/ngram.h"
#include "native/model/sequences.h"
#include "native/model/state.h"

namespace aegir::model {

struct ModelInput {
  at::Tensor inputIds;   // (B,T) i64
  at::Tensor roleIds;    // (B,T) i64 or undefined: role 0
  at::Tensor lengths;    // (B) i64 or undefined
  at::Tensor cuSeqlens;  // (S+1) i64 or undefined
  at::Tensor poolMask;   // (B,T) bool or undefined: all valid tokens
  const AegirState* state = nullptr;
  Dropout dropout;
  TableContext table;  // of column-wise annotation models
};

// A checked input on the model's device: what comes after it needs no value on the host until a chunking
// stage.
struct PackedInput {
  Packing packing;
  at::Tensor ids, roles;   // (K) i64; roles undefined: role 0
  at::Tensor poolWeights;  // (K) 0/1 or undefined: all
  AegirState before;
  Dropout dropout;
  TableContext table;
};

// What is computed up to the first stage's encoder (flat layouts: the first block; of a single block: the
// embedding).
struct Prefix {
  Packing packing;
  at::Tensor hidden;         // (K,D)
  at::Tensor vFirst;         // (K,D) flat layouts of several blocks
  at::Tensor poolWeights;    // (K) 0/1 or undefined: all
  at::Tensor routingHidden;  // (S,D)
  AegirState before, after;  // `after` is filled as far as the prefix goes
  Dropout dropout;
  TableContext table;

  // Throws ERR_ARGUMENT where there is a table context: a target's row is more than one sequence.
  Prefix selectRows(const at::Tensor& rows) const;
};

struct BackboneOutput {
  at::Tensor hidden;  // (K,D), normalised
  AegirState after;
  at::Tensor ratioLoss;  // scalar
  std::vector<double> boundaryRates;
};

class Stage : public torch::nn::Module {
 public:
  Stage(const InitContext& context, const StageConfig& config, bool innermost, int64_t outerWidth);

  // (J, outer width) -> (J, D): a learned vector fills the added channels.
  at::Tensor widen(const at::Tensor& x) const;

  std::shared_ptr<Isotropic> encoder;
  // Absent in the innermost stage:
  std::shared_ptr<RoutingModule> routing;
  std::shared_ptr<Isotropic> decoder;
  at::Tensor residual;  // (D,D), starts at zero
  double downsample;

 private:
  at::Tensor padding_;  // (D - outer width) or undefined
};

class Backbone : public torch::nn::Module {
 public:
  Backbone(const InitContext& context, std::shared_ptr<const BackboneConfig> config);

  const std::shared_ptr<const BackboneConfig>& config() const { return config_; }
  // Throws ERR_SHAPE, ERR_DTYPE or ERR_ARGUMENT naming the input; its state and layout are left to pack().
  void checkInput(const ModelInput& input) const;
  // Throws as checkInput, and ERR_NON_FINITE.
  PackedInput pack(const ModelInput& input) const;
  Prefix prefix(const PackedInput& input);
  // The embedding (K,D) alone; `after` gets the n-grams' history.
  at::Tensor embed(const PackedInput& input, AegirState& after) const;
  // Flat layouts: the output from the last block's residual stream h (K,D).
  BackboneOutput finish(const at::Tensor& h, AegirState after) const;
  // innerKv: in place of the state's, for stages that the prefix leaves out.
  BackboneOutput rest(const Prefix& prefix, const std::vector<StageKv>& innerKv);

 private:
  struct Run {
    const AegirState& before;
    BackboneOutput& output;
  };
  // From the encoder's output h (K,D) of stage i to that stage's output.
  at::Tensor finishStage(size_t i, const at::Tensor& h, const Sequences& sequences, const Run& run);
  // The inner stage i on chunks x (J, outer width) -> (J, outer width).
  at::Tensor innerStage(size_t i, const at::Tensor& x, const Sequences& sequences, const Run& run);
  at::Device device() const { return byteEmbedding_->device(); }
  bool flat() const { return stages_.size() == 1; }
  // Blocks of a flat layout that belong to the prefix.
  size_t prefixBlocks() const { return firstInnerLayer(*config_); }

  std::shared_ptr<const BackboneConfig> config_;
  std::shared_ptr<Embedding> byteEmbedding_, roleEmbedding_;
  std::shared_ptr<NgramEmbedding> ngramEmbedding_;  // or null
  std::vector<std::shared_ptr<Stage>> stages_;
};

}  // namespace aegir::model
