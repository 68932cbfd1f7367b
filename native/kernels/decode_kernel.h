// What a decoding step (native/model/decode.h) hands to the kernels of one instruction set, beside those of
// time_mix_kernel.h: raw pointers of contiguous rows. A step reads every weight once, so products with few
// rows are bound by that reading, and all else must cost little beside it.
#pragma once

#include <cstdint>

namespace aegir::kernels {

// Outputs that `linear` computes together, and otherwise than the last few: where products are shared out,
// whole strips are, so that the number of shares changes no bit.
constexpr int64_t kLinearStrip = 4;

// Outputs [first,last) of y (rows,out) = x W, or y + x W; any sizes.
template <class Real>
struct RowProduct {
  int64_t rows, in, out, first, last;
  const Real *x, *weight;
  Real* y;
  bool add;
};

template <class Real>
struct RowNorm {
  int64_t rows, width;
  const Real *x, *gain, *bias;
  Real* result;
};

// One token of one head; see wkv7_kernel.h. The state (N,N) is advanced in place; N is a multiple of the
// vector width.
template <class Real>
struct Wkv7Step {
  int64_t headSize;
  const Real *r, *decay, *k, *v, *a, *b;
  Real *state, *output;
};

// In place; count is a multiple of the vector width.
template <class Real>
struct Activation {
  int64_t count;
  Real* x;
  const Real* factor;  // gatedSilu: silu(x) * factor
};

template <class Real>
struct DecodeKernels {
  void (*linear)(const RowProduct<Real>&);      // weight (out,in), as linear layers have it
  void (*lowRankMap)(const RowProduct<Real>&);  // weight (in,out), as low-rank maps have it
  void (*layerNorm)(const RowNorm<Real>&);      // eps 1e-5
  void (*wkv7Step)(const Wkv7Step<Real>&);
  void (*tanh)(const Activation<Real>&);
  void (*sigmoid)(const Activation<Real>&);
  void (*gatedSilu)(const Activation<Real>&);
};

struct DecodeTables {
  DecodeKernels<float> f32;
  DecodeKernels<double> f64;
};

extern const DecodeTables decodeSse2, decodeAvx2, decodeAvx512;

}  // namespace aegir::kernels
