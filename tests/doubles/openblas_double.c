/* Library libopenblas.so.0 of a test: as OpenBLAS before 0.3.25 does on an unknown processor, it
 * chooses kernels for a Prescott unless OPENBLAS_CORETYPE names others while it is loaded. */
#include <stdio.h>
#include <stdlib.h>

char *openblas_get_corename(void);
void cblas_sgemm(void);
void cblas_dgemm(void);

static char core[32] = "Prescott";

__attribute__((constructor)) static void choose_kernels(void)
{
    const char *given = getenv("OPENBLAS_CORETYPE");
    if (given != NULL) snprintf(core, sizeof core, "%s", given);
}

char *openblas_get_corename(void)
{
    return core;
}

void cblas_sgemm(void) {}

void cblas_dgemm(void) {}
