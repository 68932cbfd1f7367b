// Inputs of the two executables that check the clipped loss.
#pragma once

#include <ATen/TensorOperators.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/where.h>

#include <cmath>

#include "native/kernels/clip_loss.h"

namespace aegir::kernels {

// Log-ratios of standard deviation 0.4, a few beyond the clamp; masked slots hold NaN. Everything is a float
// exactly, so that f32 and f64 take the same side of every bound that is not hit exactly.
struct RandomClipLoss {
  bool strided = false;  // transposed views of every other row
  bool all = true;       // also what is optional: mask, weights, correction, reference

  ClipLossTensors operator()(int64_t rows, int64_t tokens) const {
    const auto random = [&] {
      if (!strided) return at::randn({rows, tokens}, at::kFloat).to(at::kDouble);
      return at::randn({2 * tokens, rows}, at::kFloat).to(at::kDouble).slice(0, 0, {}, 2).transpose(0, 1);
    };
    ClipLossTensors in;
    in.logpOld = -random().abs();
    const auto far = at::rand({rows, tokens}).lt(0.05);
    in.logp = (in.logpOld + at::where(far, random() * 40, random() * 0.4)).to(at::kFloat).to(at::kDouble);
    in.advantages = random();
    if (!all) return in;
    in.mask = at::rand({rows, tokens}).lt(0.7);
    in.weights = random().abs();
    in.correction = random().abs();
    in.logpRef = in.logp + random();
    for (at::Tensor* x : {&in.logp, &in.logpOld, &in.advantages, &in.weights, &in.correction, &in.logpRef}) {
      *x = at::where(in.mask, *x, at::full_like(*x, NAN));
    }
    return in;
  }
};

inline ClipLossTensors converted(const ClipLossTensors& in, at::ScalarType type) {
  ClipLossTensors out = in;
  for (at::Tensor* x :
       {&out.logp, &out.logpOld, &out.advantages, &out.weights, &out.correction, &out.logpRef}) {
    if (x->defined()) *x = x->to(type);
  }
  return out;
}

}  // namespace aegir::kernels
