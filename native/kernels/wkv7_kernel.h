// What wkv7.cc hands to the kernels of one instruction set: raw pointers of one head of one sequence.
#pragma once

#include <cstdint>

namespace aegir::kernels {

// Tokens between two checkpoints of the state; the backward pass recomputes the states between them.
constexpr int64_t wkv7Chunk = 32;

constexpr int64_t wkv7Checkpoints(int64_t tokens) { return (tokens + wkv7Chunk - 1) / wkv7Chunk; }

// Storage is what lies in memory (bf16 as uint16_t), Real what is computed with. Pointers are at the
// sequence's first token; tokens lie `stride` elements apart, N elements each. States are (N,N), value rows x
// key columns.
template <class Storage, class Real>
struct Wkv7Forward {
  int64_t tokens, stride, headSize;
  const Storage *r, *decay, *k, *v, *a, *b;
  const Real* initialState;  // null: zeros
  Storage* output;
  Real* finalState;
  Real* stateTimesA;  // S_{t-1} a_t of each token, spaced as the inputs; null: not kept
  Real* checkpoints;  // (wkv7Checkpoints(tokens), N, N), the state before each chunk; null: not kept
  Real* scratch;      // wkv7ForwardScratch(headSize) elements, aligned to 64 bytes
};

template <class Storage, class Real>
struct Wkv7Backward {
  int64_t tokens, stride, headSize;
  const Storage *r, *decay, *k, *v, *a, *b, *gradOutput;
  const Real *stateTimesA, *checkpoints;
  const Real* gradFinalState;
  Storage *gradR, *gradDecay, *gradK, *gradV, *gradA, *gradB;
  Real* gradInitialState;
  Real* scratch;  // wkv7BackwardScratch(headSize) elements, aligned to 64 bytes
};

// Row tile of the backward pass: the recomputed states of one tile over a chunk stay in the second-level
// cache.
constexpr int64_t wkv7RowTile = 16;

// Rows in scratch are padded to whole vectors of any instruction set.
constexpr int64_t wkv7Padded(int64_t headSize) { return (headSize + 15) / 16 * 16; }

constexpr int64_t wkv7ForwardScratch(int64_t headSize) {
  const int64_t padded = wkv7Padded(headSize);
  return padded * padded + 8 * (wkv7Chunk + 1) * padded;
}

constexpr int64_t wkv7BackwardScratch(int64_t headSize) {
  const int64_t padded = wkv7Padded(headSize);
  return padded * padded + (wkv7Chunk + 1) * wkv7RowTile * padded + 14 * (wkv7Chunk + 2) * padded + padded +
         2 * wkv7RowTile * 16;
}

struct Wkv7Kernels {
  void (*forwardF32)(const Wkv7Forward<float, float>&);
  void (*forwardF64)(const Wkv7Forward<double, double>&);
  void (*forwardBf16)(const Wkv7Forward<uint16_t, float>&);
  void (*backwardF32)(const Wkv7Backward<float, float>&);
  void (*backwardF64)(const Wkv7Backward<double, double>&);
  void (*backwardBf16)(const Wkv7Backward<uint16_t, float>&);
};

extern const Wkv7Kernels wkv7Sse2, wkv7Avx2, wkv7Avx512;

}  // namespace aegir::kernels
