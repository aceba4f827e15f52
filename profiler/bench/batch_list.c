#include "profiler/bench/batch_list.h"

#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "common/units.h"

static dl_status parse_item(const char *text, size_t bytes, int *batch, dl_error *err)
{
    dl_error why = {0};
    int64_t number;
    char *item = dl_strndup(text, bytes);
    const dl_status status = dl_parse_int(item, 1, DL_BATCH_MAX, &number, &why);
    free(item);
    if (status != DL_OK) return dl_error_set(err, DL_ERR_USAGE, "--batch: %s", why.text);
    *batch = (int)number;
    return DL_OK;
}

dl_status dl_batch_list_parse(const char *text, int *batches, int *count, dl_error *err)
{
    int made[DL_BATCH_LIST_MAX];
    int n = 0;
    for (const char *item = text;; item++) {
        const size_t bytes = strcspn(item, ",");
        if (n == DL_BATCH_LIST_MAX) {
            return dl_error_set(err, DL_ERR_USAGE, "--batch %s: at most %d sizes", text,
                                DL_BATCH_LIST_MAX);
        }
        const dl_status status = parse_item(item, bytes, &made[n], err);
        if (status != DL_OK) return status;
        for (int i = 0; i < n; i++) {
            if (made[i] != made[n]) continue;
            return dl_error_set(err, DL_ERR_USAGE, "--batch %s: %d comes twice", text, made[n]);
        }
        n++;
        item += bytes;
        if (*item == '\0') break;
    }
    memcpy(batches, made, (size_t)n * sizeof *made);
    *count = n;
    return DL_OK;
}
