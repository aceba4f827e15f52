/* Inputs for readers that take a path: a separate file of each fuzzer in its working directory. */
#ifndef DL_TESTS_FUZZ_FILE_H
#define DL_TESTS_FUZZ_FILE_H

#include <stdint.h>
#include <stdio.h>

#include "common/status.h"

static inline void fuzz_file(const char *path, const void *data, size_t bytes)
{
    FILE *out = fopen(path, "wb");
    DL_ASSERT(out != NULL, "cannot create %s", path);
    const size_t written = bytes > 0 ? fwrite(data, 1, bytes, out) : 0;
    DL_ASSERT(fclose(out) == 0 && written == bytes, "cannot write %s", path);
}

#endif
