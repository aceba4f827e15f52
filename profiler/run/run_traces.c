#include "profiler/run/run_traces.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "common/alloc.h"
#include "common/file.h"
#include "common/names.h"
#include "common/sort.h"
#include "common/units.h"
#include "trace/print.h"
#include "trace/readers/reader.h"

#define LOG_ENDING ".log"
#define OWN_ENDING ".dlt"
#define TORCH_ENDING ".json.gz"

#define TOP_ROWS 10   /* rows of a printed table */
#define LIST_INDENT 4 /* indent of continuation lines, in columns */

/* Returns the ending of the name of a trace or log; NULL if it is neither. */
static const char *ending_of(const char *name)
{
    static const char *const endings[] = {LOG_ENDING, OWN_ENDING, TORCH_ENDING};
    if (name[0] == '.') return NULL; /* an incomplete trace */
    for (size_t i = 0; i < sizeof endings / sizeof endings[0]; i++) {
        if (strlen(name) > strlen(endings[i]) && dl_ends_with(name, endings[i])) return endings[i];
    }
    return NULL;
}

static int is_ours(const struct dirent *entry)
{
    return ending_of(entry->d_name) != NULL;
}

bool dl_run_traces_any(const char *folder)
{
    DIR *open = opendir(folder);
    if (open == NULL) return false;
    bool any = false;
    for (const struct dirent *entry; !any && (entry = readdir(open)) != NULL;)
        any = is_ours(entry);
    closedir(open);
    return any;
}

/* Splits "<host>.<pid>.<start>"; the host's name may hold dots itself. */
static void split_name(dl_run_process *process, const char *name)
{
    char *host = dl_strdup(name);
    int64_t numbers[2] = {0, 0}; /* start, pid */
    int found = 0;
    for (char *dot; found < 2 && (dot = strrchr(host, '.')) != NULL; found++) {
        if (dl_parse_int(dot + 1, 0, INT64_MAX, &numbers[found], NULL) != DL_OK) break;
        *dot = '\0';
    }
    if (found == 2) {
        process->start_ns = numbers[0];
        process->pid = numbers[1];
    } else {
        host[0] = '\0';
    }
    process->host = host;
}

/* Returns the process of this file, adding it if it is new; files come in the order of their
 * names. */
static dl_run_process *find_process(dl_run_traces *traces, const char *file)
{
    DL_AUTOFREE char *name = dl_strndup(file, strlen(file) - strlen(ending_of(file)));
    char *stem = dl_format("%s/%s", traces->folder, name);
    dl_run_process *last = &traces->processes[traces->count];
    if (traces->count > 0 && strcmp(last[-1].stem, stem) == 0) {
        free(stem);
        return last - 1;
    }
    *last = (dl_run_process){.stem = stem, .rank = -1};
    split_name(last, name);
    traces->count++;
    return last;
}

/* Returns a count that the process wrote as meta data; 0 if there is none. */
static uint64_t count_of(const dl_trace *trace, const char *key)
{
    const char *text = dl_trace_meta(trace, key);
    int64_t count = 0;
    if (text == NULL || dl_parse_int(text, 0, INT64_MAX, &count, NULL) != DL_OK) return 0;
    return (uint64_t)count;
}

/* Writes the summary to a new string, as JSON or for people. */
static void write_summary(const dl_activity_summary *summary, char **text, bool json)
{
    size_t bytes = 0;
    FILE *out = dl_text_stream(text, &bytes);
    if (json) {
        dl_activity_summary_write_json(summary, out);
    } else {
        dl_activity_summary_print(summary, TOP_ROWS, out);
    }
    fclose(out);
}

/* Summarises the activities and releases them, since the activities of all ranks could exceed the
 * memory. Takes over *trace. */
static dl_status summarise(dl_run_process *process, dl_trace *trace)
{
    const dl_step_hints none = {0};
    dl_activity_steps steps = {0};
    const dl_status status = dl_activity_steps_init(&steps, trace, &none, &process->error);
    if (status != DL_OK) return status;
    process->trace = dl_calloc(1, sizeof *process->trace, "trace");
    *process->trace = *trace;
    *trace = (dl_trace){0};
    dl_activity_summary_init(&process->summary, process->trace, &steps);
    dl_activity_steps_free(&steps);
    write_summary(&process->summary, &process->text, false);
    write_summary(&process->summary, &process->json, true);
    free(process->trace->activities);
    process->trace->activities = NULL;
    process->trace->activity_count = 0;
    return DL_OK;
}

/* Reads a trace of PyTorch's profiler, which holds one process. */
static dl_status read_torch(dl_trace *trace, const char *path, dl_error *err)
{
    DL_AUTO(dl_read_free) dl_read_traces read = {0};
    const dl_read_options options = {0};
    const dl_status status = dl_read(&read, path, &options, err);
    if (status == DL_OK) {
        *trace = read.items[0].trace;
        read.items[0].trace = (dl_trace){0};
    }
    return status;
}

static void read_trace(dl_run_process *process, const char *path)
{
    DL_SCOPED(dl_trace) trace = {0};
    process->has_trace = true;
    process->by_torch = dl_ends_with(path, TORCH_ENDING);
    struct stat file;
    if (stat(path, &file) == 0) process->trace_bytes = (uint64_t)file.st_size;
    const dl_status status = process->by_torch ? read_torch(&trace, path, &process->error)
                                               : dl_trace_read(&trace, path, &process->error);
    if (status != DL_OK) return;
    process->readable = true;
    process->complete = trace.complete;
    const char *rank = dl_trace_meta(&trace, "rank");
    if (rank != NULL && dl_parse_int(rank, 0, INT32_MAX, &process->rank, NULL) != DL_OK) {
        process->rank = -1;
    }
    const char *stopped = dl_trace_meta(&trace, "stopped");
    if (stopped != NULL) process->stopped = dl_strdup(stopped);
    for (size_t i = 0; i < trace.activity_count; i++)
        process->counts[trace.activities[i].kind]++;
    process->activities = trace.activity_count;
    static const char *const losses[] = {"dropped_records", "lost_timestamps", "lost_activities",
                                         "lost_records", "invalid_records"};
    for (size_t i = 0; i < sizeof losses / sizeof losses[0]; i++)
        process->lost += count_of(&trace, losses[i]);
    if (trace.activity_count > 0) process->readable = summarise(process, &trace) == DL_OK;
}

static void read_log(dl_run_process *process, const char *path)
{
    char *text = NULL;
    size_t bytes = 0;
    dl_error why = {0};
    if (dl_file_read(path, &text, &bytes, &why) != DL_OK) text = dl_strdup(why.text);
    for (size_t end = strlen(text); end > 0 && text[end - 1] == '\n';)
        text[--end] = '\0';
    process->log = text;
}

DL_ORDER(compare, dl_run_process, DL_COMPARE(a->rank < 0, b->rank < 0), DL_BY(rank),
         DL_BY_TEXT(host), DL_BY(start_ns), DL_BY(pid), DL_BY_TEXT(stem));

dl_status dl_run_traces_collect(dl_run_traces *traces, const char *folder, dl_error *err)
{
    struct dirent **entries = NULL;
    const int count = scandir(folder, &entries, is_ours, alphasort);
    if (count < 0) {
        return dl_error_set_at(err, DL_ERR_IO, folder, 0, "cannot read the folder: %s",
                               strerror(errno));
    }
    *traces = (dl_run_traces){.folder = dl_strdup(folder)};
    traces->processes = dl_calloc((size_t)count, sizeof *traces->processes, "processes of a run");
    for (int i = 0; i < count; i++) {
        const char *name = entries[i]->d_name;
        dl_run_process *process = find_process(traces, name);
        DL_AUTOFREE char *path = dl_format("%s/%s", folder, name);
        if (dl_ends_with(name, LOG_ENDING)) {
            read_log(process, path);
        } else {
            read_trace(process, path);
            traces->trace_count++;
            traces->device_process_count += process->summary.device_count > 0;
            traces->torch_count += process->by_torch;
        }
        free(entries[i]);
    }
    free(entries);
    qsort(traces->processes, traces->count, sizeof *traces->processes, compare);
    return DL_OK;
}

void dl_run_traces_free(dl_run_traces *traces)
{
    for (size_t i = 0; i < traces->count; i++) {
        dl_run_process *process = &traces->processes[i];
        dl_activity_summary_free(&process->summary);
        if (process->trace != NULL) dl_trace_free(process->trace);
        free(process->trace);
        free(process->text);
        free(process->json);
        free(process->stem);
        free(process->host);
        free(process->stopped);
        free(process->log);
    }
    free(traces->processes);
    free(traces->folder);
    *traces = (dl_run_traces){0};
}

/* Prints "rank 3, node1 pid 77: "; returns the number of columns printed. */
static int print_who(const dl_run_process *process, FILE *out)
{
    int columns = 0;
    if (process->rank >= 0) columns = fprintf(out, "rank %" PRId64 ", ", process->rank);
    if (process->host[0] == '\0') return columns + fprintf(out, "%s: ", process->stem);
    return columns + fprintf(out, "%s pid %" PRId64 ": ", process->host, process->pid);
}

/* Prints the rest of a line that has reached `column`, breaking it after commas if it is too
 * long. */
static void print_list(const char *text, int column, FILE *out)
{
    while (*text != '\0') {
        const char *comma = strstr(text, ", ");
        const int length = comma != NULL ? (int)(comma - text) + 1 : (int)strlen(text);
        if (column + length > DL_PRINT_COLUMNS && *text == ' ') {
            fprintf(out, "\n%*s", LIST_INDENT, "");
            column = LIST_INDENT - 1; /* for the blank, which is left out */
            fprintf(out, "%.*s", length - 1, text + 1);
        } else {
            fprintf(out, "%.*s", length, text);
        }
        column += length;
        text += length;
    }
    fputc('\n', out);
}

/* Writes the content of the trace in one line. */
static void write_contents(const dl_run_process *process, FILE *out)
{
    fprintf(out, "%" PRIu64 " activities", process->activities);
    const char *between = " (";
    for (int kind = 1; kind < DL_ACTIVITY_KIND_END; kind++) {
        if (process->counts[kind] == 0) continue;
        fprintf(out, "%s%" PRIu64 " %s", between, process->counts[kind],
                dl_activity_kind_name((dl_activity_kind)kind));
        between = ", ";
    }
    if (process->activities > 0) fputc(')', out);
    if (process->by_torch) fputs(", by PyTorch's profiler", out);
    fprintf(out, ", %s", DL_BYTES_TEXT(process->trace_bytes));
    if (process->lost > 0) fprintf(out, ", %" PRIu64 " more lost", process->lost);
    if (!process->complete) fputs(", incomplete", out);
    if (process->stopped != NULL) fprintf(out, ", stopped early: %s", process->stopped);
}

/* Prints the content of the trace, from `column` on. */
static void print_trace(const dl_run_process *process, int column, FILE *out)
{
    if (!process->readable) {
        fprintf(out, "its trace cannot be read: %s\n", process->error.text);
        return;
    }
    DL_AUTOFREE char *text = NULL;
    size_t bytes = 0;
    FILE *line = dl_text_stream(&text, &bytes);
    write_contents(process, line);
    fclose(line);
    print_list(text, column, out);
}

/* Prints each line of the log, indented. */
static void print_log(const char *log, FILE *out)
{
    for (const char *line = log; *line != '\0';) {
        const int length = (int)strcspn(line, "\n");
        fprintf(out, "    %.*s\n", length, line);
        line += length + (line[length] == '\n');
    }
}

/* Prints the devices of all processes, if several processes have some. */
static void print_comparison(const dl_run_traces *traces, FILE *out)
{
    DL_AUTOFREE dl_activity_summary *summaries =
        dl_calloc(traces->count, sizeof *summaries, "summaries");
    for (size_t i = 0; i < traces->count; i++)
        summaries[i] = traces->processes[i].summary;
    dl_activity_summaries_compare(summaries, traces->count, out);
}

/* Returns the process to print in full; NULL if none has activities. */
static const dl_run_process *first_of_interest(const dl_run_traces *traces)
{
    const dl_run_process *found = NULL;
    for (size_t i = 0; i < traces->count; i++) {
        const dl_run_process *process = &traces->processes[i];
        if (process->text == NULL) continue;
        if (process->summary.device_count > 0) return process;
        if (found == NULL) found = process;
    }
    return found;
}

static void print_process(const dl_run_process *process, FILE *out)
{
    const int column = print_who(process, out);
    if (process->has_trace) {
        print_trace(process, column, out);
    } else {
        fputs("left no trace\n", out);
    }
    if (process->log != NULL) print_log(process->log, out);
}

void dl_run_traces_print_troubles(const dl_run_traces *traces, FILE *out)
{
    for (size_t i = 0; i < traces->count; i++) {
        const dl_run_process *process = &traces->processes[i];
        const bool fine = process->has_trace && process->readable && process->complete &&
                          process->lost == 0 && process->log == NULL;
        if (!fine) print_process(process, out);
    }
}

void dl_run_traces_print(const dl_run_traces *traces, FILE *out)
{
    for (size_t i = 0; i < traces->count; i++)
        print_process(&traces->processes[i], out);
    print_comparison(traces, out);
    const dl_run_process *first = first_of_interest(traces);
    if (first != NULL) fprintf(out, "\n%s", first->text);
    if (first != NULL && traces->trace_count > 1) {
        fprintf(out, "\nthe other processes: %s %s/*%s\n",
                first->by_torch ? "dlcal info" : "dlprof info", traces->folder,
                first->by_torch ? TORCH_ENDING : OWN_ENDING);
    }
    if (first != NULL && first->by_torch) {
        fprintf(out, "\nfor dlsim: dlcal costs %s" TORCH_ENDING "%s\n", first->stem,
                first->trace != NULL && dl_trace_meta(first->trace, DL_META_SAMPLES) != NULL
                    ? ""
                    : " --batch SAMPLES");
    }
}

static void write_trace(const dl_run_process *process, dl_json *to)
{
    DL_AUTOFREE char *path =
        dl_format("%s%s", process->stem, process->by_torch ? TORCH_ENDING : OWN_ENDING);
    dl_json_text_item(to, "trace", path);
    dl_json_number_item(to, "bytes", (double)process->trace_bytes);
    dl_json_text_item(to, "error", process->readable ? NULL : process->error.text);
    if (!process->readable) return;
    dl_json_bool_item(to, "complete", process->complete);
    dl_json_text_item(to, "stopped", process->stopped);
    dl_json_number_item(to, "lost", (double)process->lost);
    dl_json_begin(to, "activities", '{');
    for (int kind = 1; kind < DL_ACTIVITY_KIND_END; kind++) {
        dl_json_number_item(to, dl_activity_kind_name((dl_activity_kind)kind),
                            (double)process->counts[kind]);
    }
    dl_json_end(to, '}');
    if (process->json == NULL) return;
    dl_json_item(to, "summary");
    fputs(process->json, to->out);
}

void dl_run_traces_write_json(const dl_run_traces *traces, dl_json *to)
{
    DL_JSON_LIST (to, "processes", i, traces->count) {
        const dl_run_process *process = &traces->processes[i];
        dl_json_begin(to, NULL, '{');
        dl_json_text_item(to, "host", process->host);
        dl_json_number_item(to, "pid", (double)process->pid);
        if (process->rank >= 0) {
            dl_json_number_item(to, "rank", (double)process->rank);
        } else {
            dl_json_null_item(to, "rank");
        }
        if (process->has_trace) {
            write_trace(process, to);
        } else {
            dl_json_null_item(to, "trace");
        }
        dl_json_text_item(to, "log", process->log);
        dl_json_end(to, '}');
    }
}
