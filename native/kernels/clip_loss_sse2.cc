#define AEGIR_ISA sse2
#define AEGIR_CLIP_LOSS_TABLE clipLossSse2
#include "native/kernels/clip_loss_body.h"
