#include "sim/step/recorded.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "common/csv.h"
#include "common/sort.h"

#define TIMES_MAX 9007199254740992.0 /* largest range of whole numbers that a double holds */

enum { LANE, WORK, SPACING, ISSUE, FROM, TO, LAG, VALUE, COLUMNS };
static const char *const columns[COLUMNS] = {"lane", "work_ns", "spacing_ns", "issue_ns",
                                             "from", "to",      "lag_ns",     "value"};

typedef struct reading {
    dl_recorded *to;
    const dl_csv *csv;
    size_t row;
    int column[COLUMNS];
    double sum_ns;
    bool is_whole; /* the `end` row has been read */
} reading;

static dl_status refuse(const reading *r, dl_status status, const char *why, dl_error *err)
{
    return dl_error_set_at(err, status, r->csv->path, r->csv->lines[r->row], "%s", why);
}

/* Reads a whole number in [0, end). */
static dl_status number(const reading *r, int which, double end, double *value, dl_error *err)
{
    const size_t column = (size_t)r->column[which];
    const dl_status status = dl_csv_number(r->csv, r->row, column, value, err);
    if (status != DL_OK) return status;
    if (*value >= 0 && *value < end && *value == floor(*value)) return DL_OK;
    return dl_error_set_at(err, DL_ERR_RANGE, r->csv->path, r->csv->lines[r->row],
                           "%s = '%s' is not a whole number from 0 to %.0f", columns[which],
                           dl_csv_cell(r->csv, r->row, column), end - 1);
}

static dl_status add_batch(reading *r, dl_error *err)
{
    double batch;
    dl_status status = number(r, VALUE, INT32_MAX, &batch, err);
    if (status == DL_OK && batch < 1)
        status = refuse(r, DL_ERR_RANGE, "a step has at least one sample", err);
    if (status == DL_OK) r->to->batch = (int64_t)batch;
    return status;
}

static dl_status add_update(reading *r, dl_error *err)
{
    const dl_status status = number(r, VALUE, TIMES_MAX, &r->to->update_ns, err);
    if (status == DL_OK) r->sum_ns += r->to->update_ns;
    return status;
}

static dl_status add_lane(reading *r, dl_error *err)
{
    double is_stream;
    const dl_status status = number(r, VALUE, 2, &is_stream, err);
    if (status != DL_OK) return status;
    const uint32_t lane = dl_program_add_lane(&r->to->program);
    r->to->is_stream = dl_grow(r->to->is_stream, lane, sizeof *r->to->is_stream, "lanes");
    r->to->is_stream[lane] = is_stream > 0;
    return DL_OK;
}

static dl_status add_task(reading *r, dl_error *err)
{
    double lane, work_ns, spacing_ns, issue_ns;
    if (r->to->program.lane_count == 0)
        return refuse(r, DL_ERR_DATA, "a task before any lane", err);
    dl_status status = number(r, LANE, (double)r->to->program.lane_count, &lane, err);
    if (status == DL_OK) status = number(r, WORK, TIMES_MAX, &work_ns, err);
    if (status == DL_OK) status = number(r, SPACING, TIMES_MAX, &spacing_ns, err);
    if (status == DL_OK) status = number(r, ISSUE, TIMES_MAX, &issue_ns, err);
    if (status != DL_OK) return status;
    r->sum_ns += work_ns + spacing_ns + issue_ns;
    dl_program_add(&r->to->program, &(dl_task){.lane = (uint32_t)lane,
                                               .work_ns = work_ns,
                                               .spacing_ns = (int64_t)spacing_ns,
                                               .issue_ns = (int64_t)issue_ns});
    return DL_OK;
}

static dl_status add_edge(reading *r, dl_error *err)
{
    double from, to, lag_ns, from_start;
    const double tasks = (double)r->to->program.task_count;
    if (tasks == 0) return refuse(r, DL_ERR_DATA, "an edge before any task", err);
    dl_status status = number(r, FROM, tasks, &from, err);
    if (status == DL_OK) status = number(r, TO, tasks, &to, err);
    if (status == DL_OK) status = number(r, LAG, TIMES_MAX, &lag_ns, err);
    if (status == DL_OK) status = number(r, VALUE, 2, &from_start, err);
    if (status != DL_OK) return status;
    r->sum_ns += lag_ns;
    dl_program_add_edge(&r->to->program, &(dl_task_edge){(uint32_t)from, (uint32_t)to,
                                                         (int64_t)lag_ns, from_start > 0});
    return DL_OK;
}

static dl_status add_ready(reading *r, dl_error *err)
{
    double from, bytes;
    dl_recorded *to = r->to;
    if (to->program.task_count == 0)
        return refuse(r, DL_ERR_DATA, "gradients before any task", err);
    dl_status status = number(r, FROM, (double)to->program.task_count, &from, err);
    if (status == DL_OK) status = number(r, VALUE, TIMES_MAX, &bytes, err);
    if (status == DL_OK && bytes == 0)
        status = refuse(r, DL_ERR_RANGE, "gradients of no bytes", err);
    if (status != DL_OK) return status;
    if (to->ready_count > 0) bytes += to->ready[to->ready_count - 1].bytes;
    DL_APPEND(to->ready, to->ready_count, "gradients") = (dl_recorded_ready){(uint32_t)from, bytes};
    return DL_OK;
}

/* The `end` row must be the last one, and gives the number of rows before it. */
static dl_status add_end(reading *r, dl_error *err)
{
    double before;
    const dl_status status = number(r, VALUE, TIMES_MAX, &before, err);
    if (status != DL_OK) return status;
    r->is_whole = r->row + 1 == r->csv->rows && before == (double)r->row;
    return r->is_whole ? DL_OK : refuse(r, DL_ERR_DATA, "rows are missing, or too many", err);
}

static const char *const rows[] = {"batch", "update", "lane", "task", "edge", "ready", "end", NULL};

static dl_status add_row(reading *r, dl_error *err)
{
    static dl_status (*const adds[])(reading * r, dl_error * err) = {
        add_batch, add_update, add_lane, add_task, add_edge, add_ready, add_end};
    const char *name = dl_csv_cell(r->csv, r->row, 0);
    for (size_t i = 0; rows[i] != NULL; i++)
        if (strcmp(name, rows[i]) == 0) return adds[i](r, err);
    return dl_error_set_at(
        err, DL_ERR_NAME, r->csv->path, r->csv->lines[r->row],
        "unknown row '%.40s'; known: batch, update, lane, task, edge, ready, end", name);
}

static dl_status find_columns(reading *r, dl_error *err)
{
    if (strcmp(r->csv->names[0], "step_1") != 0) {
        return dl_error_set_at(err, DL_ERR_PARSE, r->csv->path, 1,
                               "the first column is '%.40s', of a recorded step it is step_1: "
                               "dlcal replay --step FILE writes one",
                               r->csv->names[0]);
    }
    for (int c = 0; c < COLUMNS; c++) {
        r->column[c] = dl_csv_column(r->csv, columns[c]);
        if (r->column[c] < 0)
            return dl_error_set_at(err, DL_ERR_PARSE, r->csv->path, 1, "no column '%s'",
                                   columns[c]);
    }
    return DL_OK;
}

/* An end of an interval [start, end). Sorted, they give the time of the step that intervals
 * cover. */
typedef struct edge_of_work {
    int64_t ns;
    int is_start;
} edge_of_work;

DL_ORDER(compare_edges, edge_of_work, DL_BY(ns), DL_BY_DESCENDING(is_start));

static double busy_ns(const dl_recorded *recorded, const dl_program_run *run)
{
    const dl_program *p = &recorded->program;
    DL_AUTOFREE edge_of_work *edges = dl_calloc(2 * p->task_count, sizeof *edges, "tasks");
    size_t count = 0;
    for (size_t t = 0; t < p->task_count; t++) {
        if (!recorded->is_stream[p->tasks[t].lane]) continue;
        edges[count++] = (edge_of_work){run->tasks[t].start_ns, 1};
        edges[count++] = (edge_of_work){run->tasks[t].end_ns, 0};
    }
    qsort(edges, count, sizeof *edges, compare_edges);
    double sum_ns = 0;
    int running = 0;
    for (size_t i = 0; i < count; i++) {
        if (running > 0) sum_ns += (double)(edges[i].ns - edges[i - 1].ns);
        running += edges[i].is_start ? 1 : -1;
    }
    return sum_ns;
}

/* Runs the step once alone, to find its times and whether it ends. */
static dl_status try_step(dl_recorded *recorded, const char *path, dl_error *err)
{
    const dl_program *p = &recorded->program;
    DL_SCOPED(dl_engine) engine;
    DL_SCOPED(dl_program_run) run;
    dl_engine_init(&engine, (int)p->lane_count + 1);
    dl_program_run_init(&run, p, &engine, NULL, NULL, 0);
    dl_program_start(&run);
    for (size_t l = 0; l < p->lane_count; l++)
        dl_program_begin_lane(&run, (uint32_t)l, 0);
    dl_engine_run(&engine);
    const size_t left = p->task_count - run.ended;
    for (size_t t = 0; t < p->task_count; t++)
        recorded->done_ns = fmax(recorded->done_ns, (double)run.tasks[t].end_ns);
    if (left == 0) recorded->busy_ns = busy_ns(recorded, &run);
    if (left == 0) return DL_OK;
    return dl_error_set_at(err, DL_ERR_DATA, path, 0, "%zu of %zu tasks wait for one another", left,
                           p->task_count);
}

static dl_status read_csv(dl_recorded *recorded, const dl_csv *csv, dl_error *err)
{
    reading r = {.to = recorded, .csv = csv};
    dl_status status = find_columns(&r, err);
    for (; r.row < csv->rows && status == DL_OK; r.row++)
        status = add_row(&r, err);
    if (status != DL_OK) return status;
    if (!r.is_whole || recorded->batch == 0 || recorded->program.task_count == 0)
        return dl_error_set_at(err, DL_ERR_DATA, csv->path, 0, "no %s: the file is cut short",
                               recorded->batch == 0                ? "batch"
                               : recorded->program.task_count == 0 ? "tasks"
                                                                   : "end");
    if (r.sum_ns >= TIMES_MAX)
        return dl_error_set_at(err, DL_ERR_RANGE, csv->path, 0,
                               "its times add up to more than 104 days");
    dl_program_close(&recorded->program);
    return try_step(recorded, csv->path, err);
}

static dl_status take_csv(dl_recorded *recorded, dl_csv *csv, dl_status status, dl_error *err)
{
    if (status == DL_OK) status = read_csv(recorded, csv, err);
    if (status != DL_OK) dl_recorded_free(recorded);
    dl_csv_free(csv);
    return status;
}

dl_status dl_recorded_read(dl_recorded *recorded, const char *path, dl_error *err)
{
    dl_csv csv = {0};
    return take_csv(recorded, &csv, dl_csv_read(&csv, path, err), err);
}

dl_status dl_recorded_read_text(dl_recorded *recorded, const char *name, const char *text,
                                size_t bytes, dl_error *err)
{
    dl_csv csv = {0};
    return take_csv(recorded, &csv, dl_csv_read_text(&csv, name, text, bytes, err), err);
}

void dl_recorded_free(dl_recorded *recorded)
{
    dl_program_free(&recorded->program);
    free(recorded->is_stream);
    free(recorded->ready);
    *recorded = (dl_recorded){0};
}

uint32_t dl_recorded_ready_at(const dl_recorded *recorded, double share)
{
    const size_t count = recorded->ready_count;
    for (size_t i = 0; i < count; i++)
        if (recorded->ready[i].bytes >= (share - 1e-9) * recorded->ready[count - 1].bytes)
            return recorded->ready[i].task;
    return DL_TASK_NONE;
}
