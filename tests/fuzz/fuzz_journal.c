/* The reader of journals, and of the results in their records. */
#include <glob.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/file.h"
#include "common/journal.h"
#include "sim/run.h"
#include "tests/fuzz/fuzz_driver.h"

enum { JOBS = 8, WORKERS = 2, HEAD_BYTES = 24, RECORD_BYTES = 24 };

static char path[] = "fuzz_journal_XXXXXX";
static unsigned char head[HEAD_BYTES];

static void decode(dl_run_result *result, const void *data, size_t bytes)
{
    if (!dl_run_result_decode(result, WORKERS, data, bytes)) return;
    dl_bytes again = {0};
    dl_run_result_encode(result, &again);
    DL_ASSERT(again.count == bytes, "%zu bytes of %zu", again.count, bytes);
    DL_ASSERT(memcmp(again.data + sizeof(dl_run_result), (const char *)data + sizeof(dl_run_result),
                     bytes - sizeof(dl_run_result)) == 0,
              "%zu bytes differ", bytes);
    free(again.data);
}

static dl_status read_journal(dl_run_result results[JOBS])
{
    dl_journal *journal = NULL;
    dl_error err = {0};
    const dl_status status = dl_journal_open(&journal, path, 7, JOBS, &err);
    DL_ASSERT(status == DL_OK || status == DL_ERR_DATA, "%s", err.text);
    if (status != DL_OK) return status;
    for (int64_t job = 0; job < JOBS; job++) {
        const void *data;
        size_t bytes;
        if (dl_journal_find(journal, job, &data, &bytes)) decode(&results[job], data, bytes);
    }
    dl_journal_end(journal, false);
    return status;
}

static void write_file(const void *data, size_t bytes)
{
    FILE *out = fopen(path, "wb");
    DL_ASSERT(out != NULL, "cannot write %s", path);
    if (bytes > 0) fwrite(data, bytes, 1, out);
    fclose(out);
}

/* Removes the journal and its renamed copies. */
static void remove_files(void)
{
    char pattern[sizeof path + 1];
    glob_t found;
    snprintf(pattern, sizeof pattern, "%s*", path);
    if (glob(pattern, 0, NULL, &found) != 0) return;
    for (size_t i = 0; i < found.gl_pathc; i++)
        unlink(found.gl_pathv[i]);
    globfree(&found);
}

size_t dl_fuzz_seeds(const dl_fuzz_seed **seeds)
{
    static dl_fuzz_seed seed;
    double steps[WORKERS] = {0.5, 0.25};
    int64_t counts[3 * WORKERS] = {1, 2, 3, 4, 5, 6};
    dl_split_result split = {.stages = 2};
    dl_averaging_result averaging = {.utilisation_frac = 0.5};
    dl_syncer_result syncer = {.weight_mean = 1};
    const int fd = mkstemp(path);
    dl_error err = {0};
    if (fd < 0) return 0;
    close(fd);
    unlink(path);
    atexit(remove_files);
    dl_journal *journal = NULL;
    if (dl_journal_open(&journal, path, 7, JOBS, &err) != DL_OK) return 0;
    for (int64_t job = 0; job < JOBS; job++) {
        dl_run_result result = {.workers = job == 5 ? 0 : WORKERS};
        if (job != 5) result.worker_step_s = steps;
        if (job % 2 == 0) result.staleness = counts;
        if (job % 2 == 0) result.staleness_bins = 3, result.staleness_rows = WORKERS;
        if (job == 3) result.split = &split;
        if (job == 4) result.averaging = &averaging;
        if (job == 6) result.syncer = &syncer;
        dl_bytes bytes = {0};
        dl_run_result_encode(&result, &bytes);
        dl_journal_add(journal, job, bytes.data, bytes.count);
        free(bytes.data);
    }
    if (dl_journal_flush(journal, &err) != DL_OK) return 0;
    dl_journal_end(journal, false);
    char *data = NULL;
    if (dl_file_read(path, &data, &seed.bytes, &err) != DL_OK) return 0;
    memcpy(head, data, HEAD_BYTES);
    seed.data = data;
    *seeds = &seed;
    return 1;
}

/* Corrects the head and all checksums, so that mutants get beyond them. */
static void seal(unsigned char *data, size_t bytes)
{
    size_t at = HEAD_BYTES;
    if (bytes < HEAD_BYTES) return;
    memcpy(data, head, HEAD_BYTES);
    while (bytes - at >= RECORD_BYTES) {
        uint64_t length;
        memcpy(&length, data + at + 16, sizeof length);
        if (length > bytes - at - RECORD_BYTES) return;
        const uint64_t sum = dl_hash_bytes(DL_HASH_START, data + at + 8, 16 + (size_t)length);
        memcpy(data + at, &sum, sizeof sum);
        at += RECORD_BYTES + (size_t)length;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    dl_run_result results[JOBS] = {0};
    const dl_fuzz_seed *unused;
    if (head[0] == 0 && dl_fuzz_seeds(&unused) == 0)
        return 0; /* libFuzzer does not call
                                                                * dl_fuzz_seeds */
    write_file(data, bytes);
    (void)read_journal(results);
    unsigned char *sealed = dl_realloc(NULL, bytes + 1, 1, "mutant");
    if (bytes > 0) memcpy(sealed, data, bytes);
    seal(sealed, bytes);
    write_file(sealed, bytes);
    const dl_status status = read_journal(results);
    DL_ASSERT(bytes < HEAD_BYTES || status == DL_OK, "status %d", (int)status);
    free(sealed);
    for (int job = 0; job < JOBS; job++)
        dl_run_result_free(&results[job]);
    return 0;
}
