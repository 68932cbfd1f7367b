// Hashed byte n-gram embeddings: each token adds the table rows of the n-grams that end at it, so that short
// strings are known by themselves and need no recurrence.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "native/kernels/ngram_hash.h"

namespace aegir::kernels {

// table: (V,W) f32 or f64. ids: (K) i64 >= 0, S sequences one after another. cuSeqlens: (S+1) i64.
// history: the last max(sizes) - 1 ids before each sequence, (S,max(sizes)-1) i64, -1 where there is none;
// undefined: none. Sizes are in 1..16.
struct NgramInput {
  at::Tensor table, ids, cuSeqlens, history;
  NgramForm form;
};

// (K,W): per token the sum over n of table[bucket_n], where n ids have been read; sequences do not see each
// other. With h_n = sum_{i<n} (id_{t-i} + 1) B^i and B = 0x9e3779b97f4a7c15, modulo 2^64,
//   bucket_n = mix(h_n + n B) mod V, mix the finaliser of MurmurHash3;
// with lowercase the small letter stands for a capital of ASCII; with shapes also the sum over n of
// table[shapeBucket_n], where shapeOf(id) stands for id and n + 32 for n. On a GPU, where the table lies,
// values of ids and cuSeqlens are not checked (ids must not be negative). On the CPU the n-grams are hashed
// anew in the backward pass rather than kept. Differentiable once in table; the same result for any number of
// threads. Throws ERR_SHAPE, ERR_DTYPE or ERR_ARGUMENT naming the argument.
at::Tensor ngramEmbedding(const NgramInput& input);

// Everything but the values of ids and cuSeqlens.
void checkNgramInput(const NgramInput& input);

// (K,N) i64: the bucket of each token and size, behind them those of shapes; -1 where fewer ids than n have
// been read.
at::Tensor ngramBuckets(const NgramInput& input);

// The same through the CUDA plug-in, for a table on a GPU; all three.
at::Tensor ngramEmbeddingCuda(const NgramInput& input);
at::Tensor ngramBucketsCuda(const NgramInput& input);
at::Tensor ngramHistoryCuda(const NgramInput& input);

// The same in plain ATen operators over the buckets, differentiated by autograd: the oracle of tests.
at::Tensor ngramEmbeddingReference(const NgramInput& input);

// (S,max(sizes)-1): the history of what follows.
at::Tensor ngramHistory(const NgramInput& input);

}  // namespace aegir::kernels
