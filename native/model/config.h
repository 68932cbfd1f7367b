// Geometry of a model, as checked in TypeScript (lib/model/config.ts).
#pragma once

#include <c10/core/ScalarType.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "native/kernels/ngram_hash.h"

namespace aegir::model {

// The two schemes of initial values: the RWKV-7 paper's (outputs zero, for pretraining) and one with small
// non-zero outputs, which learns labels several times faster.
enum class InitScheme { Rwkv, Annotation };

struct BlockSpec {
  bool swiGlu = false;  // code "W"; else "w", the RWKV-7 channel mix
  int64_t dIntermediate = 0;
  bool reversed = false;  // runs over each sequence from its end to its start
};

struct LoraRanks {
  int64_t decay = 0, a = 0, v = 0, gate = 0;
};

struct StageConfig {
  int64_t dModel = 0;
  int64_t headSize = 0;
  LoraRanks ranks;
  std::vector<BlockSpec> encoder;
  // Of stages around an inner one:
  std::vector<BlockSpec> decoder;
  double downsample = 0;
};

// Hashed byte n-gram embeddings; without sizes there are none.
struct NgramConfig {
  kernels::NgramForm form;
  int64_t buckets = 0;
  int64_t width = 0;

  int64_t history() const { return form.history(); }  // ids that a state carries
};

struct BackboneConfig {
  std::vector<StageConfig> stages;  // outermost first
  int64_t vocabSize = 0;
  int64_t numRoles = 0;
  NgramConfig ngrams;
  InitScheme init = InitScheme::Annotation;
  c10::ScalarType dtype = c10::ScalarType::Float;
  c10::ScalarType products = c10::ScalarType::Float;  // of the matrix products inside blocks: dtype or bf16

  // Whether some block reads what comes after a token: then no state can continue the sequences.
  bool readsAhead() const {
    const auto any = [](const std::vector<BlockSpec>& blocks) {
      return std::any_of(blocks.begin(), blocks.end(), [](const BlockSpec& block) { return block.reversed; });
    };
    return std::any_of(stages.begin(), stages.end(),
                       [&](const StageConfig& stage) { return any(stage.encoder) || any(stage.decoder); });
  }
};

}  // namespace aegir::model
