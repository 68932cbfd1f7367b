// Muon (Jordan et al. 2024, kellerjordan.github.io/posts/muon): momentum whose direction is the nearest
// semi-orthogonal matrix, scaled as in Moonlight (arXiv:2502.16982) so that a learning rate of AdamW serves.
#pragma once

#include <ATen/core/Tensor.h>

namespace aegir::optim {

// Five steps of the quintic Newton-Schulz iteration X <- aX + (bA + cA^2)X, A = XX^T, from G/|G|: U V^T of G
// = U S V^T, with singular values in about [0.7, 1.2] instead of 1. Any matrix of f32 or f64; zero stays
// zero.
at::Tensor orthogonalise(const at::Tensor& matrix);

// One update in place: momentum <- b momentum + g; parameter <- decay parameter - lr 0.2 sqrt(max(rows,
// columns)) orthogonalise(g + b momentum), whose elements have AdamW's root mean square of 0.2.
void muonUpdate(const at::Tensor& parameter, const at::Tensor& gradient, const at::Tensor& momentum,
                double beta, double lr, double decay);

}  // namespace aegir::optim
