// Attention over the columns of a table: each column is encoded once, by itself, and every target then reads
// the other columns' embeddings. S columns, R targets, k context columns a target at most.
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>

#include <memory>

#include "native/model/layers.h"

namespace aegir::model {

// Which sequences of a batch are targets, and which are the other columns of their tables.
struct TableContext {
  at::Tensor targets;    // (R) i64 in 0..S-1; undefined: every sequence, without context
  at::Tensor context;    // (R,k) i64 in 0..S-1, or -1: none; undefined: no context
  at::Tensor positions;  // (S) i64 >= 0: the column's place in its table; undefined: 0

  bool defined() const { return targets.defined() || context.defined() || positions.defined(); }
  // Throws ERR_SHAPE, ERR_DTYPE or ERR_ARGUMENT naming the input.
  void check(int64_t sequences) const;
  TableContext to(at::Device device) const;
};

class ColumnAttention : public torch::nn::Module {
 public:
  // positions: rows of the table of learned positions, the last for all places behind it; 0: none.
  ColumnAttention(const InitContext& context, int64_t dModel, int64_t heads, int64_t positions);

  // c (S,D), the columns' embeddings, -> (R,D):
  //   e = c + P[position];  a = softmax over the context of <W_q e_target, W_k e_j> / sqrt(N) per head, of
  //   W_v e_j;  m = mean of the context's e_j;  tanh(W [e_target; a; m] + b)
  // Where a target has no context a and m are zero.
  at::Tensor forward(const at::Tensor& columns, const TableContext& table) const;

 private:
  int64_t heads_;
  std::shared_ptr<Embedding> positions_;  // or null
  std::shared_ptr<Linear> query_, key_, value_, output_;
};

}  // namespace aegir::model
