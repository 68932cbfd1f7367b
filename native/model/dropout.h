// Dropout of training, its masks decided by a seed: the same step of a resumed run drops the same values.
#pragma once

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>

#include <cstdint>

#include "native/core/transfer.h"

namespace aegir::model {

struct Dropout {
  double rate = 0;
  uint64_t seed = 0;

  // x with each value zeroed with chance `rate`, the others divided by 1 - rate; x itself at rate 0. Each
  // place in a model has its own `stream` of masks. They are drawn on the CPU, the same for every device.
  at::Tensor operator()(const at::Tensor& x, uint64_t stream) const {
    if (rate == 0) return x;
    constexpr uint64_t mixer = 0x9e3779b97f4a7c15;
    const auto generator = at::make_generator<at::CPUGeneratorImpl>((seed + 1) * mixer ^ stream);
    const auto mask = at::empty(x.sizes(), x.options().device(at::kCPU).requires_grad(false))
                          .bernoulli_(1 - rate, generator);
    return x * queuedTo(mask.div_(1 - rate), x.device());
  }
};

}  // namespace aegir::model
