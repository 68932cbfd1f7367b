// Exponential moving average with a coefficient per token, the dechunking step of H-Net (arXiv:2507.07955):
//   y_j = P_j x_j + (1 - P_j) y_{j-1}
#pragma once

#include <ATen/core/Tensor.h>

#include <tuple>

namespace aegir::kernels {

// x: (B,M,D) f32, f64 or bf16. p: (B,M) in (0,1), x's dtype or f32.
// initial: y_{-1} of each sequence, (B,D) in x's dtype or f32, or undefined: the sequence's own x_0.
// lengths: (B) i64, valid tokens of right-padded rows. cuSeqlens: (S+1) i64; then B = 1 and initial is (S,D).
struct EmaScanInput {
  at::Tensor x, p;
  at::Tensor initial;
  at::Tensor lengths;
  at::Tensor cuSeqlens;
};

// Output (B,M,D) in x's dtype, zero past a row's length, and the last valid y of each sequence, (B,D) or
// packed (S,D), in f32 (f64 for f64 inputs); for a sequence with no token the initial value, or zero where
// there is none. Differentiable once in x, p and initial from both results. Throws ERR_SHAPE, ERR_DTYPE,
// ERR_DEVICE or ERR_ARGUMENT naming the argument.
std::tuple<at::Tensor, at::Tensor> emaScan(const EmaScanInput& input);

// emaScan of tensors on a GPU, through the CUDA plug-in; dtypes that it does not have take the reference.
std::tuple<at::Tensor, at::Tensor> emaScanCuda(const EmaScanInput& input);

// The same in plain ATen operators, differentiated by autograd: the oracle of tests.
std::tuple<at::Tensor, at::Tensor> emaScanReference(const EmaScanInput& input);

// Checks shapes, dtypes and devices as both functions above do.
void checkEmaScanInput(const EmaScanInput& input);

}  // namespace aegir::kernels
