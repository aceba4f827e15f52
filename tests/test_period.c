#include "tests/check.h"

#include <math.h>
#include <stdlib.h>

#include "common/random.h"
#include "trace/period.h"

enum { SYMBOLS_MAX = 200000, KINDS_MAX = 5000 };

/* A sequence that a test writes symbol by symbol, one symbol a microsecond. */
typedef struct written {
    uint32_t *symbols;
    int64_t *idle_ns, *start_ns;
    uint8_t *roles;
    size_t count;
} written;

static written start_writing(void)
{
    return (written){.symbols = calloc(SYMBOLS_MAX, sizeof(uint32_t)),
                     .idle_ns = calloc(SYMBOLS_MAX, sizeof(int64_t)),
                     .start_ns = calloc(SYMBOLS_MAX, sizeof(int64_t)),
                     .roles = calloc(KINDS_MAX, 1)};
}

static void write_symbol(written *text, uint32_t symbol)
{
    assert_true(text->count < SYMBOLS_MAX && symbol < KINDS_MAX);
    text->start_ns[text->count] = (int64_t)text->count * 1000;
    text->symbols[text->count++] = symbol;
}

static void stop_writing(written *text)
{
    free(text->symbols);
    free(text->idle_ns);
    free(text->start_ns);
    free(text->roles);
}

static void find(dl_period *period, const written *text, size_t given)
{
    const dl_sequence sequence = {.symbols = text->symbols,
                                  .idle_ns = text->idle_ns,
                                  .start_ns = text->start_ns,
                                  .roles = text->roles,
                                  .count = text->count,
                                  .kind_count = KINDS_MAX};
    dl_period_find(period, &sequence, given);
}

static void expect_none(const written *text, const char *what)
{
    dl_period period = {0};
    find(&period, text, 0);
    if (period.cut_count != 0)
        fail_msg("%s: %zu units of %zu symbols, order %.3f explained %.3f", what, period.cut_count,
                 period.length, period.order_match, period.explained);
    assert_non_null(period.reason);
    dl_period_free(&period);
}

/* Symbols drawn independently: equally likely, or kind k with a probability like 1 / (k + 1). */
static void test_random_symbols(void **state)
{
    (void)state;
    const uint32_t kinds[] = {2, 3, 5, 10, 50, 300};
    for (uint32_t seed = 0; seed < 3; seed++) {
        for (size_t k = 0; k < 6; k++) {
            for (int skewed = 0; skewed < 2; skewed++) {
                dl_random random;
                dl_random_init(&random, 7, seed, kinds[k], (uint32_t)skewed);
                written text = start_writing();
                while (text.count < 5000) {
                    double u = dl_random_uniform(&random);
                    double scale = skewed ? pow(kinds[k] + 1, u) - 1 : u * kinds[k];
                    write_symbol(&text, (uint32_t)scale);
                }
                expect_none(&text, skewed ? "skewed" : "uniform");
                stop_writing(&text);
            }
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_symbols),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
