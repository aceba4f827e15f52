/* The CUDA driver calls this in cuInit, in the library that CUDA_INJECTION64_PATH names. */
#include "profiler/inject/cupti_session.h"

int InitializeInjection(void);

/* Returns 1, which keeps the library loaded, if the session has started; else 0. */
__attribute__((visibility("default"))) int InitializeInjection(void)
{
    return dl_cupti_session_start() ? 1 : 0;
}
