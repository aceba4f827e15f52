/* Programs that measure one size only:
 *
 *   nvbandwidth    Running host_to_device_memcpy_ce.
 *                  memcpy CE CPU(row) -> GPU(column) bandwidth (GB/s)
 *                             0         1
 *                   0     55.63     55.64
 *                  SUM host_to_device_memcpy_ce 111.27
 *   gpu_copy_bw    cpu_to_gpu0_by_dma_under_numa0 26.2387            GB/s */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "calibrate/links/links_lines.h"

#define RATE_MAX 1e9 /* GB/s, or ns: anything above is no measurement */

typedef struct state {
    char test[96];
    bool is_latency;
    double unit;       /* of a matrix; 0 = none is open */
    bool columns_next; /* the line with the columns' numbers comes */
    size_t columns;    /* 0 = not inside a matrix */
    char column[DL_LINK_WORDS_MAX][16];
} state;

static dl_status add(dl_link_data *data, const dl_link_log *log, const state *s, const char *name,
                     const char *pair, const char *word, double unit, dl_error *err)
{
    double value = 0;
    const dl_status status = dl_link_log_number(log, word, 0, RATE_MAX, &value, err);
    if (status != DL_OK) return status;
    if (value <= 0) return DL_OK; /* nvbandwidth: not possible between these two */
    dl_link_data_add_rate(data, &(dl_link_rate){.path = (char *)log->path,
                                                .name = (char *)name,
                                                .pair = (char *)pair,
                                                .value = value * unit,
                                                .is_latency = s->is_latency,
                                                .line = log->line});
    return DL_OK;
}

/* "memcpy CE GPU(row) -> GPU(column) bandwidth (GB/s)", "... latency (ns)" */
static void open_matrix(state *s, const dl_link_log *log)
{
    s->is_latency = strstr(log->text, "(ns)") != NULL || strstr(log->text, "(us)") != NULL;
    s->unit = strstr(log->text, "(us)") != NULL ? 1e3 : s->is_latency ? 1 : 1e9;
    s->columns_next = true;
    s->columns = 0;
}

static void take_columns(state *s, const dl_link_log *log)
{
    s->columns_next = false;
    s->columns = log->word_count;
    for (size_t i = 0; i < s->columns; i++)
        snprintf(s->column[i], sizeof s->column[i], "%s", log->words[i]);
}

static dl_status take_cells(dl_link_data *data, const state *s, const dl_link_log *log,
                            dl_error *err)
{
    dl_status status = DL_OK;
    if (log->word_count != s->columns + 1) {
        return dl_link_log_error(log, DL_ERR_PARSE, err, "%zu cells where the matrix has %zu",
                                 log->word_count - 1, s->columns);
    }
    for (size_t i = 0; i < s->columns && status == DL_OK; i++) {
        char pair[48];
        const char *cell = log->words[i + 1];
        if (strcmp(cell, "N/A") == 0) continue;
        snprintf(pair, sizeof pair, "%.15s %.15s", log->words[0], s->column[i]);
        status = add(data, log, s, s->test, pair, cell, s->unit, err);
    }
    return status;
}

/* "Running host_to_device_memcpy_ce." */
static bool take_test(state *s, const dl_link_log *log)
{
    if (log->word_count < 2 || strcmp(log->words[0], "Running") != 0 ||
        strchr(log->words[1], '_') == NULL) {
        return false;
    }
    *s = (state){0};
    snprintf(s->test, sizeof s->test, "%s", log->words[1]);
    s->test[strcspn(s->test, ".")] = '\0';
    return true;
}

/* "cpu_to_gpu0_by_dma_under_numa0 26.2387" */
static bool is_copy_line(const dl_link_log *log)
{
    if (log->word_count != 2) return false;
    const char *name = log->words[0];
    return (strstr(name, "_to_") != NULL || strstr(name, "_and_") != NULL) &&
           (strstr(name, "_by_dma") != NULL || strstr(name, "_by_sm") != NULL);
}

/* The devices' numbers make the pair, what is left the name. */
static dl_status take_copy_line(dl_link_data *data, const dl_link_log *log, dl_error *err)
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
    return add(data, log, &(state){0}, name, log->words[0], log->words[1], 1e9, err);
}

static dl_status take_line(dl_link_data *data, state *s, const dl_link_log *log, dl_error *err)
{
    if (is_copy_line(log)) return take_copy_line(data, log, err);
    if (take_test(s, log) || s->test[0] == '\0') return DL_OK;
    if (strstr(log->text, "(row)") != NULL || strstr(log->text, "(column)") != NULL) {
        open_matrix(s, log);
    } else if (s->columns_next && log->word_count > 0) {
        take_columns(s, log);
    } else if (log->word_count == 0 || strncmp(log->words[0], "SUM", 3) == 0) {
        s->columns = 0;
    } else if (s->columns > 0) {
        return take_cells(data, s, log, err);
    }
    return DL_OK;
}

dl_status dl_link_parse_rates(dl_link_data *data, dl_link_log *log, size_t *tables, dl_error *err)
{
    state s = {0};
    dl_status status = DL_OK;
    const size_t before = data->rate_count;
    while (status == DL_OK && dl_link_log_next(log))
        status = take_line(data, &s, log, err);
    *tables += data->rate_count > before;
    return status;
}
