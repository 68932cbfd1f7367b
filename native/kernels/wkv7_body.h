// The kernels of one instruction set; a file `wkv7_<isa>.cc` defines AEGIR_ISA and AEGIR_WKV7_TABLE and
// includes this.
#pragma once

#include "native/kernels/wkv7_backward_body.h"
#include "native/kernels/wkv7_forward_body.h"

namespace aegir::kernels {

const Wkv7Kernels AEGIR_WKV7_TABLE = {
    AEGIR_ISA::forwardHead<float, float>,    AEGIR_ISA::forwardHead<double, double>,
    AEGIR_ISA::forwardHead<uint16_t, float>, AEGIR_ISA::backwardHead<float, float>,
    AEGIR_ISA::backwardHead<double, double>, AEGIR_ISA::backwardHead<uint16_t, float>,
};

}  // namespace aegir::kernels
