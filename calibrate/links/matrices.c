/* Matrices of rates and latencies, with a row and a column for each GPU or the host.
 *
 * nvbandwidth, text output, one matrix per test:
 *
 *   Running host_to_device_memcpy_ce.
 *   memcpy CE CPU(row) -> GPU(column) bandwidth (GB/s)
 *              0         1
 *    0     55.63     55.64
 *   SUM host_to_device_memcpy_ce 111.27
 *
 * p2pBandwidthLatencyTest of the CUDA samples: P2P=Disabled copies through host memory, and so does
 * P2P=Enabled between GPUs without peer access. Bidirectional rates are the sum of both directions.
 * The diagonal is a copy within a GPU's memory, counting read and written bytes.
 *
 *   Device=0 CANNOT Access Peer Device=1
 *   Unidirectional P2P=Enabled Bandwidth (P2P Writes) Matrix (GB/s)
 *      D\D     0      1
 *        0 800.15  26.32
 *        1  26.32 831.12 */
#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "calibrate/links/links_internal.h"

typedef struct matrix {
    char test[96];
    const char *diagonal; /* test name of the diagonal cells; NULL: the same test */
    bool is_latency;
    double unit;       /* ns, or bytes per second, per printed unit; 0: no matrix is open */
    bool columns_next; /* the next line holds the column numbers */
    size_t columns;    /* 0: not inside a matrix */
    bool square;       /* it has a row for each column, as between GPUs */
    size_t rows;       /* read so far */
    char column[DL_LINK_WORDS_MAX][16];
} matrix;

/* Opens a matrix with the unit of its title: "(ns)", "(us)", otherwise GB/s. */
static void open_matrix(matrix *m, const dl_link_log *log)
{
    m->is_latency = strstr(log->text, "(ns)") != NULL || strstr(log->text, "(us)") != NULL;
    m->unit = strstr(log->text, "(us)") != NULL ? 1e3 : m->is_latency ? 1 : 1e9;
    m->columns_next = true;
    m->columns = m->rows = 0;
}

/* Reads column numbers: "0 1", or "D\D 0 1". */
static void take_columns(matrix *m, const dl_link_log *log)
{
    const size_t first = !isdigit((unsigned char)log->words[0][0]);
    m->columns_next = false;
    m->columns = log->word_count - first;
    for (size_t i = 0; i < m->columns; i++)
        snprintf(m->column[i], sizeof m->column[i], "%s", log->words[i + first]);
}

static dl_status take_cells(dl_link_data *data, matrix *m, const dl_link_log *log, dl_error *err)
{
    dl_status status = DL_OK;
    m->rows++;
    if (log->word_count != m->columns + 1) {
        return dl_link_log_error(log, DL_ERR_PARSE, err, "%zu cells where the matrix has %zu",
                                 log->word_count - 1, m->columns);
    }
    for (size_t i = 0; i < m->columns && status == DL_OK; i++) {
        char pair[48];
        const char *cell = log->words[i + 1];
        const bool own = m->diagonal != NULL && strcmp(log->words[0], m->column[i]) == 0;
        if (strcmp(cell, "N/A") == 0) continue;
        snprintf(pair, sizeof pair, "%.15s %.15s", log->words[0], m->column[i]);
        const dl_link_rate_text rate = {.name = own ? m->diagonal : m->test,
                                        .pair = pair,
                                        .word = cell,
                                        .unit = m->unit,
                                        .is_latency = m->is_latency};
        status = dl_link_data_add_rate(data, log, &rate, err);
    }
    return status;
}

/* Ends the matrix; returns an error if it lacks rows. */
static dl_status end_matrix(matrix *m, const dl_link_log *log, dl_error *err)
{
    const size_t columns = m->columns;
    m->columns = 0;
    if (!m->square || m->rows >= columns) return DL_OK;
    return dl_link_log_error(log, DL_ERR_DATA, err,
                             "the matrix ends after %zu of %zu rows: the log is cut off", m->rows,
                             columns);
}

/* Reads a line of the open matrix. */
static dl_status take_matrix_line(dl_link_data *data, matrix *m, const dl_link_log *log,
                                  dl_error *err)
{
    if (m->columns_next && log->word_count > 0) {
        take_columns(m, log);
    } else if (log->word_count == 0 || !isdigit((unsigned char)log->words[0][0])) {
        return end_matrix(m, log, err);
    } else if (m->columns > 0) {
        return take_cells(data, m, log, err);
    }
    return DL_OK;
}

/* Reads the test's name from "Running host_to_device_memcpy_ce." */
static bool take_test(matrix *m, const dl_link_log *log)
{
    if (log->word_count < 2 || strcmp(log->words[0], "Running") != 0 ||
        strchr(log->words[1], '_') == NULL) {
        return false;
    }
    *m = (matrix){0};
    snprintf(m->test, sizeof m->test, "%s", log->words[1]);
    m->test[strcspn(m->test, ".")] = '\0';
    return true;
}

static dl_status take_nvbandwidth(dl_link_data *data, matrix *m, const dl_link_log *log,
                                  dl_error *err)
{
    if (take_test(m, log) || m->test[0] == '\0') return DL_OK;
    if (strstr(log->text, "(row)") == NULL && strstr(log->text, "(column)") == NULL)
        return take_matrix_line(data, m, log, err);
    open_matrix(m, log);
    m->square = strstr(log->text, "GPU(row)") != NULL && strstr(log->text, "GPU(column)") != NULL;
    return DL_OK;
}

/* Reads a title such as "Unidirectional P2P=Disabled Bandwidth Matrix (GB/s)" or "P2P=Enabled
 * Latency (P2P Writes) Matrix (us)". The second part of a latency matrix holds the call's time on
 * the host. */
static bool take_title(matrix *m, const dl_link_log *log)
{
    const char *mode = strstr(log->text, "P2P=");
    if (mode == NULL || strstr(log->text, "Matrix") == NULL) return false;
    const bool enabled = strncmp(mode, "P2P=Enabled", 11) == 0;
    const bool both = strstr(log->text, "Bidirectional") != NULL;
    open_matrix(m, log);
    m->square = true;
    m->diagonal =
        m->is_latency ? "copy within a GPU's memory, latency" : "copy within a GPU's memory";
    snprintf(m->test, sizeof m->test, "%s%s",
             m->is_latency ? "GPU to GPU latency"
             : both        ? "GPU and GPU"
                           : "GPU to GPU",
             enabled ? ", P2P=Enabled" : ", P2P=Disabled");
    return true;
}

static dl_status take_p2p(dl_link_data *data, matrix *m, const dl_link_log *log, dl_error *err)
{
    if (strstr(log->text, " Access Peer Device=") != NULL)
        *(strstr(log->text, " CANNOT ") != NULL ? &data->peerless : &data->peers) += 1;
    if (take_title(m, log)) return DL_OK;
    /* The host's times of the calls follow the latency matrix; they are skipped. */
    if (m->is_latency && log->word_count > 0 && strcmp(log->words[0], "CPU") == 0) m->unit = 0;
    return m->unit > 0 ? take_matrix_line(data, m, log, err) : DL_OK;
}

static dl_status read(dl_link_data *data, dl_link_log *log, size_t *tables, dl_error *err,
                      dl_status (*take)(dl_link_data *data, matrix *m, const dl_link_log *log,
                                        dl_error *err))
{
    matrix m = {0};
    dl_status status = DL_OK;
    const size_t before = data->rate_count;
    while (status == DL_OK && dl_link_log_next(log))
        status = take(data, &m, log, err);
    if (status == DL_OK) status = end_matrix(&m, log, err);
    *tables += data->rate_count - before;
    return status;
}

static dl_status read_nvbandwidth(dl_link_data *data, dl_link_log *log, size_t *tables,
                                  dl_error *err)
{
    return read(data, log, tables, err, take_nvbandwidth);
}

static dl_status read_p2p(dl_link_data *data, dl_link_log *log, size_t *tables, dl_error *err)
{
    return read(data, log, tables, err, take_p2p);
}

const dl_link_reader dl_link_nvbandwidth = {"nvbandwidth", read_nvbandwidth};
const dl_link_reader dl_link_p2p_test = {"p2pBandwidthLatencyTest", read_p2p};
