// The table rows of a run of tokens' n-grams, compiled for several instruction sets: which they are, their
// sums, and their updates. Rows lie anywhere in memory: each is asked for `ngramRowsAhead` rows before its
// use.
#pragma once

#include <cstdint>

namespace aegir::kernels {

constexpr int64_t ngramRowsAhead = 24;

enum class Letters { AsTheyAre, Lowercase, Shapes };  // ngram_hash.h

// The n-grams of one kind of letters that end at `tokens` tokens in a row; ids[-i] is an id for all i under
// the longest size.
struct NgramRun {
  const int64_t* ids;
  int64_t tokens;
  const int64_t* sizes;  // (count), rising
  int64_t count;
  Letters letters;
  uint64_t salt, buckets;
  int64_t width;
  int64_t* starts;  // of token t and size j: starts[t stride + j]
  int64_t stride;
};

struct NgramRows {
  int64_t tokens, width;
  const int64_t* starts;  // where each row begins in the table, in values; token after token
  const int64_t* ends;    // (tokens): where a token's rows end in `starts`
};

template <class Real>
struct NgramRowsKernel {
  // sums (tokens,width) = the sum of each token's rows, in their order.
  void (*sum)(const NgramRows&, const Real* table, Real* sums);
  // Adds columns first..last of given (tokens,width) to each of its token's rows, in the order of tokens.
  void (*add)(const NgramRows&, const Real* given, int64_t first, int64_t last, Real* table);
};

struct NgramRowsTable {
  // Where in the table, in values, the row of every n-gram begins, for as many tokens as fill whole vectors;
  // returns their number.
  int64_t (*name)(const NgramRun&);
  NgramRowsKernel<float> f32;
  NgramRowsKernel<double> f64;
};
extern const NgramRowsTable ngramRowsSse2, ngramRowsAvx2, ngramRowsAvx512;

}  // namespace aegir::kernels
