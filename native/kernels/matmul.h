// Matrix products of the model: many rows (tokens) times a weight of a few hundred rows and columns. f32 and
// f64 on the CPU run our kernel, which reads the rows where they lie and gives a row the same result whatever
// rows are beside it; fewer than 8 rows, other dtypes and devices run ATen's operators.
#pragma once

#include <ATen/core/Tensor.h>

namespace aegir::kernels {

// Packing a weight costs as much as multiplying a few rows by it.
constexpr int64_t fewestMatmulRows = 8;

// x (M,K) w (K,N) + addend -> (M,N); addend (M,N), (N) or undefined.
at::Tensor product(const at::Tensor& x, const at::Tensor& w, const at::Tensor& addend = {});

// x (M,K) weight^T + addend -> (M,N), weight (N,K); addend (M,N), (N) or undefined.
at::Tensor linear(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& addend = {});

// product() by ATen's operators.
at::Tensor matmulReference(const at::Tensor& x, const at::Tensor& w, const at::Tensor& addend = {});

}  // namespace aegir::kernels
