// Compares the grouped operators with the plain ones, group by group, in float64: groups of equal, unequal
// and no rows, widths that the kernels have and that they have not.
#include <ATen/ops/cat.h>
#include <ATen/ops/layer_norm.h>

#include "native/kernels/check_support.h"
#include "native/kernels/grouped.h"
#include "native/kernels/matmul.h"

namespace aegir::kernels {
namespace {

at::Tensor random(at::IntArrayRef shape) { return at::randn(shape, at::kDouble); }

// Two sequences in each group that has rows, the second of one row.
Groups groupsOf(const std::vector<int64_t>& rows) {
  Groups groups{{0}, {0}, {}};
  std::vector<int64_t> bounds{0};
  for (const int64_t count : rows) {
    const int64_t start = groups.firstRow.back();
    if (count > 1) bounds.push_back(start + count - 1);
    if (count > 0) bounds.push_back(start + count);
    groups.firstRow.push_back(start + count);
    groups.firstSequence.push_back(static_cast<int64_t>(bounds.size()) - 1);
  }
  groups.cuSeqlens = at::tensor(bounds, at::kLong);
  return groups;
}

// plain(group, rows of a tensor that are its) joined over the groups with rows.
template <class Plain>
at::Tensor each(const Groups& groups, const Plain& plain) {
  std::vector<at::Tensor> parts;
  for (int64_t g = 0; g < groups.count(); ++g) {
    if (groups.rowsOf(g) == 0) continue;
    parts.push_back(plain(
        g, [&groups, g](const at::Tensor& x) { return x.narrow(0, groups.firstRow[g], groups.rowsOf(g)); }));
  }
  return at::cat(parts);
}

at::Tensor sequencesOf(const Groups& groups, int64_t g) {
  const int64_t first = groups.firstSequence[g], count = groups.firstSequence[g + 1] - first;
  return groups.cuSeqlens.narrow(0, first, count + 1) - groups.firstRow[g];
}

void compare(Checker& checker, const std::vector<int64_t>& rows, int64_t heads, int64_t headSize,
             at::ScalarType type) {
  const auto groups = groupsOf(rows);
  const int64_t count = groups.count(), d = heads * headSize, out = d + 3, total = groups.rows();
  const double tolerance = type == at::kDouble ? 1e-13 : type == at::kFloat ? 1e-5 : 2e-2;
  const auto given = [&](at::IntArrayRef shape) { return random(shape).to(type); };
  const auto wide = [](const at::Tensor& x) { return x.to(at::kDouble); };
  const auto x = given({total, d}), bias = given({count, out}), addend = given({total, out});

  for (const bool transposed : {false, true}) {
    std::vector<at::Tensor> weights;
    for (int64_t g = 0; g < count; ++g) weights.push_back(transposed ? given({out, d}) : given({d, out}));
    const auto plain = [&](int64_t g, const at::Tensor& own, const at::Tensor& added) {
      const auto w = wide(weights[g]);
      return matmulReference(wide(own), transposed ? w.t() : w, added.defined() ? wide(added) : added);
    };
    const StackedWeight stack(weights, transposed);
    checker.close("grouped product", stack.product(x, groups),
                  each(groups, [&](int64_t g, auto own) { return plain(g, own(x), {}); }), tolerance);
    checker.close("grouped product with bias", stack.productWithBias(x, groups, bias),
                  each(groups, [&](int64_t g, auto own) { return plain(g, own(x), bias[g]); }), tolerance);
    checker.close("grouped product added", stack.addTo(addend, x, groups),
                  each(groups, [&](int64_t g, auto own) { return plain(g, own(x), own(addend)); }),
                  tolerance);
  }

  if (type == at::kBFloat16) return;  // the operators of other types and devices, all in products

  const auto mu = given({count, 6, d});
  const auto mixed = groupedTokenShiftMix(x, mu, groups);
  for (int64_t c = 0; c < 6; ++c) {
    checker.close(
        "grouped token shift", mixed[c],
        each(groups,
             [&](int64_t g, auto own) {
               return reference::tokenShiftMix({wide(own(x)), {}, wide(mu[g]), sequencesOf(groups, g)})[c];
             }),
        tolerance);
  }

  const auto aLogits = given({total, d}), kK = given({count, d}), kA = given({count, d});
  const auto key = groupedKeyNormalise({x, aLogits, kK, kA, headSize}, groups);
  const auto plainKey = [&](at::Tensor NormalisedKey::*part) {
    return each(groups, [&](int64_t g, auto own) {
      return reference::keyNormalise({wide(own(x)), wide(own(aLogits)), wide(kK[g]), wide(kA[g]), headSize}).*
             part;
    });
  };
  checker.close("grouped key", key.key, plainKey(&NormalisedKey::key), tolerance);
  checker.close("grouped removal", key.removal, plainKey(&NormalisedKey::removal), tolerance);
  checker.close("grouped gated", key.gated, plainKey(&NormalisedKey::gated), tolerance);

  const GroupNormBonusGateInput input{x,
                                      given({total, d}),
                                      given({total, d}),
                                      given({total, d}),
                                      given({total, d}),
                                      given({count, heads, headSize}),
                                      given({count, d}),
                                      given({count, d})};
  checker.close("grouped group norm", groupedGroupNormBonusGate(input, groups),
                each(groups,
                     [&](int64_t g, auto own) {
                       return reference::groupNormBonusGate({wide(own(input.o)), wide(own(input.r)),
                                                             wide(own(input.k)), wide(own(input.v)),
                                                             wide(own(input.gate)), wide(input.rK[g]),
                                                             wide(input.gain[g]), wide(input.bias[g])});
                     }),
                tolerance * 10);
  checker.close("grouped layer norm", groupedLayerNorm(x, input.gain, input.bias, groups),
                each(groups,
                     [&](int64_t g, auto own) {
                       return at::layer_norm(wide(own(x)), {d}, wide(input.gain[g]), wide(input.bias[g]));
                     }),
                tolerance);
}

int run() {
  Checker checker;
  at::manual_seed(7);
  for (const auto& rows : std::vector<std::vector<int64_t>>{{5, 5, 5}, {1}, {0, 40, 3, 0, 1, 700, 0}}) {
    for (const int64_t headSize : {32, 16, 5}) {
      for (const auto type : {at::kFloat, at::kDouble, at::kBFloat16})
        compare(checker, rows, 2, headSize, type);
    }
  }
  checker.throws("grouped product of unequal weights", ErrorCode::Shape, "weights of", [] {
    StackedWeight({random({3, 4}), random({4, 4})}, false);
  });
  return checker.finish("grouped_check");
}

}  // namespace
}  // namespace aegir::kernels

int main() { return aegir::kernels::run(); }
