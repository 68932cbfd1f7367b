// AdamW (Loshchilov & Hutter, arXiv:1711.05101) over parameter groups, or Muon (muon.h) for the matrices
// among them that ask for it, with the gradient's global norm clipped.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace aegir::optim {

struct AdamWOptions {
  double beta1 = 0.9;
  double beta2 = 0.99;
  double eps = 1e-8;
  double momentum = 0.95;  // of Muon
};

struct AdamWParameter {
  std::string name;  // unique in the optimiser
  at::Tensor value;  // contiguous f32 or f64; its grad is read and cleared
  double lrScale = 1;
  double weightDecay = 0;
  bool muon = false;  // matrices only
};

struct StepResult {
  double gradNorm = 0;  // before clipping
  bool skipped = false;
};

class AdamW {
 public:
  // Throws ERR_ARGUMENT where a name comes twice, ERR_DTYPE or ERR_DEVICE where a parameter cannot be
  // updated, ERR_SHAPE where Muon is asked for what is no matrix.
  AdamW(std::vector<AdamWParameter> parameters, AdamWOptions options);

  // p <- p (1 - lr wd) - lr m^ / (sqrt(v^) + eps) for every parameter that has a gradient, lr times its
  // group's scale; then gradients are cleared. A norm that is not finite changes no parameter and no moment.
  // clipNorm 0: off. On the CPU one thread, one fixed order: the same inputs give the same bits. On a GPU the
  // norm is the one number that the host waits for.
  StepResult step(double lr, double clipNorm);

  // `step` (P) i64, updates of each parameter; `<name>.exp_avg`, `<name>.exp_avg_sq`, or `<name>.momentum` of
  // Muon. Copies.
  std::vector<std::pair<std::string, at::Tensor>> stateDict() const;
  // Throws ERR_CHECKPOINT naming the tensor that is missing, unknown or of another shape or dtype; then
  // nothing is changed.
  void loadStateDict(const std::vector<std::pair<std::string, at::Tensor>>& tensors);

 private:
  struct Slot {
    AdamWParameter parameter;
    // First and second moment; of Muon, the momentum and nothing.
    at::Tensor mean, square;
    int64_t steps = 0;
  };

  void updateSlot(Slot& slot, const at::Tensor& gradient, double lr, double gradScale);

  std::vector<Slot> slots_;
  AdamWOptions options_;
};

}  // namespace aegir::optim
