/* Lists the pointers of a run's result, to free them and to encode the result as bytes for other
 * ranks and journals. */
#include <stdlib.h>

#include "common/alloc.h"
#include "sim/run.h"

/* A pointer in a result: its address, and the number of bytes that it points to. */
typedef struct block {
    void **at;
    size_t bytes;
} block;

enum { BLOCKS = 9 };

static void list_blocks(dl_run_result *r, block blocks[BLOCKS])
{
    const size_t workers = (size_t)r->workers;
    blocks[0] = (block){(void **)&r->worker_step_s, workers * sizeof *r->worker_step_s};
    blocks[1] =
        (block){(void **)&r->staleness,
                (size_t)r->staleness_rows * (size_t)r->staleness_bins * sizeof *r->staleness};
    blocks[2] = (block){(void **)&r->split, sizeof *r->split};
    blocks[3] = (block){(void **)&r->syncer, sizeof *r->syncer};
    blocks[4] = (block){(void **)&r->worker_stale_sum, workers * sizeof *r->worker_stale_sum};
    blocks[5] = (block){(void **)&r->worker_stale_count, workers * sizeof *r->worker_stale_count};
    blocks[6] = (block){(void **)&r->averaging, sizeof *r->averaging};
    blocks[7] = (block){(void **)&r->rollout, sizeof *r->rollout};
    blocks[8] =
        (block){(void **)&r->step_quantiles_s, DL_STEP_QUANTILES * sizeof *r->step_quantiles_s};
}

void dl_run_result_free(dl_run_result *result)
{
    block blocks[BLOCKS];
    list_blocks(result, blocks);
    for (int b = 0; b < BLOCKS; b++)
        free(*blocks[b].at);
    *result = (dl_run_result){0};
}

void dl_run_result_encode(const dl_run_result *result, dl_bytes *into)
{
    dl_run_result copy = *result;
    block blocks[BLOCKS];
    list_blocks(&copy, blocks);
    dl_bytes_add(into, &copy, sizeof copy);
    for (int b = 0; b < BLOCKS; b++)
        if (*blocks[b].at != NULL) dl_bytes_add(into, *blocks[b].at, blocks[b].bytes);
}

bool dl_run_result_decode(dl_run_result *result, int workers, const void *data, size_t bytes)
{
    dl_bytes_left left = {data, bytes};
    dl_run_result read;
    block blocks[BLOCKS];
    size_t wanted = 0;
    if (!dl_bytes_take(&left, &read, sizeof read) || read.staleness_bins < 0) return false;
    /* A point that does not fit into its GPUs has an empty result. */
    if (read.workers != workers && read.workers != 0) return false;
    const int rows = read.staleness_rows;
    if (read.staleness_bins > 0 ? rows != 1 && rows != read.workers : rows != 0) return false;
    list_blocks(&read, blocks);
    for (int b = 0; b < BLOCKS; b++)
        if (*blocks[b].at != NULL) wanted += blocks[b].bytes;
    if (wanted != left.count || (read.staleness != NULL) != (read.staleness_bins > 0)) return false;
    for (int b = 0; b < BLOCKS; b++) {
        if (*blocks[b].at == NULL) continue;
        *blocks[b].at = dl_calloc(blocks[b].bytes, 1, "result of a run");
        dl_bytes_take(&left, *blocks[b].at, blocks[b].bytes);
    }
    read.usage.busiest[sizeof read.usage.busiest - 1] = '\0';
    read.usage.link[sizeof read.usage.link - 1] = '\0';
    dl_run_result_free(result);
    *result = read;
    return true;
}
