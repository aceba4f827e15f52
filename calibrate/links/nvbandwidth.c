/* nvbandwidth, text output: a matrix for each test.
 *
 *   Running host_to_device_memcpy_ce.
 *   memcpy CE CPU(row) -> GPU(column) bandwidth (GB/s)
 *              0         1
 *    0     55.63     55.64
 *   SUM host_to_device_memcpy_ce 111.27 */
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "calibrate/links/links_internal.h"

typedef struct matrix_state {
    char test[96];
    bool is_latency;
    double unit;       /* of a matrix; 0 = none is open */
    bool columns_next; /* the line with the columns' numbers comes */
    size_t columns;    /* 0 = not inside a matrix */
    char column[DL_LINK_WORDS_MAX][16];
} matrix_state;

/* "memcpy CE GPU(row) -> GPU(column) bandwidth (GB/s)", "... latency (ns)" */
static void open_matrix(matrix_state *s, const dl_link_log *log)
{
    s->is_latency = strstr(log->text, "(ns)") != NULL || strstr(log->text, "(us)") != NULL;
    s->unit = strstr(log->text, "(us)") != NULL ? 1e3 : s->is_latency ? 1 : 1e9;
    s->columns_next = true;
    s->columns = 0;
}

static void take_columns(matrix_state *s, const dl_link_log *log)
{
    s->columns_next = false;
    s->columns = log->word_count;
    for (size_t i = 0; i < s->columns; i++)
        snprintf(s->column[i], sizeof s->column[i], "%s", log->words[i]);
}

static dl_status take_cells(dl_link_data *data, const matrix_state *s, const dl_link_log *log,
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
        const dl_link_rate_text rate = {.name = s->test,
                                        .pair = pair,
                                        .word = cell,
                                        .unit = s->unit,
                                        .is_latency = s->is_latency};
        status = dl_link_data_add_rate(data, log, &rate, err);
    }
    return status;
}

/* "Running host_to_device_memcpy_ce." */
static bool take_test(matrix_state *s, const dl_link_log *log)
{
    if (log->word_count < 2 || strcmp(log->words[0], "Running") != 0 ||
        strchr(log->words[1], '_') == NULL) {
        return false;
    }
    *s = (matrix_state){0};
    snprintf(s->test, sizeof s->test, "%s", log->words[1]);
    s->test[strcspn(s->test, ".")] = '\0';
    return true;
}

static dl_status take_line(dl_link_data *data, matrix_state *s, const dl_link_log *log,
                           dl_error *err)
{
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

static dl_status read(dl_link_data *data, dl_link_log *log, size_t *tables, dl_error *err)
{
    matrix_state s = {0};
    dl_status status = DL_OK;
    const size_t before = data->rate_count;
    while (status == DL_OK && dl_link_log_next(log))
        status = take_line(data, &s, log, err);
    *tables += data->rate_count - before;
    return status;
}

const dl_link_reader dl_link_nvbandwidth = {"nvbandwidth", read};
