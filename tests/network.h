/* Networks by their names, for tests. */
#ifndef DL_TESTS_NETWORK_H
#define DL_TESTS_NETWORK_H

#include "sim/workloads/architecture.h"
#include "tests/check.h"

static inline dl_architecture network_of(const char *text)
{
    dl_architecture architecture = {0};
    dl_error error = {0};
    if (dl_architecture_make(&architecture, text, &error)) fail_msg("%s: %s", text, error.text);
    return architecture;
}

#endif
