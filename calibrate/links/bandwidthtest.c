/* bandwidthTest of the CUDA samples, in both of its forms:
 *
 *   bandwidthTest-H2D-Pinned, Bandwidth = 12.3 GB/s, Time = 0.00049 s, Size = 6000000 bytes, ...
 *
 *    Host to Device Bandwidth, 1 Device(s)
 *    PINNED Memory Transfers
 *      Transfer Size (Bytes)        Bandwidth(GB/s)
 *      32000000                     12.4
 *
 * If both rate and time are printed, the one with more digits gives the time of the copy. */
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "calibrate/links/links_internal.h"
#include "common/units.h"

typedef struct copy_state {
    char device[128];
    const char *direction; /* "h2d", ...; NULL: none yet */
    bool pageable;
    double unit; /* bytes per second per printed unit; 0: outside a table */
} copy_state;

static void add_copy(dl_link_data *data, const copy_state *s, const dl_link_log *log,
                     const dl_link_point *point)
{
    char name[32];
    snprintf(name, sizeof name, "%s%s", s->direction, s->pageable ? " pageable" : "");
    const dl_link_series key = {
        .path = (char *)log->path,
        .name = name,
        .device = s->device[0] != '\0' ? (char *)s->device : NULL,
        .ranks = 1,
        .copy = true,
    };
    dl_link_data_add(data, &key, *point);
}

/* Returns the word after `name` and "=", as in "Size = 6000000"; NULL if there is none. */
static const char *value_of(const dl_link_log *log, const char *name)
{
    for (size_t i = 0; i + 2 < log->word_count; i++) {
        if (strcmp(log->words[i], name) == 0 && strcmp(log->words[i + 1], "=") == 0)
            return log->words[i + 2];
    }
    return NULL;
}

/* Bytes per second of a unit; 0: unknown. */
static double rate_unit(const char *text)
{
    if (strstr(text, "GB/s") != NULL) return 1e9;
    if (strstr(text, "MB/s") != NULL) return 1e6;
    return 0;
}

static dl_status take_line_form(dl_link_data *data, copy_state *s, const dl_link_log *log,
                                dl_error *err)
{
    const char *rate_word = value_of(log, "Bandwidth"), *time_word = value_of(log, "Time");
    const char *size_word = value_of(log, "Size");
    const double unit = rate_unit(log->text);
    double rate = 0, time_s = 0;
    dl_link_point point = {.count = 1, .line = log->line};
    if (rate_word == NULL || time_word == NULL || size_word == NULL || unit <= 0) {
        return dl_link_log_error(log, DL_ERR_PARSE, err,
                                 "expected Bandwidth = NUMBER GB/s, Time = NUMBER s, Size = "
                                 "NUMBER");
    }
    dl_status status;
    if ((status = dl_link_log_number(log, rate_word, 1e-9, 1e9, &rate, err)) ||
        (status = dl_link_log_number(log, time_word, 0, DL_LINK_TIME_MAX_NS / DL_NS_PER_S, &time_s,
                                     err)) ||
        (status = dl_link_log_number(log, size_word, 1, DL_LINK_BYTES_MAX, &point.bytes, err))) {
        return status;
    }
    const double rate_error = dl_link_digits_error(rate_word, rate);
    const double time_error =
        time_s > 0 ? dl_link_digits_error(time_word, time_s) : (double)INFINITY;
    point.time_ns = (rate_error <= time_error ? point.bytes / (rate * unit) : time_s) * DL_NS_PER_S;
    point.error_frac = fmin(rate_error, time_error);
    add_copy(data, s, log, &point);
    return DL_OK;
}

static dl_status take_row(dl_link_data *data, const copy_state *s, const dl_link_log *log,
                          dl_error *err)
{
    double rate = 0;
    dl_link_point point = {.count = 1, .line = log->line};
    dl_status status;
    if ((status =
             dl_link_log_number(log, log->words[0], 1, DL_LINK_BYTES_MAX, &point.bytes, err)) ||
        (status = dl_link_log_number(log, log->words[1], 1e-9, 1e9, &rate, err))) {
        return status;
    }
    point.time_ns = point.bytes / (rate * s->unit) * DL_NS_PER_S;
    point.error_frac = dl_link_digits_error(log->words[1], rate);
    add_copy(data, s, log, &point);
    return DL_OK;
}

static const char *direction_of(const char *text)
{
    if (strstr(text, "Host to Device") != NULL || strstr(text, "-H2D-") != NULL) return "h2d";
    if (strstr(text, "Device to Host") != NULL || strstr(text, "-D2H-") != NULL) return "d2h";
    if (strstr(text, "Device to Device") != NULL || strstr(text, "-D2D") != NULL) return "d2d";
    return NULL;
}

/* Stores the model from a line such as " Device 0: Tesla V100-PCIE-32GB". */
static void take_device(copy_state *s, const dl_link_log *log)
{
    const char *model = strchr(log->text, ':');
    if (s->device[0] != '\0' || model == NULL) return;
    model++;
    model += strspn(model, " \t");
    snprintf(s->device, sizeof s->device, "%.*s", (int)strcspn(model, "\r"), model);
}

static dl_status take_line(dl_link_data *data, copy_state *s, const dl_link_log *log,
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
    return take_row(data, s, log, err);
}

static dl_status parse(dl_link_data *data, dl_link_log *log, size_t *tables, dl_error *err)
{
    copy_state s = {0};
    dl_status status = DL_OK;
    while (status == DL_OK && dl_link_log_next(log))
        status = take_line(data, &s, log, tables, err);
    return status;
}

const dl_link_reader dl_link_bandwidth_test = {"bandwidthTest", parse};
