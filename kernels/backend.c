#include "kernels/backend.h"

const dl_backend *dl_backend_cpu(dl_precision precision)
{
    return precision == DL_DOUBLE ? &dl_backend_cpu_double : &dl_backend_cpu_float;
}
