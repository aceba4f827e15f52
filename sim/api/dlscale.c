#include "sim/api/dlscale.h"

#include <locale.h>
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "common/cell_table.h"
#include "common/cpu.h"
#include "common/options.h"
#include "sim/report/report.h"

#define THREADS_MAX 1024

#define SAME_STATUS(name) \
    _Static_assert((int)DLSCALE_##name == (int)DL_##name, "status " #name " has another number")
SAME_STATUS(OK);
SAME_STATUS(ERR_USAGE);
SAME_STATUS(ERR_IO);
SAME_STATUS(ERR_PARSE);
SAME_STATUS(ERR_NAME);
SAME_STATUS(ERR_RANGE);
SAME_STATUS(ERR_FORMAT);
SAME_STATUS(ERR_DATA);
SAME_STATUS(ERR_UNSUPPORTED);
SAME_STATUS(ERR_SYSTEM);
SAME_STATUS(ERR_UNFIT);

struct dlscale_result {
    dl_cell_table table;
    const char **notes; /* [note_count] borrowed from the table's comments */
    size_t note_count;
};

static pthread_once_t once = PTHREAD_ONCE_INIT;
static locale_t c_locale; /* 0 if unavailable: the caller's locale stays in force */

static void start(void)
{
    c_locale = newlocale(LC_ALL_MASK, "C", (locale_t)0);
}

static void take_notes(dlscale_result *result)
{
    static const char note[] = "note: ";
    for (size_t i = 0; i < result->table.comment_count; i++) {
        const char *text = result->table.comments[i];
        if (strncmp(text, note, strlen(note)) != 0) continue;
        DL_APPEND(result->notes, result->note_count, "notes") = text + strlen(note);
    }
}

/* Simulates the scenario `text` or, if `text` is NULL, the file `path`. */
static dl_status simulate(const char *path, const char *text, int threads, dlscale_result **result,
                          dl_error *err)
{
    DL_SCOPED(dl_study) study = {0};
    DL_SCOPED(dl_sweep) sweep = {0};
    dl_measured *measured = NULL;
    const dl_sweep_config config = {.threads = threads > 0 ? threads : dl_cpu_count()};
    dl_status status = text == NULL ? dl_study_read(&study, path, err)
                                    : dl_study_read_text(&study, path, text, strlen(text), err);
    if (status == DL_OK) status = dl_study_read_costs(&study, err);
    if (status == DL_OK) status = dl_measured_read(&measured, &study, err);
    if (status == DL_OK) status = dl_sweep_run(&sweep, &study, &config, err);
    if (status == DL_OK) {
        *result = dl_calloc(1, sizeof **result, "results");
        dl_report_results_table(&(*result)->table, &study, &sweep, measured, NULL);
        take_notes(*result);
    }
    dl_measured_free(measured, study.point_count);
    return status;
}

static dlscale_status run(const char *path, const char *text, int threads, dlscale_result **result,
                          dlscale_error *error)
{
    dl_error err = {0};
    dl_status status = DL_OK;
    pthread_once(&once, start);
    *result = NULL;
    if (threads < 0 || threads > THREADS_MAX) {
        status = dl_error_set(&err, DL_ERR_USAGE, "%d threads (0..%d)", threads, THREADS_MAX);
    } else {
        const locale_t callers = c_locale != (locale_t)0 ? uselocale(c_locale) : (locale_t)0;
        status = simulate(path, text, threads, result, &err);
        if (callers != (locale_t)0) uselocale(callers);
    }
    if (status != DL_OK && error != NULL) {
        _Static_assert(sizeof error->file == sizeof err.file, "another length of names");
        _Static_assert(sizeof error->text == sizeof err.text, "another length of texts");
        error->line = err.line;
        memcpy(error->file, err.file, sizeof err.file);
        memcpy(error->text, err.text, sizeof err.text);
    }
    return (dlscale_status)status;
}

dlscale_status dlscale_simulate_file(const char *path, int threads, dlscale_result **result,
                                     dlscale_error *error)
{
    return run(path, NULL, threads, result, error);
}

dlscale_status dlscale_simulate_text(const char *name, const char *text, int threads,
                                     dlscale_result **result, dlscale_error *error)
{
    if (text != NULL) return run(name, text, threads, result, error);
    *result = NULL;
    if (error != NULL) *error = (dlscale_error){.text = "text is NULL"};
    return DLSCALE_ERR_USAGE;
}

void dlscale_free(dlscale_result *result)
{
    if (result == NULL) return;
    dl_cell_table_free(&result->table);
    free(result->notes);
    free(result);
}

size_t dlscale_rows(const dlscale_result *result)
{
    return dl_cell_table_rows(&result->table);
}

size_t dlscale_columns(const dlscale_result *result)
{
    return result->table.columns;
}

const char *dlscale_column_name(const dlscale_result *result, size_t column)
{
    return column < result->table.columns ? result->table.names[column] : NULL;
}

long dlscale_column(const dlscale_result *result, const char *name)
{
    for (size_t i = 0; i < result->table.columns; i++)
        if (strcmp(result->table.names[i], name) == 0) return (long)i;
    return -1;
}

/* Returns the cell; NULL if out of range. */
static const dl_cell *cell_of(const dlscale_result *result, size_t row, size_t column)
{
    if (row >= dlscale_rows(result) || column >= result->table.columns) return NULL;
    return dl_cell_table_cell(&result->table, row, column);
}

double dlscale_number(const dlscale_result *result, size_t row, size_t column)
{
    const dl_cell *cell = cell_of(result, row, column);
    return cell != NULL && cell->kind == DL_CELL_NUMBER ? cell->number : (double)NAN;
}

double dlscale_value(const dlscale_result *result, size_t row, const char *column)
{
    const long found = dlscale_column(result, column);
    return found >= 0 ? dlscale_number(result, row, (size_t)found) : (double)NAN;
}

const char *dlscale_text(const dlscale_result *result, size_t row, size_t column)
{
    const dl_cell *cell = cell_of(result, row, column);
    return cell != NULL ? cell->text : NULL;
}

size_t dlscale_notes(const dlscale_result *result)
{
    return result->note_count;
}

const char *dlscale_note(const dlscale_result *result, size_t note)
{
    return note < result->note_count ? result->notes[note] : NULL;
}

const char *dlscale_version(void)
{
    return dl_version();
}
