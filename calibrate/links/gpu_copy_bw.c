/* gpu_copy_bw of SuperBench prints a line per copy:
 *
 *   cpu_to_gpu0_by_dma_under_numa0 26.2387            GB/s */
#include <ctype.h>
#include <stdbool.h>
#include <string.h>

#include "calibrate/links/links_internal.h"

#define GB_PER_S 1e9

static bool is_copy(const dl_link_log *log)
{
    if (log->word_count != 2) return false;
    const char *name = log->words[0];
    return (strstr(name, "_to_") != NULL || strstr(name, "_and_") != NULL) &&
           (strstr(name, "_by_dma") != NULL || strstr(name, "_by_sm") != NULL);
}

/* Adds the rate of a line. The word is the pair; with N for each number it is the test's name. */
static dl_status take_copy(dl_link_data *data, const dl_link_log *log, dl_error *err)
{
    char name[DL_LINK_LINE_BYTES];
    size_t length = 0;
    for (const char *c = log->words[0]; *c != '\0'; c++) {
        if (!isdigit((unsigned char)*c)) {
            name[length++] = *c;
        } else if (length > 0 && name[length - 1] != 'N') {
            name[length++] = 'N';
        }
    }
    name[length] = '\0';
    const dl_link_rate_text rate = {
        .name = name, .pair = log->words[0], .word = log->words[1], .unit = GB_PER_S};
    return dl_link_data_add_rate(data, log, &rate, err);
}

static dl_status read(dl_link_data *data, dl_link_log *log, size_t *tables, dl_error *err)
{
    dl_status status = DL_OK;
    const size_t before = data->rate_count;
    while (status == DL_OK && dl_link_log_next(log))
        if (is_copy(log)) status = take_copy(data, log, err);
    *tables += data->rate_count - before;
    return status;
}

const dl_link_reader dl_link_gpu_copy_bw = {"gpu_copy_bw", read};
