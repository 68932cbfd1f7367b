#include "native/model/backbone.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/index_select.h>
#include <ATen/ops/zeros.h>

#include <algorithm>

#include "native/core/error.h"
#include "native/core/transfer.h"
#include "native/kernels/matmul.h"

namespace aegir::model {

Prefix Prefix::selectRows(const at::Tensor& rows) const {
  check(!table.defined(), ErrorCode::Argument, "rows: of a prefix with a table context none can be chosen");
  auto [selected, taken] = selectSequences(packing, rows);
  const auto select = [](const at::Tensor& from, const at::Tensor& index) {
    return from.defined() ? from.index_select(0, index) : from;
  };
  return {std::move(selected),
          select(hidden, taken),
          select(vFirst, taken),
          select(poolWeights, taken),
          select(routingHidden, queuedTo(rows, routingHidden.device())),
          before.selectRows(rows),
          after.selectRows(rows),
          dropout,
          {}};
}

Stage::Stage(const InitContext& context, const StageConfig& config, bool innermost, int64_t outerWidth)
    : downsample(config.downsample) {
  if (config.dModel > outerWidth) {
    padding_ = register_parameter("padding", constant(context, {config.dModel - outerWidth}, 0));
  }
  encoder = register_module("encoder", std::make_shared<Isotropic>(context, config, config.encoder));
  if (innermost) return;
  routing = register_module("routing", std::make_shared<RoutingModule>(context, config.dModel));
  residual = register_parameter("residual", constant(context, {config.dModel, config.dModel}, 0));
  decoder = register_module("decoder", std::make_shared<Isotropic>(context, config, config.decoder));
}

at::Tensor Stage::widen(const at::Tensor& x) const {
  if (!padding_.defined()) return x;
  return at::cat({x, padding_.expand({x.size(0), padding_.size(0)})}, 1);
}

Backbone::Backbone(const InitContext& context, std::shared_ptr<const BackboneConfig> config)
    : config_(std::move(config)) {
  const auto& stages = config_->stages;
  const int64_t width = stages[0].dModel;
  const auto embedding = [&](int64_t count) {
    return std::make_shared<Embedding>(normal(context, {count, width}, 0.02));
  };
  byteEmbedding_ = register_module("byteEmbedding", embedding(config_->vocabSize));
  roleEmbedding_ = register_module("roleEmbedding", embedding(config_->numRoles));
  if (!config_->ngrams.form.sizes.empty()) {
    ngramEmbedding_ =
        register_module("ngramEmbedding", std::make_shared<NgramEmbedding>(context, config_->ngrams, width));
  }
  for (size_t i = 0; i < stages.size(); ++i) {
    const bool innermost = i + 1 == stages.size();
    const int64_t outerWidth = i == 0 ? width : stages[i - 1].dModel;
    auto stage = std::make_shared<Stage>(context, stages[i], innermost, outerWidth);
    stages_.push_back(register_module("stage" + std::to_string(i), std::move(stage)));
  }
}

namespace {

void checkIds(const char* name, const at::Tensor& ids, int64_t size, const char* table) {
  check(ids.scalar_type() == at::kLong, ErrorCode::Dtype, name, ": expected i64, got ", ids.scalar_type());
  const int64_t low = ids.min().item<int64_t>(), high = ids.max().item<int64_t>();
  check(low >= 0 && high < size, ErrorCode::Argument, name, ": every id must lie in 0..", size - 1, " (",
        table, "); got ", low, " to ", high);
}

void checkLike(const char* name, const at::Tensor& values, const at::Tensor& inputIds) {
  check(values.sizes() == inputIds.sizes(), ErrorCode::Shape, name, ": expected the shape of inputIds, ",
        inputIds.sizes(), ", got ", values.sizes());
}

}  // namespace

void Backbone::checkInput(const ModelInput& input) const {
  const auto& ids = input.inputIds;
  check(ids.dim() == 2 && ids.numel() > 0, ErrorCode::Shape,
        "inputIds: expected (B,T) with at least one token, got ", ids.sizes());
  checkIds("inputIds", ids, config_->vocabSize, "vocabSize");
  if (input.roleIds.defined()) {
    checkLike("roleIds", input.roleIds, ids);
    checkIds("roleIds", input.roleIds, config_->numRoles, "numRoles");
  }
  if (input.poolMask.defined()) {
    checkLike("poolMask", input.poolMask, ids);
    check(input.poolMask.scalar_type() == at::kBool, ErrorCode::Dtype, "poolMask: expected bool, got ",
          input.poolMask.scalar_type());
  }
}

PackedInput Backbone::pack(const ModelInput& input) const {
  checkInput(input);
  // Checked and laid out where it lies, mostly the CPU, so that little waits for a GPU.
  const auto packing =
      makePacking(input.inputIds.size(0), input.inputIds.size(1), input.lengths, input.cuSeqlens)
          .to(device());
  if (input.state != nullptr) {
    check(!config_->readsAhead(), ErrorCode::Argument,
          "state: a model with reversed blocks reads each sequence whole and can continue none");
    input.state->validate(*config_, packing.sequences.count);
  }
  input.table.check(packing.sequences.count);
  const auto packed = [&](const at::Tensor& values) {
    return values.defined() ? packing.pack(queuedTo(values, device())) : values;
  };
  const auto poolMask = packed(input.poolMask);
  return {packing,
          packed(input.inputIds),
          packed(input.roleIds),
          poolMask.defined() ? poolMask.to(config_->dtype) : poolMask,
          input.state != nullptr ? input.state->to(device()) : AegirState(config_),
          input.dropout,
          input.table.to(device())};
}

at::Tensor Backbone::embed(const PackedInput& input, AegirState& after) const {
  const auto& [packing, ids, roles, poolWeights, before, dropout, table] = input;
  auto h = byteEmbedding_->forward(ids);
  if (roles.defined()) {
    h = h + roleEmbedding_->forward(roles);
  } else {
    h = h + roleEmbedding_->forward(at::zeros({1}, ids.options()));
  }
  if (ngramEmbedding_) {
    h = ngramEmbedding_->addTo(h, ids, packing.sequences, before.ngramHistory, after.ngramHistory);
  }
  return dropout(h, /*stream=*/0);
}

Prefix Backbone::prefix(const PackedInput& input) {
  const auto& [packing, ids, roles, poolWeights, before, dropout, table] = input;
  const auto& sequences = packing.sequences;
  AegirState after(config_);
  auto h = embed(input, after);
  auto& encoder = *stages_[0]->encoder;
  at::Tensor vFirst;
  if (flat()) {
    h = encoder.blocks(0, prefixBlocks(), h, vFirst, before.stages[0].encoder, after.stages[0].encoder,
                       sequences);
  } else {
    h = encoder.forward(h, before.stages[0].encoder, after.stages[0].encoder, sequences);
  }
  const auto routingHidden = sequenceMean(h, poolWeights, sequences);
  return {packing, h, vFirst, poolWeights, routingHidden, before, after, dropout, table};
}

namespace {

void replaceInnerKv(AegirState& state, const BackboneConfig& config, const StageKv& innerKv,
                    int64_t sequences, at::Device device) {
  const auto& [stage, given] = innerKv;
  const int64_t last = state.innermost(), outermost = std::min<int64_t>(1, last);
  check(stage >= outermost && stage <= last, ErrorCode::Argument, "innerKv: stage ", stage,
        " has no layers between prefix and routing, expected ", outermost, " to ", last);
  auto& layers = state.stages[static_cast<size_t>(stage)].encoder;
  const size_t first = firstInnerLayer(config);
  check(given.size() == layers.size() - first, ErrorCode::Shape, "innerKv: stage ", stage, " expected ",
        layers.size() - first, " tensors, one per layer, got ", given.size());
  const auto& geometry = config.stages[static_cast<size_t>(stage)];
  const int64_t n = geometry.headSize, heads = geometry.dModel / n;
  for (size_t i = 0; i < given.size(); ++i) {
    const std::vector<int64_t> shape{sequences, heads, n, n};
    check(given[i].sizes() == at::IntArrayRef(shape), ErrorCode::Shape, "innerKv: layer ", i, " of stage ",
          stage, " expected ", at::IntArrayRef(shape), ", got ", given[i].sizes());
    check(given[i].scalar_type() == config.dtype, ErrorCode::Dtype, "innerKv: layer ", i, " of stage ", stage,
          " expected ", config.dtype, ", got ", given[i].scalar_type());
    layers[first + i].attKv = given[i].to(device);
  }
}

at::Tensor noRatioLoss(const at::Tensor& like) {
  return at::zeros({}, like.options().requires_grad(false)).requires_grad_(at::GradMode::is_enabled());
}

}  // namespace

BackboneOutput Backbone::finish(const at::Tensor& h, AegirState after) const {
  return {stages_[0]->encoder->finish(h), std::move(after), noRatioLoss(h), {}};
}

BackboneOutput Backbone::rest(const Prefix& prefix, const std::vector<StageKv>& innerKv) {
  prefix.before.checkGeometry(*config_, "prefix");
  const auto& sequences = prefix.packing.sequences;
  AegirState before = prefix.before;
  for (const auto& stage : innerKv) replaceInnerKv(before, *config_, stage, sequences.count, device());
  BackboneOutput output{at::Tensor(), prefix.after, noRatioLoss(prefix.hidden), {}};
  const Run run{before, output};
  if (flat()) {
    auto& encoder = *stages_[0]->encoder;
    at::Tensor vFirst = prefix.vFirst;
    const auto h = encoder.blocks(prefixBlocks(), encoder.size(), prefix.hidden, vFirst,
                                  before.stages[0].encoder, output.after.stages[0].encoder, sequences);
    output.hidden = encoder.finish(h);
  } else {
    output.hidden = finishStage(0, prefix.hidden, sequences, run);
  }
  return output;
}

at::Tensor Backbone::finishStage(size_t i, const at::Tensor& h, const Sequences& sequences, const Run& run) {
  auto& stage = *stages_[i];
  const auto& before = run.before.stages[i];
  auto& after = run.output.after.stages[i];

  const auto routing = stage.routing->forward(h, before.lastHidden, sequences);
  const auto chunks = chunk(routing, sequences);
  const double rate = static_cast<double>(chunks.sequences.tokens) / static_cast<double>(sequences.tokens);
  run.output.boundaryRates.push_back(rate);
  run.output.ratioLoss = run.output.ratioLoss + ratioLoss(rate, routing.p, stage.downsample);

  const auto inner = innerStage(i + 1, h.index_select(0, chunks.kept), chunks.sequences, run);
  const auto dechunked = dechunk(inner, routing, chunks, before.lastValue);
  after.lastHidden = routing.lastHidden;
  after.lastValue = dechunked.lastValue;
  const auto joined = kernels::linear(h, stage.residual, straightThrough(dechunked.tokens, routing));
  return stage.decoder->forward(joined, before.decoder, after.decoder, sequences);
}

at::Tensor Backbone::innerStage(size_t i, const at::Tensor& x, const Sequences& sequences, const Run& run) {
  auto& stage = *stages_[i];
  if (x.size(0) == 0) {
    // No sequence of this call reached a boundary: the inner stages wait, their states stay.
    for (size_t j = i; j < stages_.size(); ++j) run.output.after.stages[j] = run.before.stages[j];
    return x;
  }
  auto h = stage.encoder->forward(stage.widen(x), run.before.stages[i].encoder,
                                  run.output.after.stages[i].encoder, sequences);
  if (stage.routing) h = finishStage(i, h, sequences, run);
  return h.narrow(1, 0, x.size(1));
}

}  // namespace aegir::model
