#include "tests/fuzz/fuzz_driver.h"

#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/alloc.h"
#include "common/random.h"
#include "common/units.h"

enum { DEFAULT_ITERATIONS = 20000, MOST_MUTATIONS = 8, MOST_INSERTED_BYTES = 64 };

/* A mutant; data has room for MOST_MUTATIONS insertions. */
typedef struct mutant {
    uint8_t *data;
    size_t bytes;
} mutant;

/* Global, for the handler of a crash, which gets no argument. */
static volatile sig_atomic_t iteration_now;

static void flip_byte(mutant *m, dl_random *random)
{
    if (m->bytes == 0) return;
    m->data[dl_random_below(random, m->bytes)] = (uint8_t)dl_random_u32(random);
}

static void flip_bit(mutant *m, dl_random *random)
{
    if (m->bytes == 0) return;
    m->data[dl_random_below(random, m->bytes)] ^= (uint8_t)(1u << dl_random_below(random, 8));
}

static void truncate_tail(mutant *m, dl_random *random)
{
    m->bytes = dl_random_below(random, m->bytes + 1);
}

static void remove_range(mutant *m, dl_random *random)
{
    size_t start = dl_random_below(random, m->bytes + 1);
    size_t length = dl_random_below(random, m->bytes - start + 1);
    memmove(m->data + start, m->data + start + length, m->bytes - start - length);
    m->bytes -= length;
}

/* Inserts a copy of a part of the input (a repeated key, a repeated record). */
static void repeat_range(mutant *m, dl_random *random)
{
    uint8_t piece[MOST_INSERTED_BYTES];
    size_t from = dl_random_below(random, m->bytes + 1);
    size_t most = m->bytes - from < sizeof piece ? m->bytes - from : sizeof piece;
    size_t length = dl_random_below(random, most + 1);
    size_t to = dl_random_below(random, m->bytes + 1);
    memcpy(piece, m->data + from, length);
    memmove(m->data + to + length, m->data + to, m->bytes - to);
    memcpy(m->data + to, piece, length);
    m->bytes += length;
}

/* Inserts a byte with a meaning in our formats, once or many times (long lines). */
static void insert_special(mutant *m, dl_random *random)
{
    static const uint8_t special[] = {0, '\n', '\r', '[', ']', '=', ';', '#', '"', ',', ' ', 0xff};
    size_t length = 1 + dl_random_below(random, MOST_INSERTED_BYTES);
    if (dl_random_below(random, 2) == 0) length = 1;
    size_t to = dl_random_below(random, m->bytes + 1);
    memmove(m->data + to + length, m->data + to, m->bytes - to);
    memset(m->data + to, special[dl_random_below(random, sizeof special)], length);
    m->bytes += length;
}

static void run_iteration(int64_t iteration, const dl_fuzz_seed *seeds, size_t seed_count)
{
    static void (*const mutations[])(mutant *, dl_random *) = {
        flip_byte, flip_bit, truncate_tail, remove_range, repeat_range, insert_special};
    dl_random random;
    dl_random_init(&random, (uint64_t)iteration, 0, 0, 0);
    const dl_fuzz_seed *seed = &seeds[dl_random_below(&random, seed_count)];
    mutant m = {.bytes = seed->bytes};
    m.data = dl_calloc(seed->bytes + MOST_MUTATIONS * MOST_INSERTED_BYTES, 1, "mutant");
    memcpy(m.data, seed->data, seed->bytes);
    uint64_t count = dl_random_below(&random, MOST_MUTATIONS + 1); /* 0: the seed itself */
    for (uint64_t i = 0; i < count; i++) {
        mutations[dl_random_below(&random, sizeof mutations / sizeof mutations[0])](&m, &random);
    }
    m.data = dl_realloc(m.data, m.bytes, 1, "mutant");
    LLVMFuzzerTestOneInput(m.data, m.bytes);
    free(m.data);
}

static void say_iteration(int signal_number)
{
    char text[] = "\nfuzz: stopped in iteration 0000000000\n";
    int value = iteration_now;
    for (char *digit = text + sizeof text - 3; *digit == '0'; digit--) {
        *digit = (char)('0' + value % 10);
        value /= 10;
    }
    ssize_t written = write(STDERR_FILENO, text, sizeof text - 1);
    (void)written; /* an error cannot be reported */
    signal(signal_number, SIG_DFL);
    raise(signal_number);
}

/* Writes the seeds as libFuzzer's first corpus; returns the exit code. */
static int write_seeds(const char *folder, const dl_fuzz_seed *seeds, size_t seed_count)
{
    for (size_t i = 0; i < seed_count; i++) {
        char *path = dl_format("%s/seed%zu", folder, i);
        FILE *out = fopen(path, "wb");
        const bool good =
            out != NULL && fwrite(seeds[i].data, 1, seeds[i].bytes, out) == seeds[i].bytes;
        if (out == NULL || fclose(out) != 0 || !good) {
            perror(path);
            return 1;
        }
        free(path);
    }
    return 0;
}

int main(int argc, char **argv)
{
    const bool seeds_only = argc == 3 && strcmp(argv[1], "--write-seeds") == 0;
    dl_error err = {0};
    int64_t first = 0, count = DEFAULT_ITERATIONS;
    if (!seeds_only &&
        ((argc > 1 && dl_parse_int(argv[1], 0, INT32_MAX, &first, &err) != DL_OK) ||
         (argc > 2 && dl_parse_int(argv[2], 1, INT32_MAX - first, &count, &err) != DL_OK))) {
        dl_error_print(&err, argv[0], stderr);
        return 2;
    }
    const dl_fuzz_seed *seeds = NULL;
    size_t seed_count = dl_fuzz_seeds(&seeds);
    if (seed_count == 0) {
        fprintf(stderr, "%s: no seeds\n", argv[0]);
        return 1;
    }
    if (seeds_only) return write_seeds(argv[2], seeds, seed_count);
    signal(SIGABRT, say_iteration);
    signal(SIGSEGV, say_iteration);
    for (int64_t i = first; i < first + count; i++) {
        iteration_now = (sig_atomic_t)i;
        run_iteration(i, seeds, seed_count);
    }
    printf("%s: %lld inputs from %zu seeds\n", argv[0], (long long)count, seed_count);
    return 0;
}
