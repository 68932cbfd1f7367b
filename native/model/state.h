// The recurrent state of a backbone. A tensor that is undefined stands for the start of a sequence.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "native/model/config.h"

namespace aegir::model {

struct BlockState {
  at::Tensor attXPrev;  // (S,D)
  at::Tensor attKv;     // (S,H,N,N) value rows x key columns
  at::Tensor ffnXPrev;  // (S,D); undefined in SwiGLU blocks
};

struct StageState {
  std::vector<BlockState> encoder, decoder;
  // Of stages around an inner one:
  at::Tensor lastHidden;  // (S,D), the routing module's last input
  at::Tensor lastValue;   // (S,D), the dechunk layer's last output
};

using NamedTensors = std::vector<std::pair<std::string, at::Tensor>>;

class AegirState {
 public:
  // The start of every sequence: all tensors undefined.
  explicit AegirState(std::shared_ptr<const BackboneConfig> config);

  // A state of S sequences from named tensors, all of them; throws ERR_CHECKPOINT naming the tensor.
  static AegirState fromTensors(std::shared_ptr<const BackboneConfig> config, const NamedTensors& tensors);

  // "stage0.encoder.0.attKv", "stage0.routing.lastHidden", "stage0.dechunk.lastValue", …: those that are
  // defined.
  NamedTensors tensors() const;

  // Layers of a stage before its routing, of the innermost all: those whose states a swarm exchanges. The
  // first block of a flat layout of several belongs to the prefix and is left out.
  std::vector<BlockState> innerLayers(int64_t stage) const;
  int64_t innermost() const { return static_cast<int64_t>(stages.size()) - 1; }

  // The states of the chosen sequences, repeats allowed.
  AegirState to(at::Device device) const;
  AegirState selectRows(const at::Tensor& rows) const;
  // Copies of the first `count` sequences' states.
  AegirState firstRows(int64_t count) const;

  // The same values in tensors of their own, contiguous and without a graph.
  AegirState copy() const;
  // Whether every tensor is there and lies contiguous on the CPU.
  bool begunOnCpu() const;

  // Throws ERR_SHAPE naming `what` where the state is of another geometry.
  void checkGeometry(const BackboneConfig& config, const char* what) const;
  // Throws ERR_SHAPE where the state is not one of this geometry and `sequences` sequences, ERR_NON_FINITE
  // where it holds NaN or infinity; what lies on a GPU is not looked at.
  void validate(const BackboneConfig& config, int64_t sequences) const;

  std::vector<StageState> stages;  // outermost first
  at::Tensor ngramHistory;         // (S,longest n-gram - 1) i64, of models with n-gram embeddings

 private:
  struct Slot {
    std::string name;
    at::Tensor* tensor;
    std::vector<int64_t> shape;  // without the leading S
    at::ScalarType type;
  };
  std::vector<Slot> slots();

  std::shared_ptr<const BackboneConfig> config_;
};

// attKv (S,H,N,N) per layer of AegirState::innerLayers(stage).
struct StageKv {
  int64_t stage = 0;
  std::vector<at::Tensor> layers;
};

size_t firstInnerLayer(const BackboneConfig& config);

}  // namespace aegir::model
