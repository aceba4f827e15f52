#include "kernels/train/schedule.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "common/csv.h"
#include "common/file.h"
#include "common/names.h"

#define TITLE "# dlscale schedule"
#define SCHEMA 1
#define BATCH_MAX (1 << 20)
#define SCHEDULE_BYTES_MAX ((size_t)1 << 30) /* 25 million gradients of 40 bytes */

/* In the order of dl_schedule_kind. */
static const char *const kind_names[] = {"gradient", "local",  "average", "upload", "merge",
                                         "replace",  "rebase", "send",    "receive"};
#define KIND_COUNT (sizeof kind_names / sizeof kind_names[0])

/* WEIGHT exists only in schedules with merges, FRAGMENT only in those with fragments or a lag. */
enum { TIME, EVENT, UPDATE, WORKER, READ, BATCH, WEIGHT, FRAGMENT, COLUMN_COUNT };
static const char *const column_names[COLUMN_COUNT] = {"time_s", "event", "update", "worker",
                                                       "read",   "batch", "weight", "fragment"};

/* State of reading the rows. */
typedef struct reading {
    dl_schedule *schedule;
    const dl_csv *csv;
    size_t columns[COLUMN_COUNT];
    size_t *update_end; /* [rows + 1] number of events up to the last one of each update */
    size_t *last;       /* [workers] number of events up to the last one that its parameters depend
                         * on */
    int64_t *uploaded;  /* [workers] base version of the waiting upload; NOTHING: merged, or none */
    int64_t *read;      /* [workers] version that its parameters are based on */
    int64_t *sent;      /* [workers x fragments] number of sends */
    int64_t *received;  /* [workers x fragments] number of averages received */
    int64_t *averaged;  /* [fragments] number of averages */
    int64_t *steps;     /* [workers] local steps done */
    bool has_averages;
    size_t stale; /* number of gradients (of a server) or merged uploads counted in staleness_sum */
    double staleness_sum;
} reading;

#define NOTHING (-1)

/* The text of a schedule: bytes from `start` up to `end`, with no NUL after them. */
typedef struct head_text {
    const char *start, *end;
} head_text;

/* Returns the value of "# KEY: VALUE" in the head's comments, NULL if there is no such comment;
 * *line becomes its line number. free() it. */
static char *head_value(head_text text, const char *key, int *line)
{
    const size_t key_bytes = strlen(key);
    *line = 1;
    for (const char *at = text.start; at < text.end && *at == '#'; (*line)++) {
        const char *newline = memchr(at, '\n', (size_t)(text.end - at));
        const char *end = newline != NULL ? newline : text.end;
        const char *value = at + 2 + key_bytes; /* expected place of the colon */
        if (end - at > 1 && end[-1] == '\r') end--;
        if ((size_t)(end - at) >= key_bytes + 3 && at[1] == ' ' &&
            memcmp(at + 2, key, key_bytes) == 0 && *value == ':') {
            value++;
            while (value < end && *value == ' ')
                value++;
            return dl_strndup(value, (size_t)(end - value));
        }
        if (newline == NULL) break;
        at = newline + 1;
    }
    return NULL;
}

/* Reads a whole number in low..high from the head. */
static dl_status head_number(const dl_schedule *schedule, head_text text, const char *key, int low,
                             int high, int *value, dl_error *err)
{
    int line = 0;
    DL_AUTOFREE char *found = head_value(text, key, &line);
    if (found == NULL) {
        return dl_error_set_at(err, DL_ERR_DATA, schedule->path, 1, "the head lacks '# %s: ...'",
                               key);
    }
    char *end = found;
    const long number = strtol(found, &end, 10);
    dl_status status = DL_OK;
    if (end == found || *end != '\0' || number < low || number > high) {
        status = dl_error_set_at(err, DL_ERR_RANGE, schedule->path, line,
                                 "%s is '%s'; must be a whole number from %d to %d", key, found,
                                 low, high);
    }
    if (status == DL_OK) *value = (int)number;
    return status;
}

static bool has_key(head_text text, const char *key)
{
    int line = 0;
    DL_AUTOFREE char *found = head_value(text, key, &line);
    return found != NULL;
}

static bool has_title(head_text text)
{
    const size_t bytes = (size_t)(text.end - text.start), title = sizeof TITLE - 1;
    return (bytes > title && memcmp(text.start, TITLE "\n", title + 1) == 0) ||
           (bytes > title + 1 && memcmp(text.start, TITLE "\r\n", title + 2) == 0);
}

static dl_status read_head(dl_schedule *schedule, head_text text, dl_error *err)
{
    int schema = 0, line = 0;
    if (!has_title(text)) {
        return dl_error_set_at(err, DL_ERR_PARSE, schedule->path, 1,
                               "is not a schedule: the first line is not '%s'", TITLE);
    }
    dl_status status = head_number(schedule, text, "schema", SCHEMA, SCHEMA, &schema, err);
    if (status == DL_OK) {
        status = head_number(schedule, text, "workers", 1, DL_SCHEDULE_WORKERS_MAX,
                             &schedule->workers, err);
    }
    if (status == DL_OK) {
        status = head_number(schedule, text, "batch", 1, BATCH_MAX, &schedule->batch, err);
    }
    schedule->fragments = 1;
    if (status == DL_OK && has_key(text, "fragments")) {
        status = head_number(schedule, text, "fragments", 1, DL_SCHEDULE_FRAGMENTS_MAX,
                             &schedule->fragments, err);
    }
    if (status == DL_OK && has_key(text, "sites")) {
        status = head_number(schedule, text, "sites", 1, schedule->workers, &schedule->sites, err);
    }
    if (status != DL_OK) return status;
    if (schedule->sites > 0 && schedule->workers % schedule->sites != 0) {
        return dl_error_set_at(err, DL_ERR_RANGE, schedule->path, 1,
                               "%d workers cannot be divided equally into %d sites",
                               schedule->workers, schedule->sites);
    }
    if (schedule->batch % schedule->workers != 0) {
        return dl_error_set_at(err, DL_ERR_RANGE, schedule->path, 1,
                               "batch %d cannot be shared equally by %d workers", schedule->batch,
                               schedule->workers);
    }
    schedule->mode = head_value(text, "mode", &line);
    if (schedule->mode == NULL) schedule->mode = dl_strdup("unknown");
    if (schedule->mode[0] != '\0') return DL_OK;
    return dl_error_set_at(err, DL_ERR_RANGE, schedule->path, line,
                           "mode is ''; must be the name of a sync mode");
}

static dl_status find_columns(reading *r, dl_error *err)
{
    for (size_t c = 0; c < COLUMN_COUNT; c++) {
        const int found = dl_csv_column(r->csv, column_names[c]);
        if (found < 0 && c >= WEIGHT) {
            r->columns[c] = SIZE_MAX;
        } else if (found < 0) {
            return dl_error_set_at(err, DL_ERR_DATA, r->csv->path, 0, "lacks the column %s",
                                   column_names[c]);
        }
        r->columns[c] = (size_t)found;
    }
    return DL_OK;
}

/* Reads the cell as a whole number in low..high. */
static dl_status whole(const reading *r, size_t row, int column, int64_t low, int64_t high,
                       int64_t *value, dl_error *err)
{
    double number = 0;
    dl_status status = dl_csv_number(r->csv, row, r->columns[column], &number, err);
    if (status != DL_OK) return status;
    if (number >= (double)low && number <= (double)high && number == floor(number)) {
        *value = (int64_t)number;
        return DL_OK;
    }
    return dl_error_set_at(err, DL_ERR_RANGE, r->csv->path, r->csv->lines[row],
                           "%s is '%s'; must be a whole number from %lld to %lld here",
                           column_names[column], dl_csv_cell(r->csv, row, r->columns[column]),
                           (long long)low, (long long)high);
}

static dl_status read_worker(const reading *r, size_t row, dl_schedule_event *event, dl_error *err)
{
    int64_t worker = 0;
    const dl_status status = whole(r, row, WORKER, 0, r->schedule->workers - 1, &worker, err);
    event->worker = (int)worker;
    return status;
}

/* Reads worker and mini-batch. */
static dl_status read_source(const reading *r, size_t row, dl_schedule_event *event, dl_error *err)
{
    dl_status status = read_worker(r, row, event, err);
    if (status == DL_OK) {
        status = whole(r, row, BATCH, 0, DL_SCHEDULE_BATCHES_MAX - 1, &event->batch, err);
    }
    return status;
}

/* Updates are numbered 1, 2, ...; several gradients may have the same number. */
static dl_status read_gradient(reading *r, size_t row, dl_schedule_event *event, dl_error *err)
{
    dl_schedule *schedule = r->schedule;
    const int64_t updates = schedule->updates;
    dl_status status = read_source(r, row, event, err);
    if (status == DL_OK) {
        status = whole(r, row, UPDATE, updates > 0 ? updates : 1, updates + 1, &event->update, err);
    }
    if (status == DL_OK) status = whole(r, row, READ, 0, event->update - 1, &event->read, err);
    if (status != DL_OK) return status;
    const int64_t staleness = event->update - 1 - event->read;
    if (staleness > DL_SCHEDULE_STALENESS_MAX) {
        return dl_error_set_at(err, DL_ERR_RANGE, r->csv->path, r->csv->lines[row],
                               "reads version %lld after update %lld, when only the last %d "
                               "versions are kept",
                               (long long)event->read, (long long)event->update - 1,
                               DL_SCHEDULE_STALENESS_MAX + 1);
    }
    if (staleness > schedule->staleness_max) schedule->staleness_max = staleness;
    r->staleness_sum += (double)staleness;
    r->stale++;
    event->after = r->update_end[event->read];
    r->update_end[event->update] = row + 1;
    schedule->updates = event->update;
    schedule->gradients++;
    return DL_OK;
}

/* Returns the first worker of the worker's site; *size becomes the number of workers in it. */
static int site_of(const reading *r, int worker, int *size)
{
    *size = r->schedule->sites > 0 ? r->schedule->workers / r->schedule->sites : 1;
    return worker - worker % *size;
}

/* Returns a worker of the site that has done fewer local steps than `steps`, or -1. */
static int lacking(const reading *r, int worker, int64_t steps)
{
    int size, first = site_of(r, worker, &size);
    for (int w = first; w < first + size; w++)
        if (r->steps[w] < steps) return w;
    return -1;
}

/* With sites: refuses an event of a worker whose last local step still lacks gradients of other
 * workers of the site. */
static dl_status check_site(const reading *r, size_t row, int worker, dl_error *err)
{
    const int lacks = lacking(r, worker, r->steps[worker]);
    if (lacks < 0) return DL_OK;
    return dl_error_set_at(
        err, DL_ERR_DATA, r->csv->path, r->csv->lines[row],
        "worker %d continues before worker %d of its site has done its local step", worker, lacks);
}

static dl_status read_local(reading *r, size_t row, dl_schedule_event *event, dl_error *err)
{
    int size;
    dl_status status = read_source(r, row, event, err);
    if (status == DL_OK) status = check_site(r, row, event->worker, err);
    if (status != DL_OK) return status;
    const int first = site_of(r, event->worker, &size);
    const int64_t steps = ++r->steps[event->worker];
    event->after = r->last[event->worker];
    for (int w = first; lacking(r, first, steps) < 0 && w < first + size; w++)
        r->last[w] = row + 1;
    r->schedule->gradients++;
    return DL_OK;
}

/* Without the column, all parameters are one fragment. */
static dl_status read_fragment(const reading *r, size_t row, dl_schedule_event *event,
                               dl_error *err)
{
    int64_t fragment = 0;
    dl_status status = DL_OK;
    if (r->columns[FRAGMENT] != SIZE_MAX) {
        status = whole(r, row, FRAGMENT, 0, r->schedule->fragments - 1, &fragment, err);
    }
    event->fragment = (int)fragment;
    return status;
}

/* Returns the element of `counts` for a worker and the event's fragment. */
static int64_t *of_fragment(const reading *r, int64_t *counts, const dl_schedule_event *event,
                            int worker)
{
    return &counts[(size_t)worker * (size_t)r->schedule->fragments + (size_t)event->fragment];
}

static dl_status read_average(reading *r, size_t row, dl_schedule_event *event, dl_error *err)
{
    dl_schedule *schedule = r->schedule;
    const int64_t number = schedule->updates + 1;
    dl_status status = whole(r, row, UPDATE, number, number, &event->update, err);
    if (status == DL_OK) status = read_fragment(r, row, event, err);
    for (int w = 0; status == DL_OK && w < schedule->workers; w++)
        status = check_site(r, row, w, err);
    if (status != DL_OK) return status;
    const int64_t times = ++r->averaged[event->fragment];
    for (int w = 0; schedule->has_sends && w < schedule->workers; w++) {
        if (*of_fragment(r, r->sent, event, w) == times) continue;
        return dl_error_set_at(err, DL_ERR_DATA, r->csv->path, r->csv->lines[row],
                               "worker %d has not sent fragment %d for this average", w,
                               event->fragment);
    }
    schedule->updates++;
    event->after = row;
    for (int w = 0; !schedule->has_sends && w < schedule->workers; w++)
        r->last[w] = row + 1;
    return DL_OK;
}

/* A worker may send a fragment again only after it has received the average of its last send. */
static dl_status read_send(reading *r, size_t row, dl_schedule_event *event, dl_error *err)
{
    dl_status status = read_worker(r, row, event, err);
    if (status == DL_OK) status = read_fragment(r, row, event, err);
    if (status == DL_OK) status = check_site(r, row, event->worker, err);
    if (status != DL_OK) return status;
    const int64_t received = *of_fragment(r, r->received, event, event->worker);
    if (++*of_fragment(r, r->sent, event, event->worker) == received + 1) return DL_OK;
    return dl_error_set_at(err, DL_ERR_DATA, r->csv->path, r->csv->lines[row],
                           "worker %d sends fragment %d again before receiving its average",
                           event->worker, event->fragment);
}

static dl_status read_receive(reading *r, size_t row, dl_schedule_event *event, dl_error *err)
{
    dl_status status = read_worker(r, row, event, err);
    if (status == DL_OK) status = read_fragment(r, row, event, err);
    if (status == DL_OK) status = check_site(r, row, event->worker, err);
    if (status != DL_OK) return status;
    r->last[event->worker] = row + 1;
    if (++*of_fragment(r, r->received, event, event->worker) == r->averaged[event->fragment]) {
        return DL_OK;
    }
    return dl_error_set_at(err, DL_ERR_DATA, r->csv->path, r->csv->lines[row],
                           "worker %d has already received every average of fragment %d",
                           event->worker, event->fragment);
}

static dl_status read_upload(reading *r, size_t row, dl_schedule_event *event, dl_error *err)
{
    dl_status status = read_worker(r, row, event, err);
    if (status != DL_OK) return status;
    const int64_t read = r->read[event->worker];
    status = whole(r, row, READ, read, read, &event->read, err);
    r->uploaded[event->worker] = read;
    return status;
}

/* Reads a merge of the worker's waiting upload; versions are numbered as updates are. */
static dl_status read_merge(reading *r, size_t row, dl_schedule_event *event, dl_error *err)
{
    dl_schedule *schedule = r->schedule;
    const dl_schedule_event *before = row > 0 ? event - 1 : NULL;
    const bool goes_on = before != NULL && before->kind == DL_SCHEDULE_MERGE;
    const int64_t updates = schedule->updates;
    dl_status status = read_worker(r, row, event, err);
    if (status != DL_OK) return status;
    const int64_t base = r->uploaded[event->worker];
    if (base == NOTHING) {
        return dl_error_set_at(err, DL_ERR_DATA, r->csv->path, r->csv->lines[row],
                               "worker %d has no unmerged upload", event->worker);
    }
    if (r->columns[WEIGHT] == SIZE_MAX) {
        return dl_error_set_at(err, DL_ERR_DATA, r->csv->path, 0, "lacks the column %s",
                               column_names[WEIGHT]);
    }
    status =
        whole(r, row, UPDATE, goes_on ? updates : updates + 1, updates + 1, &event->update, err);
    if (status == DL_OK) status = whole(r, row, READ, base, base, &event->read, err);
    if (status == DL_OK) {
        status = dl_csv_number(r->csv, row, r->columns[WEIGHT], &event->weight, err);
    }
    if (status != DL_OK) return status;
    if (!(event->weight >= 0 && event->weight <= 1)) {
        return dl_error_set_at(err, DL_ERR_RANGE, r->csv->path, r->csv->lines[row],
                               "weight is '%s'; must be from 0 to 1",
                               dl_csv_cell(r->csv, row, r->columns[WEIGHT]));
    }
    const int64_t staleness = event->update - 1 - event->read;
    if (staleness > schedule->staleness_max) schedule->staleness_max = staleness;
    r->staleness_sum += (double)staleness;
    r->stale++;
    r->uploaded[event->worker] = NOTHING;
    schedule->updates = event->update;
    return DL_OK;
}

/* A worker takes the newest version, or the one before while the newest is being merged. */
static dl_status read_adoption(reading *r, size_t row, dl_schedule_event *event, dl_error *err)
{
    const int64_t updates = r->schedule->updates;
    dl_status status = read_worker(r, row, event, err);
    if (status == DL_OK) {
        status = whole(r, row, READ, updates > 0 ? updates - 1 : 0, updates, &event->read, err);
    }
    if (status != DL_OK) return status;
    r->last[event->worker] = row + 1;
    r->read[event->worker] = event->read;
    return DL_OK;
}

static dl_status read_kind(reading *r, size_t row, dl_schedule_event *event, dl_error *err)
{
    const char *name = dl_csv_cell(r->csv, row, r->columns[EVENT]);
    const int kind = dl_names_find(name, kind_names, KIND_COUNT);
    if (kind < 0) {
        char hint[DL_ERROR_TEXT_BYTES / 2];
        dl_names_hint(hint, sizeof hint, name, kind_names, KIND_COUNT);
        return dl_error_set_at(err, DL_ERR_NAME, r->csv->path, r->csv->lines[row],
                               "unknown event '%s'%s", name, hint);
    }
    event->kind = (dl_schedule_kind)kind;
    const dl_schedule_event *first = &r->schedule->events[0];
    const bool late = event->kind == DL_SCHEDULE_SEND || event->kind == DL_SCHEDULE_RECEIVE;
    if (late && r->has_averages && !r->schedule->has_sends) {
        return dl_error_set_at(err, DL_ERR_DATA, r->csv->path, r->csv->lines[row],
                               "'%s' after an average without 'send' events", name);
    }
    r->schedule->has_sends |= late;
    r->has_averages |= event->kind == DL_SCHEDULE_AVERAGE || late;
    r->schedule->has_merges |= event->kind > DL_SCHEDULE_AVERAGE && !late;
    if (r->schedule->sites > 0 &&
        (r->schedule->has_merges || event->kind == DL_SCHEDULE_GRADIENT)) {
        return dl_error_set_at(err, DL_ERR_DATA, r->csv->path, r->csv->lines[row],
                               "'%s' cannot occur in a schedule with sites", name);
    }
    if (r->has_averages && r->schedule->has_merges) {
        return dl_error_set_at(err, DL_ERR_DATA, r->csv->path, r->csv->lines[row],
                               "'%s': a schedule has averages or merges, not both", name);
    }
    if (row == 0 ||
        (first->kind == DL_SCHEDULE_GRADIENT) == (event->kind == DL_SCHEDULE_GRADIENT)) {
        return DL_OK;
    }
    return dl_error_set_at(err, DL_ERR_DATA, r->csv->path, r->csv->lines[row],
                           "'%s' in a schedule that starts with '%s': a server applies the "
                           "gradients or the workers do, not both",
                           name, kind_names[first->kind]);
}

static dl_status read_event(reading *r, size_t row, dl_error *err)
{
    dl_schedule_event *event = &r->schedule->events[row];
    dl_status status = read_kind(r, row, event, err);
    if (status == DL_OK) {
        status = dl_csv_number(r->csv, row, r->columns[TIME], &event->time_s, err);
    }
    if (status != DL_OK) return status;
    const double before_s = row > 0 ? r->schedule->events[row - 1].time_s : 0;
    if (!(event->time_s >= before_s) || isinf(event->time_s)) {
        return dl_error_set_at(err, DL_ERR_RANGE, r->csv->path, r->csv->lines[row],
                               "time_s is '%s'; must be %g or more: events must be in order of "
                               "time",
                               dl_csv_cell(r->csv, row, r->columns[TIME]), before_s);
    }
    switch (event->kind) {
    case DL_SCHEDULE_GRADIENT: return read_gradient(r, row, event, err);
    case DL_SCHEDULE_LOCAL: return read_local(r, row, event, err);
    case DL_SCHEDULE_UPLOAD: return read_upload(r, row, event, err);
    case DL_SCHEDULE_MERGE: return read_merge(r, row, event, err);
    case DL_SCHEDULE_REPLACE:
    case DL_SCHEDULE_REBASE: return read_adoption(r, row, event, err);
    case DL_SCHEDULE_SEND: return read_send(r, row, event, err);
    case DL_SCHEDULE_RECEIVE: return read_receive(r, row, event, err);
    default: return read_average(r, row, event, err);
    }
}

static dl_status read_events(dl_schedule *schedule, const dl_csv *csv, dl_error *err)
{
    reading r = {.schedule = schedule, .csv = csv};
    dl_status status = find_columns(&r, err);
    if (status != DL_OK) return status;
    r.update_end = dl_calloc(csv->rows + 1, sizeof *r.update_end, "updates");
    r.last = dl_calloc((size_t)schedule->workers, sizeof *r.last, "workers");
    r.uploaded = dl_calloc((size_t)schedule->workers, sizeof *r.uploaded, "workers");
    r.read = dl_calloc((size_t)schedule->workers, sizeof *r.read, "workers");
    const size_t pieces = (size_t)schedule->workers * (size_t)schedule->fragments;
    r.sent = dl_calloc(pieces, sizeof *r.sent, "fragments");
    r.received = dl_calloc(pieces, sizeof *r.received, "fragments");
    r.steps = dl_calloc((size_t)schedule->workers, sizeof *r.steps, "workers");
    r.averaged = dl_calloc((size_t)schedule->fragments, sizeof *r.averaged, "fragments");
    for (int w = 0; w < schedule->workers; w++)
        r.uploaded[w] = NOTHING;
    schedule->events = dl_calloc(csv->rows, sizeof *schedule->events, "schedule");
    schedule->count = csv->rows;
    for (size_t row = 0; status == DL_OK && row < csv->rows; row++)
        status = read_event(&r, row, err);
    if (status == DL_OK && schedule->gradients == 0) {
        status = dl_error_set_at(err, DL_ERR_DATA, csv->path, 0, "has no gradient");
    }
    if (r.stale > 0) schedule->staleness_mean = r.staleness_sum / (double)r.stale;
    free(r.update_end);
    free(r.last);
    free(r.uploaded);
    free(r.read);
    free(r.sent);
    free(r.received);
    free(r.averaged);
    free(r.steps);
    return status;
}

dl_status dl_schedule_read_text(dl_schedule *schedule, const char *name, const char *text,
                                size_t bytes, dl_error *err)
{
    DL_SCOPED(dl_csv) csv = {0};
    dl_schedule made = {.path = dl_strdup(name)};
    dl_status status = read_head(&made, (head_text){text, text + bytes}, err);
    if (status == DL_OK) status = dl_csv_read_text(&csv, name, text, bytes, err);
    if (status == DL_OK) status = read_events(&made, &csv, err);
    if (status == DL_OK) {
        *schedule = made;
    } else {
        dl_schedule_free(&made);
    }
    return status;
}

dl_status dl_schedule_read(dl_schedule *schedule, const char *path, dl_error *err)
{
    DL_AUTOFREE char *text = NULL;
    size_t bytes = 0;
    dl_status status = dl_file_read_up_to(path, SCHEDULE_BYTES_MAX, &text, &bytes, err);
    if (status != DL_OK) return status;
    return dl_schedule_read_text(schedule, path, text, bytes, err);
}

void dl_schedule_free(dl_schedule *schedule)
{
    free(schedule->path);
    free(schedule->mode);
    free(schedule->events);
    *schedule = (dl_schedule){0};
}
