// What each kernel of the CUDA plug-in is given: plain types and pointers to device memory. A change of
// anything here is a new ABI number (table.h).
#pragma once

#include <cstdint>

namespace aegir::cuda {

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

// Token by token, or in chunks of 16 tokens on the tensor cores.
enum class Wkv7Form : int32_t { Recurrent, Chunked };
constexpr bool wkv7HasChunked(Storage storage, int64_t headSize) {
  return storage == Storage::Bf16 && (headSize == 32 || headSize == 64);
}

// Token tensors are (B,T,H,N) of `storage`, states (S,H,N,N) value rows x key columns, all contiguous.
// headSize is 32, 64 or 128. Forward and backward are of one form. In chunks, for which wkv7HasChunked must
// hold, token tensors begin at multiples of 8 bytes, and what is kept are the checkpoints alone.
struct Wkv7Forward {
  Wkv7Form form;
  Layout layout;
  int64_t heads, headSize;
  Storage storage;
  const void *r, *decay, *k, *v, *a, *b;
  const float* initialState;  // null: zeros
  void* output;
  float* finalState;
  float* stateTimesA;  // (B,T,H,N), S_{t-1} a_t; null in chunks, and where nothing is kept
  float* checkpoints;  // (wkv7Checkpoints, H, N, N), the state before each chunk; null: nothing is kept
};

struct Wkv7Backward {
  Wkv7Form form;
  Layout layout;
  int64_t heads, headSize;
  Storage storage;
  const void *r, *decay, *k, *v, *a, *b, *gradOutput;
  const float *stateTimesA, *checkpoints;  // stateTimesA null in chunks
  void *gradR, *gradDecay, *gradK, *gradV, *gradA, *gradB;
  float* gradState;   // in: of the final state; out: of the initial state
  float* gradTimesB;  // (B,T,H,N), room for dL/d(S_{t-1} a_t); null in chunks
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

// The elementwise pieces of time and channel mixing (native/kernels/time_mix.h): `count` values of f32.
struct Decay {
  int64_t count;
  const float* z;
  float* decay;
};
struct DecayBackward {
  int64_t count;
  const float *z, *decay, *grad;
  float* gradZ;
};
struct ValueMix {
  int64_t count;
  const float *value, *first, *z;
  float* mixed;
};
struct ValueMixBackward {
  int64_t count;
  const float *value, *first, *z, *grad;
  float *gradValue, *gradFirst, *gradZ;
};
struct SquaredRelu {
  int64_t count;
  const float* x;
  float* result;
};
struct SquaredReluBackward {
  int64_t count;
  const float *x, *grad;
  float* gradX;
};

// The weighted mean over each of S >= 1 packed sequences, f32.
struct SequenceMean {
  int64_t sequences, tokens, width;
  const int64_t* cuSeqlens;
  const float *x, *weights;  // (K,D), (K) or null: 1
  float *mean, *scale;       // (S,D), (K): each token's part in its mean
};
struct SequenceMeanBackward {
  int64_t sequences, tokens, width;
  const int64_t* cuSeqlens;
  const float *scale, *gradMean;
  float* gradX;
};

// n-gram embeddings (native/kernels/ngram_embedding.h) of K ids in S >= 1 packed sequences. An id before the
// first is -1; past = the longest size - 1.
constexpr int64_t maxNgramSizes = 16;
struct NgramIds {
  int64_t tokens, sequences, past;
  const int64_t *ids, *cuSeqlens, *history;  // history (S,past) or null: none
};
struct NgramBuckets {
  NgramIds ids;
  int64_t buckets;
  int64_t lowercase;  // not 0: capitals are read as small letters
  int64_t views;      // 1: n-grams of ids; 2: behind them those of shapes
  int64_t sizeCount;
  int64_t sizes[maxNgramSizes];
  int64_t* result;  // (K,views sizeCount), -1 where fewer ids have been read
};
struct NgramHistory {
  NgramIds ids;
  int64_t* result;  // (S,past)
};
// table (V,W), output (K,W) of f32 or, where `f64` is set, f64.
struct NgramSum {
  int64_t tokens, sizeCount, width;
  int32_t f64;
  const int64_t* buckets;  // (K,N)
  const void* table;
  void* output;
};
// Adds up the gradient of each table row over its n-grams, in their order. gradTable is zeros on entry.
struct NgramSumBackward {
  int64_t entries, sizeCount, width;  // entries = K N
  int32_t f64;
  const int64_t *sortedBuckets, *order;  // buckets rising, and which entry each was
  const void* gradOutput;
  void* gradTable;
};

// The clipped token loss (native/kernels/clip_loss.h) over (rows,tokens) of f32 or, where `f64` is set, f64.
struct ClipLossForm {
  int32_t k25, maskPenalty, klForm, aggregation;  // the latter two as in clip_loss.h
  double epsLow, epsHigh, dualClip, logAlpha, logBeta, tau, klCoef, norm,
      denominator;  // dualClip, denominator 0: none
};
// What is added up over the tokens; the last four are maxima, or the first token whose loss is not finite
// (infinity: none).
enum ClipLossSum {
  clipLoss,
  clipValid,
  clipLow,
  clipHigh,
  clipDual,
  clipKl1,
  clipKl3,
  clipEntropy,
  clipRatio,
  clipRatioSquared,
  clipMaxLogRatio,
  clipBadToken,
  clipLossSums
};
constexpr int64_t clipLossBlock = 2048;  // tokens of one row of partial sums
struct ClipLoss {
  int64_t rows, tokens;
  int32_t f64;
  ClipLossForm form;
  const void *logp, *logpOld, *advantages;
  const bool* mask;                            // null: all
  const void *weights, *correction, *logpRef;  // null where absent
  void* gradLogp;                              // null: not wanted
  double* rowSums;                             // (rows,2), room for weights and whether any is valid
  double* scales;                              // (rows), room
  double* partials;                            // (ceil(rows tokens / clipLossBlock), clipLossSums), room
  double* sums;                                // (clipLossSums)
};

// The capped-Bernoulli policy (native/kernels/capped_bernoulli.h) on (rows,n) logits of f64, finite or -inf.
struct CappedPolicy {
  int64_t rows, n, cap;  // cap <= n
  const double* z;
  double* room;        // (rows, roomStride)
  int64_t roomStride;  // cappedRoom(n, cap)
};
constexpr int64_t cappedRoom(int64_t n, int64_t cap) { return 2 * ((n + 2) * (cap + 1)); }
struct CappedMoments {
  CappedPolicy policy;
  double *marginals, *logZ;  // (rows,n), (rows); marginals null: log Z alone
};
struct CappedCovariance {
  CappedPolicy policy;
  const double* v;  // (rows,n)
  double* result;
};
struct CappedSample {
  CappedPolicy policy;
  int64_t draws;
  const double* uniforms;  // (draws,rows,n)
  bool* actions;
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

}  // namespace aegir::cuda
