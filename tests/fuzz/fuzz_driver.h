/* Deterministic mutation fuzzing of a parser, without a special compiler; fuzz_driver.c contains
 * main(). A fuzzer is one source that defines the two functions below. The same source links with
 * libFuzzer instead of fuzz_driver.c:
 *
 *   mkdir corpus && build/release/tests/fuzz_x --write-seeds corpus
 *   cmake --preset fuzz && cmake --build --preset fuzz && build/fuzz/tests/fuzz_x corpus
 *
 * `fuzz_x` runs the default number of iterations; `fuzz_x FIRST COUNT` repeats some of them:
 * iteration i depends only on i and the seeds, so that a crash can be reproduced alone. There is no
 * coverage feedback: the driver finds shallow mistakes quickly, libFuzzer the deep ones. */
#ifndef DL_TESTS_FUZZ_DRIVER_H
#define DL_TESTS_FUZZ_DRIVER_H

#include <stddef.h>
#include <stdint.h>

#include "common/alloc.h"

/* A valid input from which mutants are made. */
typedef struct dl_fuzz_seed {
    const void *data;
    size_t bytes;
} dl_fuzz_seed;

/* Returns the number of seeds (>= 1); *seeds points to them, valid until the program ends. Called
 * once. Returns 0 if they cannot be made, which fails the test. */
size_t dl_fuzz_seeds(const dl_fuzz_seed **seeds);

/* Gives data[bytes] to the parser under test; aborts (DL_ASSERT) if a property does not hold. The
 * data are in a block of exactly that size, so that a sanitizer detects each byte read beyond it.
 * Returns 0. The name is libFuzzer's. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

#endif
