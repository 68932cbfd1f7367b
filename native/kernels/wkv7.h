// The recurrence of RWKV-7 ("Goose", arXiv:2503.14456), per sequence and head with a state S of value rows x
// key columns:
//   S_t = S_{t-1} diag(decay_t) + (S_{t-1} a_t) b_t^T + v_t k_t^T,   o_t = S_t r_t
#pragma once

#include <ATen/core/Tensor.h>

#include <tuple>

namespace aegir::kernels {

// How the CUDA plug-in computes: token by token, or in chunks of 16 tokens on tensor cores (docs/gpu.md).
// Chunked holds for bf16 inputs with N = 32 or 64; others are computed token by token. Automatic takes what
// the variable AEGIR_WKV7_CUDA says, `recurrent` or `chunked`, once a process (recurrent where it is not set,
// ERR_ARGUMENT where it says something else), and computes fewer than 16 tokens one by one.
enum class Wkv7CudaForm { Automatic, Recurrent, Chunked };

// r, decay, k, v, a (= -kk), b (= kk * gate): (B,T,H,N), one dtype of f32, f64, bf16; any strides.
// initialState: (B,H,N,N) value rows x key columns, f32 (f64 for f64 inputs), or undefined: zeros.
// lengths: (B) i64, valid tokens of right-padded rows; a padded position neither decays nor writes the state.
// cuSeqlens: (S+1) i64, starts of packed sequences; then B = 1 and states are (S,H,N,N).
struct Wkv7Input {
  at::Tensor r, decay, k, v, a, b;
  at::Tensor initialState;
  at::Tensor lengths;
  at::Tensor cuSeqlens;
  Wkv7CudaForm cudaForm = Wkv7CudaForm::Automatic;
};

// Output (B,T,H,N) in the inputs' dtype, zero at padded positions, and the final state in f32 (f64 for f64
// inputs): the state after each sequence's last valid token, or its initial state if it has none.
// Differentiable once in every floating input from both results; without an input that requires a gradient
// nothing is kept for a backward pass. The state is f32 (f64) throughout. Tokens go four at a time on CPUs,
// so products of r and a with k and b, of gradients of the output with v, and of four decays have to be in
// its range. Throws ERR_SHAPE, ERR_DTYPE, ERR_DEVICE or ERR_ARGUMENT naming the argument.
std::tuple<at::Tensor, at::Tensor> wkv7(const Wkv7Input& input);

// wkv7 of tensors on a GPU, through the CUDA plug-in; sizes and dtypes that it does not have take the
// reference.
std::tuple<at::Tensor, at::Tensor> wkv7Cuda(const Wkv7Input& input);

// The same in plain ATen operators, differentiated by autograd: the oracle of tests.
std::tuple<at::Tensor, at::Tensor> wkv7Reference(const Wkv7Input& input);

// Checks shapes, dtypes and devices as both functions above do.
void checkWkv7Input(const Wkv7Input& input);

}  // namespace aegir::kernels
