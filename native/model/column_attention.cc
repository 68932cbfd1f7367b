#include "native/model/column_attention.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/tanh.h>
#include <ATen/ops/zeros.h>

#include <cmath>

#include "native/core/error.h"
#include "native/core/transfer.h"

namespace aegir::model {

namespace {

void checkIndices(const char* name, const at::Tensor& indices, int64_t dimensions, int64_t low,
                  int64_t high) {
  aegir::check(indices.dim() == dimensions, ErrorCode::Shape, name, ": expected ", dimensions,
               " dimension(s), got shape ", indices.sizes());
  aegir::check(indices.scalar_type() == at::kLong, ErrorCode::Dtype, name, ": expected i64, got ",
               indices.scalar_type());
  if (indices.numel() == 0) return;
  const int64_t least = indices.min().item<int64_t>(), most = indices.max().item<int64_t>();
  aegir::check(least >= low && most <= high, ErrorCode::Argument, name, ": every entry must lie in ", low,
               "..", high, "; got ", least, " to ", most);
}

}  // namespace

void TableContext::check(int64_t sequences) const {
  int64_t rows = sequences;
  if (targets.defined()) {
    checkIndices("targets", targets, 1, 0, sequences - 1);
    rows = targets.size(0);
    aegir::check(rows >= 1, ErrorCode::Shape, "targets: expected at least one");
  }
  if (context.defined()) {
    checkIndices("context", context, 2, -1, sequences - 1);
    aegir::check(context.size(0) == rows, ErrorCode::Shape, "context: expected ", rows,
                 " rows, one a target, got ", context.size(0));
  }
  if (positions.defined()) {
    checkIndices("positions", positions, 1, 0, int64_t{1} << 31);
    aegir::check(positions.size(0) == sequences, ErrorCode::Shape, "positions: expected ", sequences,
                 " entries, one a sequence, got ", positions.size(0));
  }
}

TableContext TableContext::to(at::Device device) const {
  const auto there = [&](const at::Tensor& x) { return x.defined() ? queuedTo(x, device) : x; };
  return {there(targets), there(context), there(positions)};
}

ColumnAttention::ColumnAttention(const InitContext& context, int64_t dModel, int64_t heads, int64_t positions)
    : heads_(heads) {
  const double bound = 1 / std::sqrt(static_cast<double>(dModel));
  const auto map = [&](const char* name) {
    return register_module(name, std::make_shared<Linear>(uniform(context, {dModel, dModel}, bound)));
  };
  if (positions > 0) {
    positions_ = register_module("positionEmbedding",
                                 std::make_shared<Embedding>(normal(context, {positions, dModel}, 0.02)));
  }
  query_ = map("query");
  key_ = map("key");
  value_ = map("value");
  output_ = register_module(
      "output", std::make_shared<Linear>(uniform(context, {dModel, 3 * dModel}, bound / std::sqrt(3.0)),
                                         constant(context, {dModel}, 0)));
}

at::Tensor ColumnAttention::forward(const at::Tensor& columns, const TableContext& table) const {
  auto e = columns;
  if (positions_) {
    const auto places = table.positions.defined()
                            ? table.positions.clamp_max(positions_->size() - 1)
                            : at::zeros({1}, at::TensorOptions().dtype(at::kLong).device(e.device()));
    e = e + positions_->forward(places);
  }
  const auto target = table.targets.defined() ? e.index_select(0, table.targets) : e;
  const int64_t rows = target.size(0), width = target.size(1), n = width / heads_;
  if (!table.context.defined() || table.context.size(1) == 0) {
    const auto nothing = at::zeros({rows, 2 * width}, e.options().requires_grad(false));
    return at::tanh(output_->forward(at::cat({target, nothing}, 1)));
  }
  const int64_t k = table.context.size(1);
  const auto present = table.context.ge(0).to(e.scalar_type()).unsqueeze(2);  // (R,k,1)
  const auto index = table.context.clamp_min(0).reshape({-1});
  // (S,D) -> (R,k,D): the columns are mapped once each, then gathered.
  const auto gathered = [&](const at::Tensor& values) {
    return values.index_select(0, index).view({rows, k, width}) * present;
  };
  const auto query = query_->forward(target).view({rows, 1, heads_, n});
  const auto keys = gathered(key_->forward(e)).view({rows, k, heads_, n});
  const auto values = gathered(value_->forward(e)).view({rows, k, heads_, n});
  const auto scores = (query * keys).sum(3) / std::sqrt(static_cast<double>(n));  // (R,k,H)
  const auto weights = at::softmax(scores - (1 - present) * 1e9, 1) * present;    // zero where absent
  const auto attended = (weights.unsqueeze(3) * values).sum(1).reshape({rows, width});
  const auto mean = gathered(e).sum(1) / present.sum(1).clamp_min(1);
  return at::tanh(output_->forward(at::cat({target, attended, mean}, 1)));
}

}  // namespace aegir::model
