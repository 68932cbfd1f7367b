// Compares matrix products with ATen's in float64: values and every gradient, at sizes around tiles and
// blocks.
#include "native/kernels/check_support.h"
#include "native/kernels/matmul.h"

namespace aegir::kernels {
namespace {

at::Tensor leaf(const at::Tensor& source, at::ScalarType type) {
  return source.detach().to(type).set_requires_grad(true);
}

void compare(Checker& checker, int64_t rows, int64_t depth, int64_t columns, bool transposed,
             int64_t addendDims) {
  const auto random = [](at::IntArrayRef shape) { return at::randn(shape, at::kDouble); };
  std::vector<at::Tensor> operands{random({rows, depth}),
                                   transposed ? random({columns, depth}) : random({depth, columns})};
  if (addendDims == 1) operands.push_back(random({columns}));
  if (addendDims == 2) operands.push_back(random({rows, columns}));
  for (const auto type : {at::kDouble, at::kFloat}) {
    std::vector<at::Tensor> ours, plain;
    for (const at::Tensor& operand : operands) {
      ours.push_back(leaf(operand, type));
      plain.push_back(leaf(ours.back(), at::kDouble));
    }
    const at::Tensor addend = ours.size() > 2 ? ours[2] : at::Tensor();
    const at::Tensor actual =
        transposed ? linear(ours[0], ours[1], addend) : product(ours[0], ours[1], addend);
    const at::Tensor expected = matmulReference(plain[0], transposed ? plain[1].t() : plain[1],
                                                plain.size() > 2 ? plain[2] : at::Tensor());
    const double tolerance = type == at::kDouble ? 1e-13 : 1e-5;
    const std::string title = "matmul " + std::to_string(rows) + " x " + std::to_string(depth) + " x " +
                              std::to_string(columns) + (transposed ? " transposed" : "");
    checker.close(title, actual, expected, tolerance);
    const at::Tensor weights = random(expected.sizes());
    const auto wanted = gradients({expected}, {weights}, plain), found = gradients({actual}, {weights}, ours);
    for (size_t i = 0; i < wanted.size(); ++i)
      checker.close(title + " grad " + std::to_string(i), found[i], wanted[i], tolerance);
  }
}

int run() {
  Checker checker;
  at::manual_seed(7);
  int64_t turn = 0;
  for (int64_t rows : {8, 13, 97, 200}) {
    for (int64_t depth : {1, 5, 33, 257}) {
      for (int64_t columns : {1, 16, 31, 64}) {
        compare(checker, rows, depth, columns, turn % 2 == 0, turn % 3);
        ++turn;
      }
    }
  }
  // Columns of a wider matrix, and an expanded gradient.
  const at::Tensor wide = at::randn({40, 30}, at::kDouble), w = at::randn({16, 20}, at::kDouble);
  const at::Tensor x = wide.slice(1, 5, 21);
  checker.close("matmul strided", product(x, w), matmulReference(x, w), 1e-13);
  return checker.finish("matmul_check");
}

}  // namespace
}  // namespace aegir::kernels

int main() { return aegir::kernels::run(); }
