// Operators over the tokens of several models of one shape, each with parameters of its own: one call for all
// of them. Without autograd. Rows are packed: those of group 0 first, a group may have none. Parameters lie
// one group after another, (G, …). On the CPU f32 and f64 run the kernels of time_mix.h and matmul.h;
// everything else runs those operators group by group. A row goes through the arithmetic of the operator of
// its group alone, whatever rows lie beside it.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "native/kernels/time_mix.h"

namespace aegir::kernels {

struct Groups {
  std::vector<int64_t> firstRow;       // (G+1), from 0 to M
  std::vector<int64_t> firstSequence;  // (G+1), from 0 to S
  at::Tensor cuSeqlens;                // (S+1) i64, of the rows of all groups

  int64_t count() const { return static_cast<int64_t>(firstRow.size()) - 1; }
  int64_t rows() const { return firstRow.back(); }
  int64_t rowsOf(int64_t group) const { return firstRow[group + 1] - firstRow[group]; }
};

// The weights of one product in each group, laid out once as the product reads them.
class StackedWeight {
 public:
  StackedWeight() = default;
  // One a group, all (K,N), or (N,K) where `transposed`.
  StackedWeight(const std::vector<at::Tensor>& weights, bool transposed);

  // x (M,K) times the weight of each row's group -> (M,N). Plus `bias` (G,N) or plus `addend` (M,N).
  at::Tensor product(const at::Tensor& x, const Groups& groups) const { return multiply(x, groups, {}, {}); }
  at::Tensor productWithBias(const at::Tensor& x, const Groups& groups, const at::Tensor& bias) const {
    return multiply(x, groups, bias, {});
  }
  at::Tensor addTo(const at::Tensor& addend, const at::Tensor& x, const Groups& groups) const {
    return multiply(x, groups, {}, addend);
  }
  const at::Tensor& stack() const { return stack_; }

 private:
  at::Tensor multiply(const at::Tensor& x, const Groups& groups, const at::Tensor& bias,
                      const at::Tensor& addend) const;

  bool panels_ = false;  // stack_ is (G, panels), else (G,K,N)
  bool transposed_ = false;
  std::vector<at::Tensor> weights_;  // as given, for groups of too few rows for the kernel
  int64_t depth_ = 0, columns_ = 0;
  at::Tensor stack_;
};

// As in time_mix.h, with mu (G,C,D), and no carried rows.
std::vector<at::Tensor> groupedTokenShiftMix(const at::Tensor& x, const at::Tensor& mu, const Groups& groups);
// With kK, kA (G,D).
NormalisedKey groupedKeyNormalise(const KeyNormaliseInput& input, const Groups& groups);
// With rK (G,H,N), gain and bias (G,D).
at::Tensor groupedGroupNormBonusGate(const GroupNormBonusGateInput& input, const Groups& groups);
// Of x (M,D), with gain and bias (G,D).
at::Tensor groupedLayerNorm(const at::Tensor& x, const at::Tensor& gain, const at::Tensor& bias,
                            const Groups& groups);

}  // namespace aegir::kernels
