#define AEGIR_ISA avx2
#define AEGIR_CLIP_LOSS_TABLE clipLossAvx2
#include "native/kernels/clip_loss_body.h"
