// Where the sequences of a batch lie. Operators over time see a (B,T,...) tensor as B*T rows and walk one run
// of rows per sequence, so right-padded and packed batches take the same path and cost only their valid
// tokens.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace aegir::kernels {

struct SequenceLayout {
  std::vector<int64_t> start;   // first row of each sequence
  std::vector<int64_t> length;  // valid tokens of each sequence, 0 allowed
  bool coversEveryRow = true;   // no row is padding

  int64_t size() const { return static_cast<int64_t>(start.size()); }
};

// lengths: (B) i64, each in [0,T], valid tokens of right-padded rows. cuSeqlens: (S+1) i64, non-decreasing
// from 0 to T, packed sequences of the one batch row. Neither: B full rows. Throws ERR_SHAPE, ERR_DTYPE or
// ERR_ARGUMENT.
SequenceLayout sequenceLayout(int64_t batch, int64_t tokens, const at::Tensor& lengths,
                              const at::Tensor& cuSeqlens);

// The number of sequences, with the same errors; but values that lie on a device are not checked, because
// reading them would wait for it.
int64_t sequenceCount(int64_t batch, int64_t tokens, const at::Tensor& lengths, const at::Tensor& cuSeqlens);

// (B,T) bool on the CPU: true at the valid positions of a right-padded batch.
at::Tensor validPositions(int64_t batch, int64_t tokens, const at::Tensor& lengths);

}  // namespace aegir::kernels
