#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/status.h"
#include "sim/costs/costs.h"
#include "tests/fuzz/fuzz_driver.h"

static const char whole[] =
    "; by hand\n[costs]\nschema = 1\nworkload = lenet\ndevice = some CPU\nparameter_bytes = 100\n"
    "batch_min = 1\nbatch_max = 9\ncores = 2\n[op a.forward]\nfixed_ns = 12.5 +- 1, n = 3, fitted\n"
    "per_sample_ns = 3e2\n[copy]\nlatency_ns = -1\nbandwidth_bytes_per_s = 8e9\n"
    "[sharing]\ncopies_2 = 1.1, measured\n[noise 8 copies 2]\nfactors_1_1_1 = 1, "
    "0.9\nfactors_1_2_1 = 1.1\n"
    "[noise]\nfactors_1_1_1 = 1\nfactors_1_1_2 = 1.1\n"
    "[collective allreduce 8]\nnodes = 1\nbytes_0 = 35 +- 1, n = 3, fitted\nbytes_1024 = 36\n";
static const char small[] = "[costs]\nschema = 1\n[sync]\nslice_ns = 3\n[op input]\nfixed_ns = 1\n";
static const char crlf[] = "[costs]\r\nschema = 1\r\nworkload =\r\nbatch_min = 1\r\n[op a.forward]"
                           "\r\nfixed_ns = 12 +- , n = 3\r\nper_sample_ns = \r\n[noise]\r\n";

size_t dl_fuzz_seeds(const dl_fuzz_seed **seeds)
{
    static const dl_fuzz_seed all[] = {
        {whole, sizeof whole - 1}, {small, sizeof small - 1}, {crlf, sizeof crlf - 1}};
    *seeds = all;
    return sizeof all / sizeof all[0];
}

typedef struct sum {
    double values;
    int known;
} sum;

static void add(void *user, dl_value *value, double low DL_UNUSED, double high DL_UNUSED)
{
    sum *s = user;
    s->known += value->known;
    s->values += value->value;
}

/* Costs that were read can be written and read again, unless a text in them does not fit an INI
 * file. */
static void check_round_trip(dl_costs *costs)
{
    dl_error err = {0};
    char name[] = "fuzz_costs.ini";
    dl_status status = dl_costs_write(costs, name, NULL, &err);
    if (status == DL_ERR_DATA) return;
    DL_ASSERT(status == DL_OK, "%s", err.text);
    DL_SCOPED(dl_costs) back = {0};
    status = dl_costs_read(&back, name, &err);
    DL_ASSERT(status == DL_OK, "line %d: %s", err.line, err.text);
    sum before = {0}, after = {0};
    dl_costs_each(costs, add, &before);
    dl_costs_each(&back, add, &after);
    DL_ASSERT(before.known == after.known, "%d values, %d read back", before.known, after.known);
    DL_ASSERT(memcmp(&before.values, &after.values, sizeof before.values) == 0, "sums %g and %g",
              before.values, after.values);
    DL_ASSERT(back.noise_count == costs->noise_count, "%zu factors, %zu read back",
              costs->noise_count, back.noise_count);
    remove(name);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    dl_costs costs = {0};
    dl_error err = {0};
    if (dl_costs_read_text(&costs, "fuzz", (const char *)data, bytes, &err) != DL_OK) {
        DL_ASSERT(err.text[0] != '\0', "status %d without a text", (int)err.code);
        return 0;
    }
    for (size_t i = 0; i < costs.noise_count; i++) {
        const dl_noise_set *set = &costs.noise[i];
        DL_ASSERT(set->run_count >= 1 && set->copies >= 1, "set %zu is empty", i);
        for (size_t n = 0; n < set->run_count * set->copies; n++) {
            DL_ASSERT(set->series[n].count >= 1 && set->series[n].factors[0] > 0,
                      "set %zu, series %zu", i, n);
        }
    }
    free(dl_costs_missing(&costs, ~0u));
    check_round_trip(&costs);
    dl_costs_free(&costs);
    return 0;
}
