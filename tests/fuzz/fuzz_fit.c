/* dlcal fit: a trace whose chunks get correct checksums after every change, so that their content
 * is tested, not only the checksums. */
#include <gsl/gsl_errno.h>
#include <stdlib.h>
#include <string.h>

#include "calibrate/calibration.h"
#include "common/file.h"
#include "tests/calibrate/calibrate_traces.h"
#include "tests/fuzz/fuzz_driver.h"
#include "tests/fuzz/fuzz_file.h"
#include "trace/dlt/codec.h"

#define OTHER "fuzz_fit_other.dlt"

static void make_bench(const char *path)
{
    made_trace trace;
    made_open(&trace, path, "bench", "tiny");
    for (int i = 0; i < 6; i++) {
        for (uint64_t bytes = 1000; bytes <= 4000; bytes *= 2) {
            made_sample(
                &trace, "copy",
                (dl_record){.bytes = bytes, .threads = 1, .duration_ns = 900 + (int64_t)bytes});
            made_sample(&trace, "average",
                        (dl_record){.bytes = bytes,
                                    .vectors = 2,
                                    .threads = 1,
                                    .duration_ns = 700 + 2 * (int64_t)bytes + i});
        }
    }
    made_close(&trace);
}

static dl_fuzz_seed seed_of(const char *path)
{
    char *data = NULL;
    size_t bytes = 0;
    dl_error err = {0};
    const dl_status status = dl_file_read(path, &data, &bytes, &err);
    DL_ASSERT(status == DL_OK, "%s: %s", path, err.text);
    return (dl_fuzz_seed){data, bytes};
}

size_t dl_fuzz_seeds(const dl_fuzz_seed **seeds)
{
    static dl_fuzz_seed all[2];
    static const made_variation steady = {0.01, 0, 0};
    gsl_set_error_handler_off();
    made_train(OTHER, 16, 12, &steady, 1);
    made_train("fuzz_fit.dlt", 8, 12, &steady, 2);
    all[0] = seed_of("fuzz_fit.dlt");
    make_bench("fuzz_fit.dlt");
    all[1] = seed_of("fuzz_fit.dlt");
    *seeds = all;
    return 2;
}

/* Corrects the checksum of each chunk that lies within the data. */
static void seal(uint8_t *data, size_t bytes)
{
    size_t at = DL_DLT_HEADER_BYTES;
    while (at <= bytes && bytes - at >= DL_DLT_CHUNK_HEADER_BYTES) {
        const uint32_t type = dl_dlt_get_u32(data + at), payload = dl_dlt_get_u32(data + at + 4);
        if (payload > bytes - at - DL_DLT_CHUNK_HEADER_BYTES) return;
        dl_dlt_chunk_seal(data + at, (dl_dlt_chunk)type, payload);
        at += DL_DLT_CHUNK_HEADER_BYTES + payload;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    uint8_t *sealed = dl_calloc(bytes + 1, 1, "trace");
    if (bytes > 0) memcpy(sealed, data, bytes);
    seal(sealed, bytes);
    fuzz_file("fuzz_fit.dlt", sealed, bytes);
    free(sealed);
    const char *const paths[] = {"fuzz_fit.dlt", OTHER};
    DL_SCOPED(dl_calibration) calibration = {0};
    dl_error err = {0};
    if (dl_calibration_fit(&calibration, paths, 2, &err) != DL_OK) {
        DL_ASSERT(err.text[0] != '\0', "status %d without a text", (int)err.code);
    }
    return 0;
}
