#define AEGIR_ISA avx512
#define AEGIR_NGRAM_ROWS_TABLE ngramRowsAvx512
#include "native/kernels/ngram_rows_body.h"
