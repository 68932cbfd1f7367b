#include "native/model/graphed_forward.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/floor_divide.h>
#include <ATen/ops/zeros.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <bit>
#include <exception>
#include <utility>

#include "native/core/error.h"
#include "native/cuda/loader.h"

namespace aegir::model {
namespace {

constexpr size_t mostGraphs = 16, mostSeen = 64;

// Into the tensors that a captured graph reads.
void copyInto(const PackedInput& to, const PackedInput& from) {
  const auto copy = [](const at::Tensor& target, const at::Tensor& source) {
    if (target.defined()) at::Tensor(target).copy_(source, /*non_blocking=*/true);
  };
  const Sequences &into = to.packing.sequences, &given = from.packing.sequences;
  copy(into.cuSeqlens, given.cuSeqlens);
  copy(into.sequenceOf, given.sequenceOf);
  copy(into.previous, given.previous);
  copy(into.last, given.last);
  copy(to.ids, from.ids);
  copy(to.roles, from.roles);
  copy(to.poolWeights, from.poolWeights);
}

}  // namespace

struct GraphedForward::Captured {
  Captured(std::shared_ptr<Model> model, Shape shape, PackedInput input)
      : model(std::move(model)), shape(shape), input(std::move(input)) {
    run();  // what libraries set up at the first call of a shape must not fall into the capture
    const auto again = [](void* self) { static_cast<Captured*>(self)->run(); };
    cuda::checkCuda(cuda::table().captureGraph(again, this, &graph));
  }
  ~Captured() {
    if (graph != nullptr) cuda::table().destroyGraph(graph);
  }
  Captured(const Captured&) = delete;
  Captured& operator=(const Captured&) = delete;

  void run() { output = std::make_unique<ModelOutput>(model->rest(model->prefix(input))); }

  std::shared_ptr<Model> model;
  Shape shape;
  PackedInput input;
  std::unique_ptr<ModelOutput> output;  // written by the graph
  void* graph = nullptr;
};

GraphedForward::GraphedForward(std::shared_ptr<Model> model) : model_(std::move(model)) {}
GraphedForward::~GraphedForward() = default;

int64_t bucketSize(int64_t n) {
  const auto step = std::max<int64_t>(1, static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(n)) / 8));
  return (n + step - 1) / step * step;
}

ModelInput paddedToBucket(const ModelInput& input) {
  const auto packing =
      makePacking(input.inputIds.size(0), input.inputIds.size(1), input.lengths, input.cuSeqlens);
  const auto& sequences = packing.sequences;
  // Enough sequences for the filling to be no longer than the others, of a token each at least.
  const int64_t rows = bucketSize(sequences.count + 1 + sequences.count / 8), added = rows - sequences.count;
  const int64_t tokens = bucketSize(sequences.tokens + added), filling = tokens - sequences.tokens;
  const auto filled = [&](const at::Tensor& values) {
    if (!values.defined()) return values;
    const auto packed = packing.pack(values);
    return at::cat({packed, at::zeros({filling}, packed.options())}).unsqueeze(0);
  };
  ModelInput padded;
  padded.inputIds = filled(input.inputIds);
  padded.roleIds = filled(input.roleIds);
  padded.poolMask = filled(input.poolMask);
  const auto ends = (at::arange(1, added + 1, at::kLong) * filling).floor_divide(added);
  padded.cuSeqlens = at::cat({sequences.cuSeqlens, ends + sequences.tokens});
  return padded;
}

std::string GraphedForward::refusal(const ModelInput& input) const {
  const auto& config = *model_->config();
  if (failed_) return report_.reason;
  if (config.stages.size() != 1) return "the model chunks: its shapes depend on values";
  if (dynamic_cast<const ColumnAnnotation*>(model_.get()) == nullptr) return "not an annotation model";
  if (input.state != nullptr) return "the input has a state";
  if (input.table.defined()) return "the input has a table context";
  if (input.dropout.rate != 0) return "dropout draws on the CPU";
  for (const auto* tensor :
       {&input.inputIds, &input.roleIds, &input.lengths, &input.cuSeqlens, &input.poolMask}) {
    if (tensor->defined() && !tensor->is_cpu()) return "the input does not lie on the CPU";
  }
  return "";
}

ModelOutput GraphedForward::eager(const ModelInput& input, std::string reason) {
  ++report_.eager;
  report_.reason = std::move(reason);
  return model_->forward(input);
}

void GraphedForward::forgetMoved() {
  const void* now = model_->parameters().front().const_data_ptr();
  if (now != weights_) captured_.clear();
  weights_ = now;
}

GraphedForward::Captured* GraphedForward::find(const Shape& shape) {
  const auto found = std::find_if(captured_.begin(), captured_.end(),
                                  [&](const auto& captured) { return captured->shape == shape; });
  if (found == captured_.end()) return nullptr;
  captured_.splice(captured_.begin(), captured_, found);
  return captured_.front().get();
}

ModelOutput GraphedForward::replay(Captured& captured, const ModelInput& padded, int64_t rows) {
  copyInto(captured.input, model_->pack(padded));
  cuda::checkCuda(cuda::table().replayGraph(captured.graph));
  ++report_.replays;
  // Copies: the next replay writes there again.
  const ModelOutput& out = *captured.output;
  const auto first = [rows](const at::Tensor& x) { return x.narrow(0, 0, rows).clone(); };
  return {first(out.logits),        first(out.pooled),     out.state.firstRows(rows),
          first(out.routingHidden), out.ratioLoss.clone(), out.boundaryRates};
}

ModelOutput GraphedForward::forward(const ModelInput& input) {
  std::lock_guard<std::mutex> lock(mutex_);
  c10::NoGradGuard noGrad;
  if (std::string reason = refusal(input); !reason.empty()) return eager(input, std::move(reason));
  model_->checkInput(input);
  const int64_t rows = input.cuSeqlens.defined() ? input.cuSeqlens.size(0) - 1 : input.inputIds.size(0);
  const ModelInput padded = paddedToBucket(input);
  const Shape shape{padded.cuSeqlens.size(0), padded.inputIds.size(1), padded.roleIds.defined(),
                    padded.poolMask.defined(), std::this_thread::get_id()};
  forgetMoved();
  if (Captured* captured = find(shape)) return replay(*captured, padded, rows);
  // The first forward of a shape warms up what must not be set up while capturing, and most shapes come once.
  if (std::find(seen_.begin(), seen_.end(), shape) == seen_.end()) {
    seen_.push_front(shape);
    if (seen_.size() > mostSeen) seen_.pop_back();
    return eager(input, "its shape came for the first time");
  }
  try {
    captured_.push_front(std::make_unique<Captured>(model_, shape, model_->pack(padded)));
  } catch (const std::exception& error) {
    failed_ = true;
    return eager(input, std::string("capturing failed: ") + error.what());
  }
  ++report_.captures;
  if (captured_.size() > mostGraphs) captured_.pop_back();
  return replay(*captured_.front(), padded, rows);
}

GraphReport GraphedForward::report() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return report_;
}

}  // namespace aegir::model
