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

// Tokens that pass over the state together, and the most such blocks in a chunk (wkv7_block_body.h).
constexpr int64_t wkv7BlockTokens = 4;
constexpr int64_t wkv7MostBlocks = wkv7Chunk / wkv7BlockTokens + wkv7BlockTokens - 1;

// Rows in scratch are padded to whole vectors of any instruction set.
constexpr int64_t wkv7Padded(int64_t headSize) { return (headSize + 15) / 16 * 16; }

// Four rows a token, one of decays, the factors between tokens, and a vector behind them.
constexpr int64_t wkv7BlockScratch(int64_t padded) {
  return (4 * wkv7BlockTokens + 1) * padded + 2 * wkv7BlockTokens * wkv7BlockTokens + 16;
}

constexpr int64_t wkv7ForwardScratch(int64_t headSize) {
  const int64_t padded = wkv7Padded(headSize);
  return padded * padded + wkv7BlockScratch(padded);
}

constexpr int64_t wkv7BackwardScratch(int64_t headSize) {
  const int64_t padded = wkv7Padded(headSize);
  return (wkv7MostBlocks + 1) * padded * padded + wkv7MostBlocks * wkv7BlockScratch(padded) +
         (2 * wkv7Chunk + 7 * wkv7BlockTokens + 1) * padded;
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
