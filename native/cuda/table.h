// What the core and the CUDA plug-in share: plain types and pointers to device memory, so that neither needs
// the other's symbols. A change of anything here is a new ABI number.
#pragma once

#include <cstdint>

namespace aegir::cuda {

constexpr int32_t abi = 1;

// Tokens between two checkpoints of the recurrent state.
constexpr int64_t wkv7Chunk = 16;

enum class Storage : int32_t { F32, Bf16 };

// Where the sequences lie among the rows of a (B,T,...) tensor. Values are read on the device; ones out of
// range are clamped, so that they cannot make a kernel leave its tensors.
struct Layout {
  int64_t sequences;
  int64_t tokens;            // T
  const int64_t* cuSeqlens;  // (S+1), packed sequences of one batch row; or null
  const int64_t* lengths;    // (S), valid tokens of right-padded rows; or null: all
};

// Room for checkpoints: a sequence's first one lies at start / wkv7Chunk + (its number), which needs no sum
// over the sequences before it.
constexpr int64_t wkv7Checkpoints(int64_t rows, int64_t sequences) { return rows / wkv7Chunk + sequences; }

// Token tensors are (B,T,H,N) of `storage`, states (S,H,N,N) value rows x key columns, all contiguous.
// headSize is 32, 64 or 128.
struct Wkv7Forward {
  Layout layout;
  int64_t heads, headSize;
  Storage storage;
  const void *r, *decay, *k, *v, *a, *b;
  const float* initialState;  // null: zeros
  void* output;
  float* finalState;
  float* stateTimesA;  // (B,T,H,N), S_{t-1} a_t; null: nothing is kept
  float* checkpoints;  // (wkv7Checkpoints, H, N, N), the state before each chunk; null with stateTimesA
};

struct Wkv7Backward {
  Layout layout;
  int64_t heads, headSize;
  Storage storage;
  const void *r, *decay, *k, *v, *a, *b, *gradOutput;
  const float *stateTimesA, *checkpoints;
  void *gradR, *gradDecay, *gradK, *gradV, *gradA, *gradB;
  float* gradState;   // in: of the final state; out: of the initial state
  float* gradTimesB;  // (B,T,H,N), room for dL/d(S_{t-1} a_t)
};

// x is (B,M,D) of `storage`, p (B,M), initial, final and gradients of both (S,D) f32.
struct EmaScanForward {
  Layout layout;
  int64_t width;
  Storage storage;
  const void* x;
  const float *p, *initial;  // initial null: the sequence's own x_0
  void* output;
  float* final;
};

// Columns whose part of a sum over the width one warp adds up.
constexpr int64_t emaScanWarp = 32;
constexpr int64_t emaScanBlock = 128;
constexpr int64_t emaScanPartials(int64_t width) {
  return (width + emaScanBlock - 1) / emaScanBlock * (emaScanBlock / emaScanWarp);
}

struct EmaScanBackward {
  Layout layout;
  int64_t width;
  Storage storage;
  const void *x, *gradOutput;
  const float *p, *initial;
  void* gradX;
  float* gradPPartials;  // (B,M,partials): their sum is the gradient of p
  int64_t partials;      // emaScanPartials(width)
  float* grad;           // (S,D), in: of the final value; out: of y_{-1}
  float* values;         // (B,M,D), room for y
};

constexpr int64_t maxMixes = 6;

// The time-mix operators (native/kernels/time_mix.h) on K packed tokens, f32. `runs`: into how many runs the
// rows are divided; each gives one row of partial sums of the parameters' gradients.
struct ShiftMix {
  int64_t tokens, width, mixes, sequences, runs;
  const int64_t* cuSeqlens;
  const float *x, *carried, *mu;  // carried null: zeros
  float* mixed[maxMixes];
};
struct ShiftMixBackward {
  int64_t tokens, width, mixes, sequences, runs;
  const int64_t* cuSeqlens;
  const float *x, *carried, *mu;
  const float* gradMixed[maxMixes];
  float* gradX;
  float* gradCarried;  // (S,D), zeros on entry
  float* gradMu;       // (runs,C,D)
};

// headSize is 32, 64 or 128.
struct KeyNorm {
  int64_t rows, heads, headSize, runs;
  const float *k, *aLogits, *kK, *kA;
  float *key, *removal, *gated;
};
struct KeyNormBackward {
  int64_t rows, heads, headSize, runs;
  const float *k, *aLogits, *kK, *kA, *gradKey, *gradRemoval, *gradGated;
  float *gradK, *gradALogits;
  float* gradVectors;  // (runs,2,D): kK, kA
};

struct NormBonusGate {
  int64_t rows, heads, headSize, runs;
  const float *o, *r, *k, *v, *gate, *rK, *gain, *bias;
  float* result;
};
struct NormBonusGateBackward {
  int64_t rows, heads, headSize, runs;
  const float *o, *r, *k, *v, *gate, *rK, *gain, *bias, *gradResult;
  float *gradO, *gradR, *gradK, *gradV, *gradGate;
  float* gradVectors;  // (runs,3,D): rK, gain, bias
};

// p <- p decay - stepSize m / (sqrt(v squareCorrection) + eps) with the moments m, v brought up to date, over
// `count` values of f32 or, where `f64` is set, f64.
struct AdamW {
  int64_t count;
  int32_t f64;
  void* parameter;
  const void* gradient;
  void *mean, *square;
  double gradScale, beta1, beta2, eps, decay, stepSize, squareCorrection;
};

// Launches go to the device's current stream and do not wait. They return null, or what CUDA said.
template <class Arguments>
using Launch = const char* (*)(int32_t device, const Arguments*);

struct Table {
  int32_t abi;  // first, whatever else changes
  const char* torchVersion;
  const char* (*unusable)();  // null where there is a device to use, else why there is none
  int32_t (*deviceCount)();
  const char* (*deviceName)(int32_t device);  // valid until the thread's next call
  Launch<Wkv7Forward> wkv7Forward;
  Launch<Wkv7Backward> wkv7Backward;
  Launch<EmaScanForward> emaScanForward;
  Launch<EmaScanBackward> emaScanBackward;
  Launch<ShiftMix> shiftMix;
  Launch<ShiftMixBackward> shiftMixBackward;
  Launch<KeyNorm> keyNorm;
  Launch<KeyNormBackward> keyNormBackward;
  Launch<NormBonusGate> normBonusGate;
  Launch<NormBonusGateBackward> normBonusGateBackward;
  Launch<AdamW> adamW;
};

}  // namespace aegir::cuda

extern "C" {
// The one symbol of the plug-in.
using AegirCudaTable = const aegir::cuda::Table*();
}
