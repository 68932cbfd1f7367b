// The token axis inside a model: the valid tokens of all sequences one after another, without padding. Padded
// and packed batches take the same path, cost only their valid tokens, and padding cannot touch any result.
// K tokens, S sequences; a sequence may be empty where it continues one (an inner stage that got no chunk).
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace aegir::model {

struct Sequences {
  at::Tensor cuSeqlens;   // (S+1) i64
  at::Tensor sequenceOf;  // (K) i64
  // Rows of the table [K tokens; S carried rows], the carried row of a sequence being what came before its
  // first token:
  at::Tensor previous;  // (K) i64, the row before each token
  at::Tensor last;      // (S) i64, the last row of each sequence: carried where it is empty
  int64_t count = 0;    // S
  int64_t tokens = 0;   // K

  Sequences to(at::Device device) const;
  // (K) i64: the tokens of each sequence from its last to its first; its own inverse.
  at::Tensor reversal() const;
};

Sequences makeSequences(const at::Tensor& cuSeqlens, int64_t tokens);

// How a batch as given, (B,T), maps onto the token axis.
struct Packing {
  Sequences sequences;
  at::Tensor position;  // (K) i64 into the flattened (B*T); undefined: every position, in order
  int64_t batch = 0, tokens = 0;

  at::Tensor pack(const at::Tensor& values) const;        // (B,T) -> (K)
  at::Tensor unpack(const at::Tensor& packedRows) const;  // (K,C) -> (B,T,C), zero at padding
  Packing to(at::Device device) const;
};

// lengths: (B) i64 in [1,T] or undefined; cuSeqlens: (S+1) i64 with B = 1 or undefined; not both.
// The packing lies where lengths or cuSeqlens lie, else on the CPU. Throws ERR_SHAPE, ERR_DTYPE or
// ERR_ARGUMENT.
Packing makePacking(int64_t batch, int64_t tokens, const at::Tensor& lengths, const at::Tensor& cuSeqlens);

// Throws unless `rows` is (R) i64 within 0..count-1.
void checkRows(const char* name, const at::Tensor& rows, int64_t count);

// The packing of the chosen sequences, repeats allowed, and the rows (K') of the old token axis that they
// take.
std::pair<Packing, at::Tensor> selectSequences(const Packing& packing, const at::Tensor& rows);

// x (K,D) shifted by one token inside each sequence; carried (S,D) comes before the first, zeros where
// undefined.
at::Tensor shiftTokens(const at::Tensor& x, const at::Tensor& carried, const Sequences& sequences);

// (S,D): the last token of each sequence; of an empty one the carried row.
at::Tensor lastTokens(const at::Tensor& x, const at::Tensor& carried, const Sequences& sequences);

// (S,D): mean over the tokens with weight 1 of weights (K), a 0/1 mask in x's dtype, or over all tokens; zero
// where there is none.
at::Tensor sequenceMean(const at::Tensor& x, const at::Tensor& weights, const Sequences& sequences);

// (S,D): largest value of each channel over the tokens with weight 1, or over all tokens; zero where there is
// none. The gradient goes to the first token that has it.
at::Tensor sequenceMax(const at::Tensor& x, const at::Tensor& weights, const Sequences& sequences);

}  // namespace aegir::model
