#include "native/model/sequences.h"

#include <ATen/Dispatch.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/bucketize.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/cumsum.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/full.h>
#include <ATen/ops/index_copy.h>
#include <ATen/ops/index_select.h>
#include <ATen/ops/nonzero.h>
#include <ATen/ops/repeat_interleave.h>
#include <ATen/ops/scatter_reduce.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>
#include <torch/csrc/autograd/custom_function.h>

#include <limits>

#include "native/core/error.h"
#include "native/core/transfer.h"
#include "native/kernels/sequence_mean_cuda.h"

namespace aegir::model {

Sequences makeSequences(const at::Tensor& cuSeqlens, int64_t tokens) {
  Sequences result;
  result.cuSeqlens = cuSeqlens;
  result.count = cuSeqlens.size(0) - 1;
  result.tokens = tokens;
  const auto starts = cuSeqlens.narrow(0, 0, result.count);
  const auto ends = cuSeqlens.narrow(0, 1, result.count);
  const auto token = at::arange(tokens, cuSeqlens.options());
  result.sequenceOf = at::bucketize(token, ends, /*out_int32=*/false, /*right=*/true);
  result.previous =
      at::where(token == starts.index_select(0, result.sequenceOf), result.sequenceOf + tokens, token - 1);
  const auto carriedRow = at::arange(tokens, tokens + result.count, cuSeqlens.options());
  result.last = at::where(ends > starts, ends - 1, carriedRow);
  return result;
}

Sequences Sequences::to(at::Device device) const {
  const auto there = [&](const at::Tensor& x) { return queuedTo(x, device); };
  return {there(cuSeqlens), there(sequenceOf), there(previous), there(last), count, tokens};
}

at::Tensor Sequences::reversal() const {
  const auto mirrored =
      cuSeqlens.narrow(0, 0, count) + cuSeqlens.narrow(0, 1, count) - 1;  // first + last token
  return mirrored.index_select(0, sequenceOf) - at::arange(tokens, cuSeqlens.options());
}

Packing Packing::to(at::Device device) const {
  return {sequences.to(device), queuedTo(position, device), batch, tokens};
}

at::Tensor Packing::pack(const at::Tensor& values) const {
  const auto flat = values.reshape({batch * tokens});
  return position.defined() ? flat.index_select(0, position) : flat;
}

at::Tensor Packing::unpack(const at::Tensor& packedRows) const {
  const int64_t width = packedRows.size(1);
  if (!position.defined()) return packedRows.view({batch, tokens, width});
  const auto padded = at::zeros({batch * tokens, width}, packedRows.options());
  return at::index_copy(padded, 0, position, packedRows).view({batch, tokens, width});
}

namespace {

void checkIndex(const char* name, const at::Tensor& values) {
  check(values.dim() == 1, ErrorCode::Shape, name, ": expected one dimension, got shape ", values.sizes());
  check(values.scalar_type() == at::kLong, ErrorCode::Dtype, name, ": expected i64, got ",
        values.scalar_type());
}

at::Tensor withLeadingZero(const at::Tensor& ends) { return at::cat({at::zeros({1}, ends.options()), ends}); }

Packing packRows(int64_t batch, int64_t tokens, const at::Tensor& lengths) {
  checkIndex("lengths", lengths);
  check(lengths.size(0) == batch, ErrorCode::Shape, "lengths: has ", lengths.size(0),
        " entries for a batch of ", batch);
  const auto inRange = (lengths >= 1).logical_and(lengths <= tokens).all().item<bool>();
  check(inRange, ErrorCode::Argument, "lengths: every entry must lie in 1..", tokens,
        ", the tokens of a row; got ", lengths.min().item<int64_t>(), " to ", lengths.max().item<int64_t>());
  Packing packing;
  packing.batch = batch;
  packing.tokens = tokens;
  const auto valid = at::arange(tokens, lengths.options()).unsqueeze(0) < lengths.unsqueeze(1);
  packing.position = at::nonzero(valid.flatten()).squeeze(1);
  packing.sequences = makeSequences(withLeadingZero(at::cumsum(lengths, 0)), packing.position.size(0));
  return packing;
}

Packing packSequences(int64_t tokens, const at::Tensor& cuSeqlens) {
  checkIndex("cuSeqlens", cuSeqlens);
  const int64_t count = cuSeqlens.size(0) - 1;
  check(count >= 1, ErrorCode::Shape, "cuSeqlens: expected at least two entries, got ", count + 1);
  const auto steps = cuSeqlens.narrow(0, 1, count) - cuSeqlens.narrow(0, 0, count);
  const bool ordered = steps.min().item<int64_t>() >= 1 && cuSeqlens[0].item<int64_t>() == 0 &&
                       cuSeqlens[count].item<int64_t>() == tokens;
  check(ordered, ErrorCode::Argument, "cuSeqlens: must rise from 0 to ", tokens,
        " with at least one token a sequence");
  Packing packing;
  packing.batch = 1;
  packing.tokens = tokens;
  packing.sequences = makeSequences(cuSeqlens, tokens);
  return packing;
}

}  // namespace

Packing makePacking(int64_t batch, int64_t tokens, const at::Tensor& lengths, const at::Tensor& cuSeqlens) {
  check(!lengths.defined() || !cuSeqlens.defined(), ErrorCode::Argument,
        "lengths and cuSeqlens: give lengths for right-padded rows or cuSeqlens for packed sequences, not "
        "both");
  if (cuSeqlens.defined()) {
    check(batch == 1, ErrorCode::Shape, "inputIds: packed sequences need shape (1,T), got a batch of ",
          batch);
    return packSequences(tokens, cuSeqlens);
  }
  if (lengths.defined()) return packRows(batch, tokens, lengths);
  Packing packing;
  packing.batch = batch;
  packing.tokens = tokens;
  packing.sequences = makeSequences(at::arange(0, batch * tokens + 1, tokens, at::kLong), batch * tokens);
  return packing;
}

void checkRows(const char* name, const at::Tensor& rows, int64_t count) {
  checkIndex(name, rows);
  if (rows.numel() == 0) return;
  const int64_t low = rows.min().item<int64_t>(), high = rows.max().item<int64_t>();
  check(low >= 0 && high < count, ErrorCode::Argument, name, ": every entry must lie in 0..", count - 1,
        "; got ", low, " to ", high);
}

std::pair<Packing, at::Tensor> selectSequences(const Packing& packing, const at::Tensor& givenRows) {
  const auto& old = packing.sequences;
  checkRows("rows", givenRows, old.count);
  const int64_t count = givenRows.size(0);
  check(count >= 1, ErrorCode::Argument, "rows: expected at least one row");
  const auto rows = queuedTo(givenRows, old.cuSeqlens.device());
  const auto starts = old.cuSeqlens.index_select(0, rows);
  const auto lengths = old.cuSeqlens.index_select(0, rows + 1) - starts;
  const auto cuSeqlens = withLeadingZero(at::cumsum(lengths, 0));
  const int64_t tokens = cuSeqlens[count].item<int64_t>();
  Packing selected;
  selected.sequences = makeSequences(cuSeqlens, tokens);
  const auto offset = (starts - cuSeqlens.narrow(0, 0, count)).index_select(0, selected.sequences.sequenceOf);
  const auto taken = at::arange(tokens, rows.options()) + offset;
  // The selection stands for a batch of its own: rows of the same padded width, or one packed row.
  const bool packedInput = packing.batch == 1 && old.count > 1;
  selected.batch = packedInput ? 1 : count;
  selected.tokens = packedInput ? tokens : packing.tokens;
  if (!packedInput && tokens < count * packing.tokens) {
    const auto& sequences = selected.sequences;
    const auto inRow = at::arange(tokens, rows.options()) - cuSeqlens.index_select(0, sequences.sequenceOf);
    selected.position = sequences.sequenceOf * packing.tokens + inRow;
  }
  return {selected, taken};
}

namespace {

at::Tensor tokenTable(const at::Tensor& x, const at::Tensor& carried, const Sequences& sequences) {
  return at::cat({x, carried.defined() ? carried : at::zeros({sequences.count, x.size(1)}, x.options())});
}

// One pass over the tokens of each sequence; the backward pass spreads the row's gradient over them.
class SequenceMean : public torch::autograd::Function<SequenceMean> {
 public:
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& x,
                            const at::Tensor& weights, const at::Tensor& cuSeqlens) {
    const auto rows = x.contiguous();
    const int64_t count = cuSeqlens.size(0) - 1, width = x.size(1);
    auto mean = at::zeros({count, width}, x.options());
    auto scale = at::zeros({rows.size(0)}, x.options());
    AT_DISPATCH_FLOATING_TYPES(x.scalar_type(), "sequenceMean", [&] {
      const int64_t* cu = cuSeqlens.const_data_ptr<int64_t>();
      const scalar_t* weight = weights.const_data_ptr<scalar_t>();
      scalar_t* factor = scale.mutable_data_ptr<scalar_t>();
      for (int64_t s = 0; s < count; ++s) {
        scalar_t total = 0;
        for (int64_t t = cu[s]; t < cu[s + 1]; ++t) total += weight[t];
        if (total == 0) continue;
        scalar_t* out = mean.mutable_data_ptr<scalar_t>() + s * width;
        for (int64_t t = cu[s]; t < cu[s + 1]; ++t) {
          factor[t] = weight[t] / total;
          if (factor[t] == 0) continue;
          const scalar_t* in = rows.const_data_ptr<scalar_t>() + t * width;
          for (int64_t i = 0; i < width; ++i) out[i] += factor[t] * in[i];
        }
      }
    });
    context->save_for_backward({scale, cuSeqlens});
    return mean;
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list gradients) {
    const auto saved = context->get_saved_variables();
    const auto& scale = saved[0];
    const auto& cuSeqlens = saved[1];
    const auto dMean = gradients[0].contiguous();
    const int64_t width = dMean.size(1);
    auto dX = at::zeros({scale.size(0), width}, dMean.options());
    AT_DISPATCH_FLOATING_TYPES(dMean.scalar_type(), "sequenceMeanBackward", [&] {
      const int64_t* cu = cuSeqlens.const_data_ptr<int64_t>();
      const scalar_t* factor = scale.const_data_ptr<scalar_t>();
      for (int64_t s = 0; s < dMean.size(0); ++s) {
        const scalar_t* from = dMean.const_data_ptr<scalar_t>() + s * width;
        for (int64_t t = cu[s]; t < cu[s + 1]; ++t) {
          if (factor[t] == 0) continue;
          scalar_t* out = dX.mutable_data_ptr<scalar_t>() + t * width;
          for (int64_t i = 0; i < width; ++i) out[i] = factor[t] * from[i];
        }
      }
    });
    return {dX, at::Tensor(), at::Tensor()};
  }
};

class SequenceMax : public torch::autograd::Function<SequenceMax> {
 public:
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& x,
                            const at::Tensor& weights, const at::Tensor& cuSeqlens) {
    const int64_t count = cuSeqlens.size(0) - 1, width = x.size(1);
    const auto rows = x.contiguous();
    const auto largest = at::zeros({count, width}, x.options().requires_grad(false));
    // (S,D): the token that each value comes from.
    const auto from = at::empty({count, width}, cuSeqlens.options()).fill_(-1);
    AT_DISPATCH_FLOATING_TYPES(x.scalar_type(), "sequenceMax", [&] {
      const int64_t* cu = cuSeqlens.const_data_ptr<int64_t>();
      const scalar_t* weight = weights.const_data_ptr<scalar_t>();
      for (int64_t s = 0; s < count; ++s) {
        scalar_t* best = largest.mutable_data_ptr<scalar_t>() + s * width;
        int64_t* token = from.mutable_data_ptr<int64_t>() + s * width;
        for (int64_t t = cu[s]; t < cu[s + 1]; ++t) {
          if (weight[t] == 0) continue;
          const scalar_t* in = rows.const_data_ptr<scalar_t>() + t * width;
          for (int64_t i = 0; i < width; ++i) {
            if (token[i] >= 0 && in[i] <= best[i]) continue;
            best[i] = in[i];
            token[i] = t;
          }
        }
      }
    });
    context->save_for_backward({from});
    context->saved_data["tokens"] = x.size(0);
    return largest;
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list gradients) {
    const auto from = context->get_saved_variables()[0];
    const auto dLargest = gradients[0].contiguous();
    const int64_t width = dLargest.size(1);
    const auto dX = at::zeros({context->saved_data["tokens"].toInt(), width}, dLargest.options());
    AT_DISPATCH_FLOATING_TYPES(dLargest.scalar_type(), "sequenceMaxBackward", [&] {
      const int64_t* token = from.const_data_ptr<int64_t>();
      const scalar_t* gradient = dLargest.const_data_ptr<scalar_t>();
      scalar_t* out = dX.mutable_data_ptr<scalar_t>();
      for (int64_t j = 0; j < dLargest.numel(); ++j) {
        if (token[j] >= 0) out[token[j] * width + j % width] = gradient[j];
      }
    });
    return {dX, at::Tensor(), at::Tensor()};
  }
};

// The same for tensors on a GPU; equal maxima share the gradient.
at::Tensor plainSequenceMax(const at::Tensor& x, const at::Tensor& mask, const Sequences& sequences) {
  const double none = -std::numeric_limits<double>::infinity();
  const auto kept = at::where(mask.ne(0).unsqueeze(1), x, at::Scalar(none));
  const auto start = at::full({sequences.count, x.size(1)}, none, x.options().requires_grad(false));
  const auto index = sequences.sequenceOf.unsqueeze(1).expand_as(x);
  const auto largest = at::scatter_reduce(start, 0, index, kept, "amax");
  return at::where(largest.eq(none), at::Scalar(0), largest);
}

// (K) in x's dtype: 1 where no weights are given.
at::Tensor weightsOrOnes(const at::Tensor& weights, const at::Tensor& x) {
  return weights.defined() ? weights : at::empty({x.size(0)}, x.options().requires_grad(false)).fill_(1);
}

}  // namespace

at::Tensor shiftTokens(const at::Tensor& x, const at::Tensor& carried, const Sequences& sequences) {
  return tokenTable(x, carried, sequences).index_select(0, sequences.previous);
}

at::Tensor lastTokens(const at::Tensor& x, const at::Tensor& carried, const Sequences& sequences) {
  // Without a carried row no sequence is empty, and the rows are the tokens' own.
  if (!carried.defined()) return x.index_select(0, sequences.last);
  return tokenTable(x, carried, sequences).index_select(0, sequences.last);
}

namespace {

// The same in ATen operators, for tensors on a GPU.
at::Tensor plainSequenceMean(const at::Tensor& x, const at::Tensor& weights, const Sequences& sequences) {
  const auto total =
      at::zeros({sequences.count}, weights.options()).index_add(0, sequences.sequenceOf, weights);
  const auto share =
      weights / at::where(total == 0, at::Scalar(1), total).index_select(0, sequences.sequenceOf);
  const auto weighted = at::where(share.unsqueeze(1) == 0, at::Scalar(0), x * share.unsqueeze(1));
  return at::zeros({sequences.count, x.size(1)}, x.options().requires_grad(false))
      .index_add(0, sequences.sequenceOf, weighted);
}

}  // namespace

at::Tensor sequenceMean(const at::Tensor& x, const at::Tensor& weights, const Sequences& sequences) {
  if (x.is_cuda() && x.scalar_type() == at::kFloat && sequences.count > 0)
    return kernels::sequenceMeanCuda(x, weights, sequences.cuSeqlens);
  const auto mask = weightsOrOnes(weights, x);
  if (!x.is_cpu()) return plainSequenceMean(x, mask, sequences);
  return SequenceMean::apply(x, mask, sequences.cuSeqlens);
}

at::Tensor sequenceMax(const at::Tensor& x, const at::Tensor& weights, const Sequences& sequences) {
  const auto mask = weightsOrOnes(weights, x);
  if (!x.is_cpu()) return plainSequenceMax(x, mask, sequences);
  return SequenceMax::apply(x, mask, sequences.cuSeqlens);
}

}  // namespace aegir::model
