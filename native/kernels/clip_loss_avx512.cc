#define AEGIR_ISA avx512
#define AEGIR_CLIP_LOSS_TABLE clipLossAvx512
#include "native/kernels/clip_loss_body.h"
