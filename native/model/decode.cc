#include "native/model/decode.h"

#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>

#include <algorithm>
#include <cmath>
#include <type_traits>
#include <utility>

#include "native/core/cancel.h"
#include "native/core/error.h"
#include "native/kernels/decode_kernel.h"
#include "native/kernels/ngram_hash.h"
#include "native/kernels/time_mix_dispatch.h"

namespace aegir::model {
namespace {

// Weights that are worth a second thread.
constexpr int64_t kWeightsPerThread = 1 << 16;
// Rows of the workspace end in this many spare values, so that kernels over all of them may run to the end of
// a vector.
constexpr int64_t kSpare = 16;

template <class Real>
const kernels::DecodeKernels<Real>& decodeKernelsOf() {
  return kernels::kernelsFor<Real>(
      kernels::chosenTables(kernels::decodeSse2, kernels::decodeAvx2, kernels::decodeAvx512));
}

// Buffers of one stage for B rows.
template <class Real>
struct Workspace {
  Real *h, *x, *mixed, *r, *k, *v, *vFirst, *z, *aLogits, *gate, *key, *removal, *gated, *o, *low, *hidden,
      *factor;
  at::Tensor memory;

  Workspace(const StageConfig& stage, int64_t rows, const at::TensorOptions& options) {
    const auto& ranks = stage.ranks;
    int64_t dHidden = 0;
    for (const auto* blocks : {&stage.encoder, &stage.decoder}) {
      for (const auto& block : *blocks) dHidden = std::max(dHidden, block.dIntermediate);
    }
    const int64_t d = rows * stage.dModel + kSpare, hiddenSize = rows * dHidden + kSpare;
    const int64_t rank = rows * std::max({ranks.decay, ranks.a, ranks.v, ranks.gate}) + kSpare;
    memory = at::empty({(13 + 6) * d + rank + 2 * hiddenSize}, options);
    Real* next = memory.mutable_data_ptr<Real>();
    const auto take = [&](int64_t size) { return std::exchange(next, next + size); };
    for (Real** buffer : {&h, &x, &r, &k, &v, &vFirst, &z, &aLogits, &gate, &key, &removal, &gated, &o}) {
      *buffer = take(d);
    }
    mixed = take(6 * d);
    low = take(rank);
    hidden = take(hiddenSize);
    factor = take(hiddenSize);
  }
};

template <class Real>
class Step {
 public:
  Step(const BackboneConfig& config, const DecodeWeights& weights, AegirState& state, int64_t rows)
      : config_(config), weights_(weights), state_(state) {
    for (const auto& stage : config.stages) workspaces_.emplace_back(stage, rows, options());
  }

  at::Tensor run(const int64_t* ids, const int64_t* roles, const std::vector<int64_t>& sequences) {
    const int64_t rows = static_cast<int64_t>(sequences.size());
    embed(ids, roles, rows);
    runStage(0, sequences);
    at::Tensor logits = at::empty({rows, config_.vocabSize}, options());
    Real* values = logits.mutable_data_ptr<Real>();
    product(weights_.head, workspaces_[0].h, values, rows);
    check(std::all_of(values, values + logits.numel(), [](Real x) { return std::isfinite(x); }),
          ErrorCode::NonFinite, "state: it, or the parameters, hold NaN or infinity");
    return logits;
  }

 private:
  at::TensorOptions options() const { return at::TensorOptions().dtype(config_.dtype); }
  static const Real* data(const at::Tensor& weight) { return weight.const_data_ptr<Real>(); }
  static Real* rowOf(const at::Tensor& state, int64_t sequence) {
    return state.mutable_data_ptr<Real>() + sequence * state.stride(0);
  }
  static void copy(const Real* from, int64_t count, Real* to) { std::copy(from, from + count, to); }

  // y = W x, or y + W x, of each row.
  void product(const at::Tensor& weight, const Real* x, Real* y, int64_t rows, bool add = false) const {
    constexpr int64_t strip = kernels::kLinearStrip;
    const int64_t out = weight.size(0), in = weight.size(1);
    const Real* values = data(weight);
    const int64_t strips = (out + strip - 1) / strip;
    at::parallel_for(
        0, strips, std::max<int64_t>(kWeightsPerThread / (in * strip), 1), [&](int64_t first, int64_t last) {
          decode_.linear({rows, in, out, first * strip, std::min(last * strip, out), x, values, y, add});
        });
  }

  // y = base + f(x down) up; f is one of the activations, or null.
  void lowRank(const LowRankWeights& map, const Real* x, Real* low, Real* y, int64_t rows,
               void (*activation)(const kernels::Activation<Real>&) = nullptr) const {
    const int64_t in = map.down.size(0), rank = map.down.size(1), out = map.up.size(1);
    decode_.lowRankMap({rows, in, rank, 0, rank, x, data(map.down), low, false});
    if (activation != nullptr) activation({rows * rank, low, nullptr});
    const bool based = map.base.defined();
    for (int64_t b = 0; based && b < rows; ++b) copy(data(map.base), out, y + b * out);
    decode_.lowRankMap({rows, rank, out, 0, out, low, data(map.up), y, based});
  }

  void norm(const NormWeights& weights, const Real* x, Real* result, int64_t rows) const {
    decode_.layerNorm({rows, weights.gain.size(0), x, data(weights.gain), data(weights.bias), result});
  }

  // mixed[c] (rows,D), one after another; the state takes x in.
  void shiftMix(const at::Tensor& mu, const at::Tensor& carried, const std::vector<int64_t>& sequences,
                const Workspace<Real>& w) const {
    const int64_t mixes = mu.size(0), d = mu.size(1), rows = static_cast<int64_t>(sequences.size());
    for (int64_t b = 0; b < rows; ++b) {
      Real* previous = rowOf(carried, sequences[b]);
      kernels::ShiftMix<Real> shift{1, d, mixes, w.x + b * d, previous, data(mu), {}};
      for (int64_t c = 0; c < mixes; ++c) shift.mixed[c] = w.mixed + (c * rows + b) * d;
      timeMix_.shiftMix(shift);
      copy(w.x + b * d, d, previous);
    }
  }

  void embed(const int64_t* ids, const int64_t* roles, int64_t rows) {
    const int64_t d = config_.stages[0].dModel;
    Real* h = workspaces_[0].h;
    for (int64_t b = 0; b < rows; ++b) {
      const Real* byte = data(weights_.byteEmbedding) + ids[b] * d;
      const Real* role = data(weights_.roleEmbedding) + (roles != nullptr ? roles[b] : 0) * d;
      for (int64_t i = 0; i < d; ++i) h[b * d + i] = byte[i] + role[i];
    }
    if (weights_.ngramTable.defined()) addNgrams(ids, rows);
  }

  void addNgrams(const int64_t* ids, int64_t rows) {
    const auto& form = config_.ngrams.form;
    const int64_t width = config_.ngrams.width, past = form.history();
    std::vector<Real> sums(static_cast<size_t>(rows * width), Real(0));
    for (int64_t b = 0; b < rows; ++b) {
      int64_t* history = past > 0 ? state_.ngramHistory.mutable_data_ptr<int64_t>() + b * past : nullptr;
      kernels::eachNgram({ids + b, history, past}, 0, form, static_cast<uint64_t>(config_.ngrams.buckets),
                         [&](int64_t, int64_t bucket) {
                           const Real* row = data(weights_.ngramTable) + bucket * width;
                           for (int64_t i = 0; i < width; ++i) sums[b * width + i] += row[i];
                         });
      if (past == 0) continue;
      std::copy(history + 1, history + past, history);
      history[past - 1] = ids[b];
    }
    product(weights_.ngramProjection, sums.data(), workspaces_[0].h, rows, /*add=*/true);
  }

  // As TimeMix::forward (rwkv7.cc) of one token a row.
  void timeMix(const BlockWeights& block, const BlockState& state, int64_t headSize, bool firstLayer,
               const std::vector<int64_t>& sequences, const Workspace<Real>& w) const {
    const int64_t rows = static_cast<int64_t>(sequences.size()), d = block.mu.size(1), count = rows * d;
    const Real *xR = w.mixed, *xW = xR + count, *xK = xW + count, *xV = xK + count, *xA = xV + count,
               *xG = xA + count;
    norm(block.norm1, w.h, w.x, rows);
    shiftMix(block.mu, state.attXPrev, sequences, w);
    product(block.receptance, xR, w.r, rows);
    product(block.key, xK, w.k, rows);
    product(block.value, xV, w.v, rows);
    if (firstLayer) {
      copy(w.v, count, w.vFirst);
    } else {
      lowRank(block.v, xV, w.low, w.z, rows);
      timeMix_.valueMix({count, w.v, w.vFirst, w.z, w.v});
    }
    lowRank(block.decay, xW, w.low, w.z, rows, decode_.tanh);
    timeMix_.decay({count, w.z, w.z});
    lowRank(block.a, xA, w.low, w.aLogits, rows);
    lowRank(block.gate, xG, w.low, w.gate, rows, decode_.sigmoid);
    const int64_t heads = d / headSize;
    timeMix_.keyNorm(
        {rows, heads, headSize, w.k, w.aLogits, data(block.kK), data(block.kA), w.key, w.removal, w.gated});
    for (int64_t b = 0; b < rows; ++b) {
      for (int64_t head = 0; head < heads; ++head) {
        const int64_t at = b * d + head * headSize;
        decode_.wkv7Step({headSize, w.r + at, w.z + at, w.key + at, w.v + at, w.removal + at, w.gated + at,
                          rowOf(state.attKv, sequences[b]) + head * headSize * headSize, w.o + at});
      }
    }
    timeMix_.normBonusGate({rows, heads, headSize, w.o, w.r, w.key, w.v, w.gate, data(block.rK),
                            data(block.heads.gain), data(block.heads.bias), w.x});
    product(block.output, w.x, w.h, rows, /*add=*/true);
  }

  // As ChannelMix::forward or SwiGlu::forward.
  void feedForward(const BlockWeights& block, const BlockState& state, const std::vector<int64_t>& sequences,
                   const Workspace<Real>& w) const {
    const int64_t rows = static_cast<int64_t>(sequences.size()), count = rows * block.up.size(0);
    norm(block.norm2, w.h, w.x, rows);
    if (block.ffnGate.defined()) {
      product(block.ffnGate, w.x, w.hidden, rows);
      product(block.up, w.x, w.factor, rows);
      decode_.gatedSilu({count, w.hidden, w.factor});
    } else {
      shiftMix(block.ffnMu, state.ffnXPrev, sequences, w);
      product(block.up, w.mixed, w.hidden, rows);
      timeMix_.squaredRelu({count, w.hidden, w.hidden});
    }
    product(block.down, w.hidden, w.h, rows, /*add=*/true);
  }

  void runStack(const StackWeights& stack, const std::vector<BlockState>& states, int64_t headSize,
                const std::vector<int64_t>& sequences, const Workspace<Real>& w) const {
    for (size_t layer = 0; layer < stack.blocks.size(); ++layer) {
      timeMix(stack.blocks[layer], states[layer], headSize, layer == 0, sequences, w);
      feedForward(stack.blocks[layer], states[layer], sequences, w);
    }
    norm(stack.norm, w.h, w.h, static_cast<int64_t>(sequences.size()));
  }

  // The rows of stage i that stand in its workspace's h, in place.
  void runStage(size_t i, const std::vector<int64_t>& sequences) {
    throwIfCancelled();
    const auto& weights = weights_.stages[i];
    const auto& w = workspaces_[i];
    auto& state = state_.stages[i];
    const int64_t d = config_.stages[i].dModel, headSize = config_.stages[i].headSize;
    const int64_t rows = static_cast<int64_t>(sequences.size());
    runStack(weights.encoder, state.encoder, headSize, sequences, w);
    if (!weights.query.defined()) return;

    const std::vector<Real> p = boundaryProbability(weights, state, sequences, w);
    std::vector<int64_t> chosen, chosenSequences;
    for (int64_t b = 0; b < rows; ++b) {
      if (!(p[b] >= Real(0.5))) continue;
      chosen.push_back(b);
      chosenSequences.push_back(sequences[b]);
    }
    const int64_t innerWidth = config_.stages[i + 1].dModel;
    Real* inner = workspaces_[i + 1].h;
    for (size_t j = 0; j < chosen.size(); ++j) {
      Real* row = inner + static_cast<int64_t>(j) * innerWidth;
      copy(w.h + chosen[j] * d, d, row);
      if (innerWidth > d) copy(data(weights_.stages[i + 1].padding), innerWidth - d, row + d);
    }
    if (!chosen.empty()) runStage(i + 1, chosenSequences);
    for (size_t j = 0; j < chosen.size(); ++j) {
      const Real share = std::clamp(p[chosen[j]], Real(1e-4), Real(1 - 1e-4));
      const Real* x = inner + static_cast<int64_t>(j) * innerWidth;
      Real* y = rowOf(state.lastValue, chosenSequences[j]);
      for (int64_t c = 0; c < d; ++c) y[c] = share * x[c] + (1 - share) * y[c];
    }
    copy(w.h, rows * d, w.x);
    for (int64_t b = 0; b < rows; ++b) copy(rowOf(state.lastValue, sequences[b]), d, w.h + b * d);
    product(weights.residual, w.x, w.h, rows, /*add=*/true);
    runStack(weights.decoder, state.decoder, headSize, sequences, w);
  }

  // As RoutingModule::forward; lastHidden becomes h.
  std::vector<Real> boundaryProbability(const StageWeights& weights, const StageState& state,
                                        const std::vector<int64_t>& sequences,
                                        const Workspace<Real>& w) const {
    const int64_t rows = static_cast<int64_t>(sequences.size()), d = weights.query.size(0);
    for (int64_t b = 0; b < rows; ++b) copy(rowOf(state.lastHidden, sequences[b]), d, w.x + b * d);
    product(weights.query, w.x, w.r, rows);
    product(weights.key, w.h, w.k, rows);
    std::vector<Real> p;
    for (int64_t b = 0; b < rows; ++b) {
      const Real *query = w.r + b * d, *key = w.k + b * d;
      double dot = 0, queryNorm = 0, keyNorm = 0;
      for (int64_t c = 0; c < d; ++c) {
        dot += static_cast<double>(query[c]) * key[c];
        queryNorm += static_cast<double>(query[c]) * query[c];
        keyNorm += static_cast<double>(key[c]) * key[c];
      }
      const double cosine =
          dot / (std::max(std::sqrt(queryNorm), 1e-12) * std::max(std::sqrt(keyNorm), 1e-12));
      p.push_back(static_cast<Real>(std::clamp((1 - cosine) * 0.5, 0.0, 1.0)));
      copy(w.h + b * d, d, rowOf(state.lastHidden, sequences[b]));
    }
    return p;
  }

  const BackboneConfig& config_;
  const DecodeWeights& weights_;
  AegirState& state_;
  const kernels::DecodeKernels<Real>& decode_ = decodeKernelsOf<Real>();
  const kernels::TimeMixKernels<Real>& timeMix_ = kernels::timeMixKernelsOf<Real>();
  std::vector<Workspace<Real>> workspaces_;
};

}  // namespace

Decoder::Decoder(const torch::nn::Module& causalLM, std::shared_ptr<const BackboneConfig> config)
    : config_(std::move(config)), weights_(decodeWeights(causalLM, *config_)) {}

bool Decoder::serves(const AegirState& state) const {
  const int64_t lanes = config_->dtype == at::kDouble ? kernels::timeMixKernelsOf<double>().lanes
                                                      : kernels::timeMixKernelsOf<float>().lanes;
  const auto& stages = config_->stages;
  return weights_.head.is_cpu() && config_->products == config_->dtype &&
         std::all_of(stages.begin(), stages.end(),
                     [&](const auto& stage) { return stage.headSize % lanes == 0; }) &&
         state.begunOnCpu();
}

at::Tensor Decoder::step(const at::Tensor& ids, const at::Tensor& roles, AegirState& state) const {
  const auto rows = ids.size(0);
  std::vector<int64_t> sequences(static_cast<size_t>(rows));
  for (int64_t b = 0; b < rows; ++b) sequences[b] = b;
  const auto given = ids.contiguous();
  const auto role = roles.defined() ? roles.contiguous() : roles;
  const int64_t* roleOf = role.defined() ? role.const_data_ptr<int64_t>() : nullptr;
  if (config_->dtype == at::kDouble) {
    return Step<double>(*config_, weights_, state, rows)
        .run(given.const_data_ptr<int64_t>(), roleOf, sequences);
  }
  return Step<float>(*config_, weights_, state, rows).run(given.const_data_ptr<int64_t>(), roleOf, sequences);
}

}  // namespace aegir::model
