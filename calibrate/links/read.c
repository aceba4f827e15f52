#include "calibrate/links/links.h"

#include <ctype.h>
#include <gsl/gsl_statistics_double.h>
#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "calibrate/fit.h"
#include "common/alloc.h"
#include "common/file.h"
#include "common/names.h"
#include "common/sort.h"
#include "common/status.h"
#include "common/units.h"
#include "trace/dlt/dlt.h"

/* Longer lines are no tables and are cut; so are lines with more words. */
#define LINE_BYTES 1024
#define WORDS_MAX 96

typedef struct link_log {
    const char *path;
    const char *at, *end;  /* what is still to be read */
    int line;              /* number of the present one */
    char text[LINE_BYTES]; /* the present line, without its end */
    char words_text[LINE_BYTES];
    char *words[WORDS_MAX]; /* [word_count] borrowed from words_text */
    size_t word_count;
} link_log;

/* Least and greatest time that is believed, in ns: 1 ps, 11 days. */
#define TIME_MIN_NS 1e-3
#define TIME_MAX_NS 1e15

/* Greatest size. */
#define BYTES_MAX 1e15

const char *const dl_link_place_names[3] = {"", "out of place", "in place"};

static bool same_text(const char *a, const char *b)
{
    return (a == NULL || b == NULL) ? a == b : strcmp(a, b) == 0;
}

static char *copy_text(const char *text)
{
    return text != NULL ? dl_strdup(text) : NULL;
}

/* The series that equals *key in all but points, or a new one with copies of its texts. Valid until
 * the next call. */
static dl_link_series *find_series(dl_link_data *data, const dl_link_series *key)
{
    for (size_t i = 0; i < data->series_count; i++) {
        dl_link_series *s = &data->series[i];
        if (same_text(s->path, key->path) && same_text(s->name, key->name) &&
            same_text(s->device, key->device) && s->collective == key->collective &&
            s->ranks == key->ranks && s->nodes == key->nodes && s->place == key->place) {
            return s;
        }
    }
    dl_link_series *s = &DL_APPEND(data->series, data->series_count, "series");
    *s = *key;
    s->path = copy_text(key->path);
    s->name = copy_text(key->name);
    s->device = copy_text(key->device);
    s->points = NULL;
    s->starts = NULL;
    s->count = s->start_count = 0;
    return s;
}

/* One more point of the series that equals *key. */
static dl_link_point *add_point(dl_link_data *data, const dl_link_series *key)
{
    dl_link_series *series = find_series(data, key);
    return &DL_APPEND(series->points, series->count, "points");
}

void dl_link_data_add(dl_link_data *data, const dl_link_series *key, dl_link_point point)
{
    *add_point(data, key) = point;
}

DL_ORDER(by_size, dl_link_point, DL_BY(bytes), DL_BY(line));

/* Points of one size as one. */
static dl_link_point merged(const dl_link_point *points, size_t n)
{
    if (n == 1) return points[0];
    double *times = dl_calloc(n, sizeof *times, "times of a size");
    dl_link_point all = points[0];
    for (size_t i = 0; i < n; i++) {
        times[i] = points[i].time_ns;
        all.error_frac = fmin(all.error_frac, points[i].error_frac);
    }
    const dl_estimate median = dl_fit_median(times, n);
    all.time_ns = median.value;
    all.count = (int64_t)n;
    if (n >= 3) all.error_frac = fmax(all.error_frac, median.error / median.value);
    free(times);
    return all;
}

DL_ORDER(by_start, dl_link_point, DL_BY(start), DL_BY(line));

static double time_of_size(const dl_link_series *series, double bytes)
{
    size_t i = 0;
    while (i + 1 < series->count && series->points[i].bytes < bytes)
        i++;
    return series->points[i].time_ns;
}

/* Standard error of a median of n values, over their standard deviation: that of a mean times
 * sqrt(pi / 2) (normal values, many of them); of two it is their mean. */
static double median_error(int64_t n)
{
    return sqrt((n > 2 ? M_PI / 2 : 1) / (double)n);
}

/* How much the starts differ: the standard error of their median. */
static void find_start_error(dl_link_series *series)
{
    double *logs = dl_calloc(series->start_count, sizeof *logs, "starts");
    for (size_t k = 0; k < series->start_count; k++)
        logs[k] = log(series->starts[k]);
    series->start_error_frac =
        gsl_stats_sd(logs, 1, series->start_count) * median_error((int64_t)series->start_count);
    free(logs);
}

/* What the sizes of a start scatter by besides, in ns: of all[n] in the order of the starts. The
 * same for all sizes, as each time is a difference of two steps that are much longer. */
static void find_scatter(dl_link_series *series, const dl_link_point *all, size_t n)
{
    const double free_points = (double)n - (double)(series->count + series->start_count) + 1;
    double squares = 0;
    size_t k = 0;
    if (!(free_points > 0)) return;
    for (size_t i = 0; i < n; i++) {
        if (i > 0 && all[i].start != all[i - 1].start) k++;
        const double off = all[i].time_ns - series->starts[k] * time_of_size(series, all[i].bytes);
        squares += off * off;
    }
    const double sd_ns = sqrt(squares / free_points);
    for (size_t i = 0; i < series->count; i++) {
        dl_link_point *point = &series->points[i];
        point->error_frac = sd_ns * median_error(point->count) / point->time_ns;
    }
}

/* Of all[n], which the series' points were merged from: each start's times over those of the same
 * sizes, and errors. */
static void find_starts(dl_link_series *series, dl_link_point *all, size_t n)
{
    dl_sort(all, n, sizeof *all, by_start);
    if (n == 0 || all[0].start == 0 || all[0].start == all[n - 1].start) return;
    for (size_t i = 0; i < n;) {
        const int start = all[i].start;
        double own_ns = 0, typical_ns = 0;
        for (; i < n && all[i].start == start; i++) {
            own_ns += all[i].time_ns;
            typical_ns += time_of_size(series, all[i].bytes);
        }
        DL_APPEND(series->starts, series->start_count, "starts") = own_ns / typical_ns;
    }
    find_start_error(series);
    find_scatter(series, all, n);
}

static void finish_series(dl_link_series *series)
{
    size_t kept = 0;
    const size_t n = series->count;
    dl_sort(series->points, n, sizeof *series->points, by_size);
    dl_link_point *all = dl_calloc(n, sizeof *all, "points");
    for (size_t i = 0; i < n; i++)
        all[i] = series->points[i];
    for (size_t i = 0, end; i < n; i = end) {
        for (end = i + 1; end < n; end++) {
            if (all[end].bytes > all[i].bytes) break;
        }
        series->points[kept++] = merged(&all[i], end - i);
    }
    series->count = kept;
    series->one_start = n > 0 && all[0].start > 0;
    for (size_t i = 1; i < n; i++)
        series->one_start &= all[i].start == all[0].start;
    find_starts(series, all, n);
    free(all);
}

void dl_link_data_finish(dl_link_data *data)
{
    for (size_t i = 0; i < data->series_count; i++)
        finish_series(&data->series[i]);
}

void dl_link_data_free(dl_link_data *data)
{
    for (size_t i = 0; i < data->series_count; i++) {
        free(data->series[i].path);
        free(data->series[i].name);
        free(data->series[i].device);
        free(data->series[i].points);
        free(data->series[i].starts);
    }
    for (size_t i = 0; i < data->rate_count; i++) {
        free(data->rates[i].path);
        free(data->rates[i].name);
        free(data->rates[i].pair);
    }
    free(data->series);
    free(data->rates);
    *data = (dl_link_data){0};
}

/* Length of "[1,0]<stdout>:" (mpirun --tag-output) or " 3: " (srun --label) at the start of a line,
 * or 0. */
static size_t tag_length(const char *text)
{
    const size_t blanks = strspn(text, " "), digits = strspn(text + blanks, "0123456789");
    if (digits > 0 && text[blanks + digits] == ':') {
        const char after = text[blanks + digits + 1];
        return after == ' ' || after == '\0' ? blanks + digits + 1 : 0;
    }
    const char *end = text[0] == '[' ? strchr(text, ']') : NULL;
    if (end == NULL || end[1] != '<') return 0;
    end = strstr(end, ">:");
    return end != NULL ? (size_t)(end - text) + 2 : 0;
}

static void split(link_log *log)
{
    char *rest = NULL;
    memcpy(log->words_text, log->text, sizeof log->words_text);
    log->word_count = 0;
    for (char *word = strtok_r(log->words_text, " \t\r", &rest);
         word != NULL && log->word_count < WORDS_MAX; word = strtok_r(NULL, " \t\r", &rest)) {
        log->words[log->word_count++] = word;
    }
}

/* Goes to the next line, without what mpirun --tag-output or srun --label put in front; false at
 * the end. A NUL counts as a blank. */
static bool log_next(link_log *log)
{
    if (log->at == log->end) return false;
    const char *feed = memchr(log->at, '\n', (size_t)(log->end - log->at));
    const size_t length = (size_t)((feed != NULL ? feed : log->end) - log->at);
    const size_t kept = length < sizeof log->text - 1 ? length : sizeof log->text - 1;
    memcpy(log->text, log->at, kept);
    log->text[kept] = '\0';
    for (size_t i = 0; i < kept; i++) {
        if (log->text[i] == '\0') log->text[i] = ' ';
    }
    log->at = feed != NULL ? feed + 1 : log->end;
    log->line++;
    const size_t tag = tag_length(log->text);
    memmove(log->text, log->text + tag, kept + 1 - tag);
    split(log);
    return true;
}

/* Error about the present line. */
#define log_error(log, code, err, ...) \
    dl_error_set_at((err), (code), (log)->path, (log)->line, __VA_ARGS__)

/* The word as a number low < number < high. */
static dl_status log_number(const link_log *log, const char *word, double low, double high,
                            double *number, dl_error *err)
{
    dl_error inner = {0};
    double value;
    const dl_status status = dl_parse_double(word, low, high, &value, &inner);
    if (status != DL_OK) return log_error(log, status, err, "%s", inner.text);
    *number = value;
    return DL_OK;
}

/* Half a unit of the last digit of `word` (a number > 0), over its value, as a standard error (that
 * of equal chances between both ends). */
static double digits_error(const char *word, double value)
{
    const char *point = strchr(word, '.');
    const double digits = point != NULL ? (double)strspn(point + 1, "0123456789") : 0;
    return pow(10, -digits) / 2 / value / sqrt(3);
}

/* Samples of dlprof bench: copies and all-reduces (profiler/bench/bench_gpu.h, trace/record.h). */

/* Names of the trace and of the series; the others are no copies. */
static const struct {
    const char *record, *series;
    bool collective;
} bench_samples[] = {
    {"copy", "copy", false},
    {"h2d", "h2d", false},
    {"d2h", "d2h", false},
    {"h2d_pageable", "h2d pageable", false},
    {"d2h_pageable", "d2h pageable", false},
    {"h2d_with_d2h", "h2d with d2h", false},
    {"p2p", "p2p", false},
    {"all_reduce", "allreduce", true},
};

static bool take(dl_link_data *data, const dl_trace *trace, const dl_record *record)
{
    const char *name = dl_trace_name(trace, record);
    size_t i = 0;
    while (i < sizeof bench_samples / sizeof *bench_samples &&
           strcmp(bench_samples[i].record, name) != 0)
        i++;
    if (i == sizeof bench_samples / sizeof *bench_samples || record->bytes == 0 ||
        record->duration_ns <= 0) {
        return false;
    }
    const dl_link_series key = {
        .path = trace->path,
        .name = (char *)bench_samples[i].series,
        .device = (char *)dl_trace_meta(trace, "device"),
        .collective = bench_samples[i].collective,
        .ranks = record->threads < INT32_MAX ? (int)record->threads : 0,
        .nodes = 1,
        .place = bench_samples[i].collective ? DL_LINK_IN_PLACE : DL_LINK_ANYWHERE,
    };
    *add_point(data, &key) = (dl_link_point){
        .bytes = (double)record->bytes, .time_ns = (double)record->duration_ns, .count = 1};
    return true;
}

/* Adds the samples of a trace of dlprof bench. */
static dl_status read_bench(dl_link_data *data, const char *path, dl_error *err)
{
    dl_trace trace = {0};
    size_t taken = 0;
    dl_status status = dl_trace_read(&trace, path, err);
    if (status != DL_OK) return status;
    for (size_t i = 0; i < trace.record_count; i++) {
        const dl_record *record = &trace.records[i];
        if (record->kind == DL_RECORD_BENCH) taken += take(data, &trace, record);
    }
    dl_trace_free(&trace);
    if (taken > 0) return DL_OK;
    return dl_error_set_at(err, DL_ERR_DATA, path, 0,
                           "it holds no copies and no collectives of dlprof bench");
}

/* bandwidthTest of the CUDA samples, in both of its forms:
 *
 *   bandwidthTest-H2D-Pinned, Bandwidth = 12.3 GB/s, Time = 0.00049 s, Size = 6000000 bytes, ...
 *
 *    Host to Device Bandwidth, 1 Device(s)
 *    PINNED Memory Transfers
 *      Transfer Size (Bytes)        Bandwidth(GB/s)
 *      32000000                     12.4
 *
 * Of rate and time the one that is printed to more digits gives the time of a copy. */

typedef struct cuda_state {
    char device[128];
    const char *direction; /* "h2d", ... ; NULL = none yet */
    bool pageable;
    double unit; /* bytes per second; 0 = outside a table */
} cuda_state;

static dl_status add_copy(dl_link_data *data, const cuda_state *s, const link_log *log,
                          const dl_link_point *point)
{
    char name[32];
    snprintf(name, sizeof name, "%s%s", s->direction, s->pageable ? " pageable" : "");
    const dl_link_series key = {
        .path = (char *)log->path,
        .name = name,
        .device = s->device[0] != '\0' ? (char *)s->device : NULL,
        .ranks = 1,
    };
    *add_point(data, &key) = *point;
    return DL_OK;
}

/* "Size = 6000000": the word after "=" after `name`; NULL = not there. */
static const char *value_of(const link_log *log, const char *name)
{
    for (size_t i = 0; i + 2 < log->word_count; i++) {
        if (strcmp(log->words[i], name) == 0 && strcmp(log->words[i + 1], "=") == 0)
            return log->words[i + 2];
    }
    return NULL;
}

/* Bytes a second of a unit; 0 = unknown. */
static double rate_unit(const char *text)
{
    if (strstr(text, "GB/s") != NULL) return 1e9;
    if (strstr(text, "MB/s") != NULL) return 1e6;
    return 0;
}

static dl_status take_line_form(dl_link_data *data, cuda_state *s, const link_log *log,
                                dl_error *err)
{
    const char *rate_word = value_of(log, "Bandwidth"), *time_word = value_of(log, "Time");
    const char *size_word = value_of(log, "Size");
    const double unit = rate_unit(log->text);
    double rate = 0, time_s = 0;
    dl_link_point point = {.count = 1, .line = log->line};
    if (rate_word == NULL || time_word == NULL || size_word == NULL || unit <= 0) {
        return log_error(log, DL_ERR_PARSE, err,
                         "want Bandwidth = NUMBER GB/s, Time = NUMBER s, Size = NUMBER");
    }
    dl_status status;
    if ((status = log_number(log, rate_word, 1e-9, 1e9, &rate, err)) ||
        (status = log_number(log, time_word, 0, TIME_MAX_NS / DL_NS_PER_S, &time_s, err)) ||
        (status = log_number(log, size_word, 1, BYTES_MAX, &point.bytes, err))) {
        return status;
    }
    const double rate_error = digits_error(rate_word, rate);
    const double time_error = time_s > 0 ? digits_error(time_word, time_s) : (double)INFINITY;
    point.time_ns = (rate_error <= time_error ? point.bytes / (rate * unit) : time_s) * DL_NS_PER_S;
    point.error_frac = fmin(rate_error, time_error);
    return add_copy(data, s, log, &point);
}

static dl_status take_cuda_row(dl_link_data *data, const cuda_state *s, const link_log *log,
                               dl_error *err)
{
    double rate = 0;
    dl_link_point point = {.count = 1, .line = log->line};
    dl_status status;
    if ((status = log_number(log, log->words[0], 1, BYTES_MAX, &point.bytes, err)) ||
        (status = log_number(log, log->words[1], 1e-9, 1e9, &rate, err))) {
        return status;
    }
    point.time_ns = point.bytes / (rate * s->unit) * DL_NS_PER_S;
    point.error_frac = digits_error(log->words[1], rate);
    return add_copy(data, s, log, &point);
}

static const char *direction_of(const char *text)
{
    if (strstr(text, "Host to Device") != NULL || strstr(text, "-H2D-") != NULL) return "h2d";
    if (strstr(text, "Device to Host") != NULL || strstr(text, "-D2H-") != NULL) return "d2h";
    if (strstr(text, "Device to Device") != NULL || strstr(text, "-D2D") != NULL) return "d2d";
    return NULL;
}

/* " Device 0: Tesla V100-PCIE-32GB" */
static void take_device(cuda_state *s, const link_log *log)
{
    const char *model = strchr(log->text, ':');
    if (s->device[0] != '\0' || model == NULL) return;
    model++;
    model += strspn(model, " \t");
    snprintf(s->device, sizeof s->device, "%.*s", (int)strcspn(model, "\r"), model);
}

static dl_status take_cuda_line(dl_link_data *data, cuda_state *s, const link_log *log,
                                size_t *tables, dl_error *err)
{
    if (log->word_count > 2 && strcmp(log->words[0], "Device") == 0) take_device(s, log);
    const char *direction = direction_of(log->text);
    if (direction != NULL) {
        s->direction = direction;
        s->unit = 0;
    }
    if (strstr(log->text, "PINNED") != NULL) s->pageable = false;
    if (strstr(log->text, "PAGEABLE") != NULL) s->pageable = true;
    if (strncmp(log->text, "bandwidthTest-", 14) == 0 && direction != NULL) {
        s->pageable = strstr(log->text, "-Paged") != NULL;
        (*tables)++;
        return take_line_form(data, s, log, err);
    }
    if (strstr(log->text, "Transfer Size (Bytes)") != NULL) s->unit = rate_unit(log->text);
    if (s->unit <= 0 || s->direction == NULL || log->word_count != 2 ||
        strspn(log->words[0], "0123456789") == 0) {
        return DL_OK;
    }
    (*tables)++;
    return take_cuda_row(data, s, log, err);
}

static dl_status parse_cuda(dl_link_data *data, link_log *log, size_t *tables, dl_error *err)
{
    cuda_state s = {0};
    dl_status status = DL_OK;
    while (status == DL_OK && log_next(log))
        status = take_cuda_line(data, &s, log, tables, err);
    return status;
}

/* Programs that measure one size only:
 *
 *   nvbandwidth    Running host_to_device_memcpy_ce.
 *                  memcpy CE CPU(row) -> GPU(column) bandwidth (GB/s)
 *                             0         1
 *                   0     55.63     55.64
 *                  SUM host_to_device_memcpy_ce 111.27
 *   gpu_copy_bw    cpu_to_gpu0_by_dma_under_numa0 26.2387            GB/s */

#define RATE_MAX 1e9 /* GB/s, or ns: anything above is no measurement */

typedef struct rates_state {
    char test[96];
    bool is_latency;
    double unit;       /* of a matrix; 0 = none is open */
    bool columns_next; /* the line with the columns' numbers comes */
    size_t columns;    /* 0 = not inside a matrix */
    char column[WORDS_MAX][16];
} rates_state;

static dl_status add_rate(dl_link_data *data, const link_log *log, const rates_state *s,
                          const char *name, const char *pair, const char *word, double unit,
                          dl_error *err)
{
    double value = 0;
    const dl_status status = log_number(log, word, 0, RATE_MAX, &value, err);
    if (status != DL_OK) return status;
    if (value <= 0) return DL_OK; /* nvbandwidth: not possible between these two */
    DL_APPEND(data->rates, data->rate_count, "rates") = (dl_link_rate){.path = dl_strdup(log->path),
                                                                       .name = dl_strdup(name),
                                                                       .pair = dl_strdup(pair),
                                                                       .value = value * unit,
                                                                       .is_latency = s->is_latency,
                                                                       .line = log->line};
    return DL_OK;
}

/* "memcpy CE GPU(row) -> GPU(column) bandwidth (GB/s)", "... latency (ns)" */
static void open_matrix(rates_state *s, const link_log *log)
{
    s->is_latency = strstr(log->text, "(ns)") != NULL || strstr(log->text, "(us)") != NULL;
    s->unit = strstr(log->text, "(us)") != NULL ? 1e3 : s->is_latency ? 1 : 1e9;
    s->columns_next = true;
    s->columns = 0;
}

static void take_columns(rates_state *s, const link_log *log)
{
    s->columns_next = false;
    s->columns = log->word_count;
    for (size_t i = 0; i < s->columns; i++)
        snprintf(s->column[i], sizeof s->column[i], "%s", log->words[i]);
}

static dl_status take_cells(dl_link_data *data, const rates_state *s, const link_log *log,
                            dl_error *err)
{
    dl_status status = DL_OK;
    if (log->word_count != s->columns + 1) {
        return log_error(log, DL_ERR_PARSE, err, "%zu cells where the matrix has %zu",
                         log->word_count - 1, s->columns);
    }
    for (size_t i = 0; i < s->columns && status == DL_OK; i++) {
        char pair[48];
        const char *cell = log->words[i + 1];
        if (strcmp(cell, "N/A") == 0) continue;
        snprintf(pair, sizeof pair, "%.15s %.15s", log->words[0], s->column[i]);
        status = add_rate(data, log, s, s->test, pair, cell, s->unit, err);
    }
    return status;
}

/* "Running host_to_device_memcpy_ce." */
static bool take_test(rates_state *s, const link_log *log)
{
    if (log->word_count < 2 || strcmp(log->words[0], "Running") != 0 ||
        strchr(log->words[1], '_') == NULL) {
        return false;
    }
    *s = (rates_state){0};
    snprintf(s->test, sizeof s->test, "%s", log->words[1]);
    s->test[strcspn(s->test, ".")] = '\0';
    return true;
}

/* "cpu_to_gpu0_by_dma_under_numa0 26.2387" */
static bool is_copy_line(const link_log *log)
{
    if (log->word_count != 2) return false;
    const char *name = log->words[0];
    return (strstr(name, "_to_") != NULL || strstr(name, "_and_") != NULL) &&
           (strstr(name, "_by_dma") != NULL || strstr(name, "_by_sm") != NULL);
}

/* The devices' numbers make the pair, what is left the name. */
static dl_status take_copy_line(dl_link_data *data, const link_log *log, dl_error *err)
{
    char name[LINE_BYTES];
    size_t length = 0;
    for (const char *c = log->words[0]; *c != '\0'; c++) {
        if (!isdigit((unsigned char)*c)) {
            name[length++] = *c;
        } else if (length > 0 && name[length - 1] != 'N') {
            name[length++] = 'N';
        }
    }
    name[length] = '\0';
    return add_rate(data, log, &(rates_state){0}, name, log->words[0], log->words[1], 1e9, err);
}

static dl_status take_rates_line(dl_link_data *data, rates_state *s, const link_log *log,
                                 dl_error *err)
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

static dl_status parse_rates(dl_link_data *data, link_log *log, size_t *tables, dl_error *err)
{
    rates_state s = {0};
    dl_status status = DL_OK;
    const size_t before = data->rate_count;
    while (status == DL_OK && log_next(log))
        status = take_rates_line(data, &s, log, err);
    *tables += data->rate_count > before;
    return status;
}

/* nccl-tests: "# ..." lines about devices, a head, and a row per size.
 *
 *   # Collective test starting: all_reduce_perf                        from version 2.17 on
 *   #  Rank  0 Group  0 Pid 41 on host device  0 [0000:1b:00] NVIDIA H100
 *   #       size   count   type  redop  root   time  algbw  busbw #wrong   time  algbw  busbw
 *           #wrong
 *        1048576  262144  float    sum    -1  74.78  14.02  24.54      0  76.17  13.77  24.09    
 *                  0
 *
 * Columns redop and root are missing where older versions have no use for them; the first group of
 * times is out of place. Sizes are bytes, times microseconds of a call. The '#' of all these lines
 * may be gone, and so may all lines but the rows: what the columns are follows from the row then,
 * and how many ranks there are from busbw / algbw. */

#define NS_PER_US 1e3
#define HOSTS_MAX 1024
#define PLACES 2
#define FACTOR_MARGIN 0.05 /* relative; of two rates printed to three digits */

static const struct {
    const char *program, *name; /* program without "_perf" */
    bool redop, root;           /* columns that say something */
    double others, constant;    /* busbw / algbw = others x (n - 1) / n + constant, of n ranks
                                 * (nccl-tests, doc/PERFORMANCE.md); NaN = unknown */
} collectives[] = {
    {"all_reduce", "allreduce", true, false, 2, 0},
    {"reduce_scatter", "reducescatter", true, false, 1, 0},
    {"all_gather", "allgather", false, false, 1, 0},
    {"alltoall", "alltoall", false, false, 1, 0},
    {"broadcast", "broadcast", false, true, 0, 1},
    {"reduce", "reduce", true, true, 0, 1},
    {"sendrecv", "sendrecv", true, false, 0, 1},
    {"gather", "gather", false, true, 1, 0},
    {"scatter", "scatter", false, true, 1, 0},
    {"hypercube", "hypercube", false, false, NAN, NAN},
};

typedef struct nccl_state {
    char *device;
    char *hosts[HOSTS_MAX];
    int ranks, nodes;
    bool listed;    /* ranks one by one */
    int collective; /* index, -1 = not said */
    bool headless;  /* the columns are those of a row, without a head */
    double bytes;   /* of the row before */
    /* Of the head: columns; count 0 = there was none. */
    size_t columns, time[PLACES], redop, root; /* 0 = there is none */
} nccl_state;

static void forget_devices(nccl_state *s)
{
    for (int i = 0; i < s->nodes; i++)
        free(s->hosts[i]);
    free(s->device);
    s->device = NULL;
    s->ranks = s->nodes = 0;
    s->listed = false;
}

static void add_host(nccl_state *s, const char *host)
{
    for (int i = 0; i < s->nodes; i++) {
        if (strcmp(s->hosts[i], host) == 0) return;
    }
    if (s->nodes < HOSTS_MAX) s->hosts[s->nodes++] = dl_strdup(host);
}

/* "#  Rank  0 Group  0 Pid 41 on host device  0 [0x1b] NVIDIA H100" */
static void take_rank(nccl_state *s, const link_log *log)
{
    if (!s->listed) s->ranks = 0;
    s->listed = true;
    s->ranks++;
    for (size_t i = 2; i + 1 < log->word_count; i++) {
        if (strcmp(log->words[i], "on") == 0) add_host(s, log->words[i + 1]);
    }
    const char *model = strchr(log->text, ']');
    if (model == NULL || s->device != NULL) return;
    model++;
    model += strspn(model, " \t");
    size_t length = strlen(model);
    while (length > 0 && isspace((unsigned char)model[length - 1]))
        length--;
    if (length > 0) s->device = dl_strndup(model, length);
}

static dl_status take_program(nccl_state *s, const link_log *log, dl_error *err)
{
    const char *names[DL_LENGTH(collectives)];
    char program[64], hint[256];
    snprintf(program, sizeof program, "%s", log->words[log->word_count - 1]);
    char *end = strstr(program, "_perf");
    if (end != NULL) *end = '\0';
    for (size_t i = 0; i < DL_LENGTH(collectives); i++)
        names[i] = collectives[i].program;
    s->columns = 0;
    s->collective = dl_names_find(program, names, DL_LENGTH(names));
    if (s->collective >= 0) return DL_OK;
    dl_names_hint(hint, sizeof hint, program, names, DL_LENGTH(names));
    return log_error(log, DL_ERR_NAME, err, "unknown test '%s'%s", program, hint);
}

/* Takes the '#' of a comment off its first word, or that word out. */
static void drop_hash(link_log *log)
{
    if (log->word_count == 0 || log->words[0][0] != '#' || strcmp(log->words[0], "#wrong") == 0)
        return;
    log->words[0]++;
    if (log->words[0][0] != '\0') return;
    log->word_count--;
    memmove(log->words, log->words + 1, log->word_count * sizeof *log->words);
}

static bool is_head(const link_log *log)
{
    return log->word_count > 5 && strcmp(log->words[0], "size") == 0 &&
           strcmp(log->words[1], "count") == 0;
}

static dl_status take_head(nccl_state *s, const link_log *log, dl_error *err)
{
    size_t times = 0;
    s->redop = s->root = 0;
    for (size_t i = 0; i < log->word_count; i++) {
        const char *word = log->words[i];
        if (strcmp(word, "redop") == 0) s->redop = i;
        if (strcmp(word, "root") == 0) s->root = i;
        if (strcmp(word, "time") == 0 && times < PLACES) s->time[times++] = i;
    }
    s->columns = log->word_count;
    s->headless = false;
    if (times == PLACES && s->time[1] + 2 < s->columns) return DL_OK;
    return log_error(log, DL_ERR_PARSE, err, "want two groups of columns time, algbw, busbw");
}

static bool is_number(const char *word)
{
    return word[0] != '\0' && strspn(word, "0123456789") == strlen(word);
}

static bool is_row(const link_log *log)
{
    return log->word_count > 2 && is_number(log->words[0]) && is_number(log->words[1]);
}

static bool is_measured(const char *word)
{
    char *end = NULL;
    if (strcmp(word, "N/A") == 0) return true;
    return isdigit((unsigned char)word[0]) && (strtod(word, &end), *end == '\0');
}

/* Whether the row is one of nccl-tests by itself: size, count, a type, maybe redop and root, and
 * two groups of time, algbw, busbw, #wrong. Sets the columns then. */
static bool take_row_as_head(nccl_state *s, const link_log *log)
{
    const size_t n = log->word_count;
    enum { GROUP = 4, FIRST = 3 }; /* words of a group; those before redop */
    if (n < FIRST + PLACES * GROUP || n > FIRST + 2 + PLACES * GROUP || !is_row(log)) return false;
    if (!isalpha((unsigned char)log->words[2][0])) return false;
    const size_t between = n - FIRST - PLACES * GROUP;
    for (size_t i = FIRST + between; i < n; i++) {
        if (!is_measured(log->words[i])) return false;
    }
    s->redop = s->root = 0;
    for (size_t i = FIRST; i < FIRST + between; i++)
        *(isalpha((unsigned char)log->words[i][0]) ? &s->redop : &s->root) = i;
    s->time[0] = FIRST + between;
    s->time[1] = FIRST + between + GROUP;
    s->columns = n;
    s->headless = true;
    return true;
}

/* "none" and -1 stand where a newer version has a column without use. */
static bool says_something(const link_log *row, size_t column)
{
    return column > 0 && strcmp(row->words[column], "none") != 0 &&
           strcmp(row->words[column], "-1") != 0;
}

/* Whether the file's name holds that of the collective, with or without '_'. */
static bool named_in(const char *path, size_t collective)
{
    char simple[128];
    size_t length = 0;
    for (const char *c = dl_base_name(path); *c != '\0'; c++) {
        if (isalpha((unsigned char)*c) && length + 1 < sizeof simple)
            simple[length++] = (char)tolower((unsigned char)*c);
    }
    simple[length] = '\0';
    return strstr(simple, collectives[collective].name) != NULL;
}

/* Which collective a table without an announcement is of: from the row's columns, busbw over algbw,
 * and where that fits several the file's name. */
static dl_status guess(nccl_state *s, const link_log *row, double ratio, dl_error *err)
{
    int fits = 0, fits_by_name = 0, found = -1, found_by_name = -1;
    for (size_t i = 0; i < DL_LENGTH(collectives); i++) {
        const double others = collectives[i].others;
        const double expected =
            others != 0 ? others * (s->ranks > 0 ? (s->ranks - 1.0) / s->ranks : (double)NAN)
                        : collectives[i].constant;
        /* Without the number of ranks, n ranks >= 2 give 1/2 to 1 times `others`. */
        const bool may_be = s->ranks <= 1 && others != 0 && ratio / others < 1 &&
                            ratio / others > 0.5 * (1 - FACTOR_MARGIN);
        if (collectives[i].redop != says_something(row, s->redop) ||
            collectives[i].root != says_something(row, s->root) ||
            !(may_be || fabs(ratio / expected - 1) < FACTOR_MARGIN)) {
            continue;
        }
        fits++;
        found = (int)i;
        if (!named_in(row->path, i)) continue;
        fits_by_name++;
        found_by_name = (int)i;
    }
    s->collective = fits_by_name == 1 ? found_by_name : fits == 1 ? found : -1;
    if (s->collective >= 0) return DL_OK;
    return log_error(row, DL_ERR_DATA, err,
                     "cannot determine which collective this table is of: there is no line "
                     "'Collective test starting', so put its name into the file's "
                     "(..._allgather.log)");
}

/* busbw over algbw of the table's largest sizes, where they have most digits. */
static double find_ratio(const nccl_state *s, const link_log *first)
{
    link_log log = *first;
    double ratio = (double)NAN, best = 0, bytes = 0;
    do {
        drop_hash(&log);
        if (is_head(&log)) break;
        if (s->headless && is_row(&log)) {
            if (strtod(log.words[0], NULL) < bytes) break; /* the next table */
            bytes = strtod(log.words[0], NULL);
        }
        if (!is_row(&log) || log.word_count != s->columns) continue;
        const double algbw = strtod(log.words[s->time[0] + 1], NULL);
        const double busbw = strtod(log.words[s->time[0] + 2], NULL);
        if (!(algbw > best)) continue;
        best = algbw;
        ratio = busbw / algbw;
    } while (log_next(&log));
    return ratio;
}

/* How many ranks the ratio of two rates of three digits gives: 0 = it does not, above RANKS_KNOWN
 * or for collectives whose busbw is algbw. */
static int ranks_of(int collective, double ratio)
{
    enum { RANKS_KNOWN = 16 };
    const double share = ratio / collectives[collective].others; /* (n - 1) / n */
    if (!(collectives[collective].others > 0) || !(share > 0) || share >= 1) return 0;
    const double ranks = 1 / (1 - share);
    return ranks >= 1.5 && ranks < RANKS_KNOWN + 0.5 ? (int)lround(ranks) : 0;
}

static dl_status take_time(dl_link_data *data, const nccl_state *s, const link_log *row, int place,
                           dl_error *err)
{
    const char *word = row->words[s->time[place]];
    double bytes = 0, us = 0;
    if (strcmp(word, "N/A") == 0) return DL_OK; /* not measured in place */
    dl_status status = log_number(row, row->words[0], 0, BYTES_MAX, &bytes, err);
    if (status == DL_OK) {
        status = log_number(row, word, TIME_MIN_NS / NS_PER_US, TIME_MAX_NS / NS_PER_US, &us, err);
    }
    if (status != DL_OK) return status;
    const dl_link_series key = {
        .path = (char *)row->path,
        .name = (char *)collectives[s->collective].name,
        .device = s->device,
        .collective = true,
        .ranks = s->ranks,
        .nodes = s->nodes,
        .place = place == 0 ? DL_LINK_OUT_OF_PLACE : DL_LINK_IN_PLACE,
    };
    *add_point(data, &key) = (dl_link_point){.bytes = bytes,
                                             .time_ns = us * NS_PER_US,
                                             .error_frac = digits_error(word, us),
                                             .count = 1,
                                             .line = row->line};
    return DL_OK;
}

static dl_status take_nccl_row(dl_link_data *data, nccl_state *s, const link_log *row,
                               dl_error *err)
{
    if (row->word_count != s->columns) {
        return log_error(row, DL_ERR_PARSE, err, "%zu columns where the head has %zu",
                         row->word_count, s->columns);
    }
    dl_status status = DL_OK;
    const double bytes = strtod(row->words[0], NULL);
    if (s->headless && bytes < s->bytes) { /* the next table */
        s->collective = -1;
        s->ranks = 0;
    }
    s->bytes = bytes;
    const double ratio = s->collective < 0 || s->ranks <= 1 ? find_ratio(s, row) : 0;
    if (s->collective < 0) status = guess(s, row, ratio, err);
    if (status == DL_OK && s->ranks <= 1 && ranks_of(s->collective, ratio) > 1)
        s->ranks = ranks_of(s->collective, ratio);
    for (int place = 0; place < PLACES && status == DL_OK; place++)
        status = take_time(data, s, row, place, err);
    return status;
}

/* "# nThread 1 nGpus 8 ...": the ranks of one process, if no line gives them one by one. */
static void take_settings(nccl_state *s, const link_log *log)
{
    long count = 1;
    for (size_t i = 1; i + 1 < log->word_count; i++) {
        if (strcmp(log->words[i], "nThread") == 0 || strcmp(log->words[i], "nGpus") == 0)
            count *= strtol(log->words[i + 1], NULL, 10) % (1 << 16);
    }
    s->collective = s->columns > 0 ? -1 : s->collective;
    s->columns = 0;
    forget_devices(s);
    s->ranks = count > 0 && count < INT32_MAX ? (int)count : 0;
}

static dl_status take_nccl_line(dl_link_data *data, nccl_state *s, link_log *log, size_t *tables,
                                dl_error *err)
{
    drop_hash(log);
    const size_t n = log->word_count;
    if (n > 3 && strcmp(log->words[0], "Collective") == 0 && strcmp(log->words[1], "test") == 0 &&
        strcmp(log->words[2], "starting:") == 0) {
        return take_program(s, log, err);
    }
    if (n > 1) {
        if (strcmp(log->words[0], "nThread") == 0) take_settings(s, log);
        if (strcmp(log->words[0], "Using") == 0 && s->listed) forget_devices(s);
        if (strcmp(log->words[0], "Rank") == 0 && strstr(log->text, " Pid ") != NULL)
            take_rank(s, log);
    }
    if (is_head(log)) return take_head(s, log, err);
    if (!is_row(log) || (s->columns == 0 && !take_row_as_head(s, log))) return DL_OK;
    (*tables)++;
    return take_nccl_row(data, s, log, err);
}

static dl_status parse_nccl(dl_link_data *data, link_log *log, size_t *tables, dl_error *err)
{
    nccl_state s = {.collective = -1};
    dl_status status = DL_OK;
    while (status == DL_OK && log_next(log))
        status = take_nccl_line(data, &s, log, tables, err);
    forget_devices(&s);
    return status;
}

dl_status dl_link_data_read_text(dl_link_data *data, const char *name, const char *text,
                                 size_t bytes, dl_error *err)
{
    static dl_status (*const parsers[])(dl_link_data *, link_log *, size_t *,
                                        dl_error *) = {parse_nccl, parse_cuda, parse_rates};
    size_t tables = 0;
    dl_status status = DL_OK;
    if (dl_link_table_recognized(text, bytes))
        return dl_link_table_read(data, name, text, bytes, err);
    for (size_t i = 0; i < sizeof parsers / sizeof *parsers && status == DL_OK; i++) {
        link_log log = {.path = name, .at = text, .end = text + bytes};
        if (tables == 0) status = parsers[i](data, &log, &tables, err);
    }
    if (status != DL_OK || tables > 0) return status;
    return dl_error_set_at(err, DL_ERR_DATA, name, 0,
                           "there is no table of nccl-tests, bandwidthTest, nvbandwidth or "
                           "gpu_copy_bw in it, nor columns collective,ranks,bytes,time_us");
}

dl_status dl_link_data_read(dl_link_data *data, const char *path, dl_error *err)
{
    char *text = NULL;
    size_t bytes = 0;
    dl_status status = dl_file_read(path, &text, &bytes, err);
    if (status != DL_OK) return status;
    const bool is_trace = bytes >= 8 && memcmp(text, "DLTRACE\n", 8) == 0;
    if (!is_trace) status = dl_link_data_read_text(data, path, text, bytes, err);
    free(text);
    return is_trace ? read_bench(data, path, err) : status;
}
