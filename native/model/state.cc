#include "native/model/state.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/clone.h>
#include <ATen/ops/index_select.h>
#include <ATen/ops/isfinite.h>

#include <unordered_map>

#include "native/core/error.h"
#include "native/core/transfer.h"
#include "native/model/sequences.h"

namespace aegir::model {

AegirState::AegirState(std::shared_ptr<const BackboneConfig> config) : config_(std::move(config)) {
  for (const auto& stage : config_->stages) {
    StageState state;
    state.encoder.resize(stage.encoder.size());
    state.decoder.resize(stage.decoder.size());
    stages.push_back(std::move(state));
  }
}

std::vector<AegirState::Slot> AegirState::slots() {
  std::vector<Slot> result;
  const at::ScalarType type = config_->dtype;
  if (config_->ngrams.history() > 0) {
    result.push_back({"embedding.ngramHistory", &ngramHistory, {config_->ngrams.history()}, at::kLong});
  }
  for (size_t i = 0; i < stages.size(); ++i) {
    const auto& geometry = config_->stages[i];
    const std::string prefix = "stage" + std::to_string(i) + ".";
    const int64_t d = geometry.dModel, n = geometry.headSize;
    const auto addStack = [&](const char* stack, const std::vector<BlockSpec>& specs,
                              std::vector<BlockState>& blocks) {
      for (size_t j = 0; j < blocks.size(); ++j) {
        const std::string block = prefix + stack + "." + std::to_string(j) + ".";
        result.push_back({block + "attXPrev", &blocks[j].attXPrev, {d}, type});
        result.push_back({block + "attKv", &blocks[j].attKv, {d / n, n, n}, type});
        if (!specs[j].swiGlu) result.push_back({block + "ffnXPrev", &blocks[j].ffnXPrev, {d}, type});
      }
    };
    addStack("encoder", geometry.encoder, stages[i].encoder);
    if (i + 1 == stages.size()) continue;
    result.push_back({prefix + "routing.lastHidden", &stages[i].lastHidden, {d}, type});
    result.push_back({prefix + "dechunk.lastValue", &stages[i].lastValue, {d}, type});
    addStack("decoder", geometry.decoder, stages[i].decoder);
  }
  return result;
}

NamedTensors AegirState::tensors() const {
  NamedTensors result;
  AegirState handles = *this;
  for (const auto& slot : handles.slots()) {
    if (slot.tensor->defined()) result.emplace_back(slot.name, *slot.tensor);
  }
  return result;
}

AegirState AegirState::fromTensors(std::shared_ptr<const BackboneConfig> config,
                                   const NamedTensors& tensors) {
  AegirState state(std::move(config));
  std::unordered_map<std::string, at::Tensor> given(tensors.begin(), tensors.end());
  int64_t sequences = -1;
  for (const auto& slot : state.slots()) {
    const auto found = given.find(slot.name);
    check(found != given.end(), ErrorCode::Checkpoint, "state: tensor '", slot.name, "' is missing");
    const auto& tensor = found->second;
    if (sequences < 0) sequences = tensor.dim() > 0 ? tensor.size(0) : 0;
    std::vector<int64_t> shape = slot.shape;
    shape.insert(shape.begin(), sequences);
    check(tensor.sizes() == at::IntArrayRef(shape), ErrorCode::Checkpoint, "state: '", slot.name,
          "' has shape ", tensor.sizes(), ", expected ", at::IntArrayRef(shape));
    check(tensor.scalar_type() == slot.type, ErrorCode::Checkpoint, "state: '", slot.name, "' is ",
          tensor.scalar_type(), ", expected ", slot.type);
    *slot.tensor = tensor;
    given.erase(found);
  }
  check(given.empty(), ErrorCode::Checkpoint, "state: '", given.empty() ? "" : given.begin()->first,
        "' is not a tensor of this model's state");
  return state;
}

std::vector<BlockState> AegirState::innerLayers(int64_t stage) const {
  const auto& layers = stages.at(static_cast<size_t>(stage)).encoder;
  return {layers.begin() + static_cast<int64_t>(firstInnerLayer(*config_)), layers.end()};
}

AegirState AegirState::to(at::Device device) const {
  AegirState moved = *this;
  for (const auto& slot : moved.slots()) {
    if (slot.tensor->defined()) *slot.tensor = queuedTo(*slot.tensor, device);
  }
  return moved;
}

AegirState AegirState::selectRows(const at::Tensor& rows) const {
  AegirState selected = *this;
  for (const auto& slot : selected.slots()) {
    if (!slot.tensor->defined()) continue;
    checkRows("rows", rows, slot.tensor->size(0));
    *slot.tensor = slot.tensor->index_select(0, queuedTo(rows, slot.tensor->device()));
  }
  return selected;
}

AegirState AegirState::firstRows(int64_t count) const {
  AegirState first = *this;
  for (const auto& slot : first.slots()) {
    if (slot.tensor->defined()) *slot.tensor = slot.tensor->narrow(0, 0, count).clone();
  }
  return first;
}

AegirState AegirState::copy() const {
  AegirState copied = *this;
  for (const auto& slot : copied.slots()) {
    if (slot.tensor->defined()) *slot.tensor = slot.tensor->detach().clone(at::MemoryFormat::Contiguous);
  }
  return copied;
}

bool AegirState::begunOnCpu() const {
  const auto there = [](const at::Tensor& x) { return x.defined() && x.is_cpu() && x.is_contiguous(); };
  const auto stackThere = [&](const std::vector<BlockState>& blocks, const std::vector<BlockSpec>& specs) {
    for (size_t i = 0; i < blocks.size(); ++i) {
      const auto& [attXPrev, attKv, ffnXPrev] = blocks[i];
      if (!there(attXPrev) || !there(attKv) || !(specs[i].swiGlu || there(ffnXPrev))) return false;
    }
    return true;
  };
  if (config_->ngrams.history() > 0 && !there(ngramHistory)) return false;
  for (size_t i = 0; i < stages.size(); ++i) {
    const auto& geometry = config_->stages[i];
    const bool inner = i + 1 == stages.size();
    if (!stackThere(stages[i].encoder, geometry.encoder)) return false;
    if (!inner && !(there(stages[i].lastHidden) && there(stages[i].lastValue))) return false;
    if (!stackThere(stages[i].decoder, geometry.decoder)) return false;
  }
  return true;
}

namespace {

bool holdsNonFinite(const at::Tensor& tensor) {
  // One cheap pass: NaN and infinity show in the sum. A sum of large finite values may overflow too, so a
  // second pass decides.
  return !at::isfinite(tensor.sum()).item<bool>() && !at::isfinite(tensor).all().item<bool>();
}

}  // namespace

void AegirState::checkGeometry(const BackboneConfig& config, const char* what) const {
  if (config_.get() == &config) return;
  AegirState handles = *this, expected(std::make_shared<BackboneConfig>(config));
  const auto mine = handles.slots(), theirs = expected.slots();
  const bool sameSlots =
      std::equal(mine.begin(), mine.end(), theirs.begin(), theirs.end(), [](const Slot& a, const Slot& b) {
        return a.name == b.name && a.shape == b.shape && a.type == b.type;
      });
  check(sameSlots, ErrorCode::Shape, what, ": belongs to a model of another geometry");
}

void AegirState::validate(const BackboneConfig& config, int64_t sequences) const {
  checkGeometry(config, "state");
  AegirState handles = *this;
  for (const auto& slot : handles.slots()) {
    if (!slot.tensor->defined()) continue;
    check(slot.tensor->size(0) == sequences, ErrorCode::Shape, "state: is of ", slot.tensor->size(0),
          " sequences, the input has ", sequences);
    // Of a GPU the host would have to wait for the answer.
    check(!slot.tensor->is_cpu() || !holdsNonFinite(*slot.tensor), ErrorCode::NonFinite, "state: '",
          slot.name, "' holds NaN or infinity");
  }
}

size_t firstInnerLayer(const BackboneConfig& config) {
  return config.stages.size() == 1 && config.stages[0].encoder.size() > 1 ? 1 : 0;
}

}  // namespace aegir::model
