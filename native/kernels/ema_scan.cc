#include "native/kernels/ema_scan.h"

namespace aegir::kernels {

std::tuple<at::Tensor, at::Tensor> emaScan(const EmaScanInput& input) { return emaScanReference(input); }

}  // namespace aegir::kernels
