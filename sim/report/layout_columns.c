/* Table columns of a layout. */
#include <string.h>

#include "common/alloc.h"
#include "sim/report/columns.h"

/* Returns the row's value of a key that layouts set; NULL: the key does not apply. */
static const char *text_of(const dl_result *r, const char *key)
{
    for (size_t k = 0; k < r->study->key_count; k++) {
        if (strcmp(r->study->keys[k].key, key) != 0) continue;
        const char *text = dl_study_text(r->study, r->variant, &r->row->point, k);
        return text[0] != '\0' ? text : NULL;
    }
    return NULL;
}

static dl_datum axes_of(const void *row, const dl_column *column DL_UNUSED)
{
    return dl_datum_text(text_of(row, "layout"));
}

static dl_datum micro_batch_of(const void *row, const dl_column *column DL_UNUSED)
{
    return dl_datum_text(text_of(row, "micro_batch"));
}

static dl_datum recompute_of(const void *row, const dl_column *column DL_UNUSED)
{
    return dl_datum_text(text_of(row, "recompute"));
}

/* Formats "1f1b" or "6 chunks". */
static dl_datum schedule_of(const void *row, const dl_column *column DL_UNUSED)
{
    const char *chunks = text_of(row, "chunks");
    if (chunks != NULL) return dl_datum_owned_text(dl_format("%s chunks", chunks));
    return dl_datum_text(text_of(row, "schedule"));
}

/* Stage of ZeRO (Rajbhandari et al. 2020), from the state sharded among workers. */
static dl_datum zero_of(const void *row, const dl_column *column DL_UNUSED)
{
    static const char *const stages[][2] = {
        {"none", "0"}, {"optimizer", "1"}, {"gradients", "2"}, {"parameters", "3"}};
    const char *sharded = text_of(row, "sharded");
    for (size_t i = 0; sharded != NULL && i < DL_LENGTH(stages); i++)
        if (strcmp(sharded, stages[i][0]) == 0) return dl_datum_text(stages[i][1]);
    return dl_datum_none();
}

const dl_column dl_layout_columns[] = {
    {DL_WORD("layout"), .get = axes_of},         {DL_WORD("micro"), .get = micro_batch_of},
    {DL_WORD("recompute"), .get = recompute_of}, {DL_WORD("schedule"), .get = schedule_of},
    {DL_WORD("ZeRO"), .get = zero_of},
};
const size_t dl_layout_column_count = DL_LENGTH(dl_layout_columns);
