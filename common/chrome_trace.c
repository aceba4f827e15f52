#include "common/chrome_trace.h"

#include <inttypes.h>

#include "common/json.h"

/* Writes microseconds with three decimals from the integer, so that no digit is lost beyond 2^53
 * ns. */
static void write_time(FILE *out, const char *key, int64_t ns)
{
    uint64_t size = ns < 0 ? -(uint64_t)ns : (uint64_t)ns;
    fprintf(out, ",\"%s\":%s%" PRIu64 ".%03" PRIu64, key, ns < 0 ? "-" : "", size / 1000,
            size % 1000);
}

/* Starts an event up to its name; the caller continues with ,"key":value and end_event. */
static FILE *begin_event(dl_chrome_trace *trace, const char *phase, const char *name)
{
    FILE *out = trace->file.out;
    fprintf(out, "%s\n{\"ph\":\"%s\",\"name\":", trace->events > 0 ? "," : "", phase);
    dl_json_string(out, name);
    trace->events++;
    return out;
}

static void end_event(FILE *out)
{
    fputc('}', out);
}

void dl_chrome_trace_begin(dl_chrome_trace *trace, FILE *out)
{
    *trace = (dl_chrome_trace){.file = {.out = out}};
    fputs("{\"displayTimeUnit\":\"ns\",\"traceEvents\":[", out);
}

void dl_chrome_trace_finish(dl_chrome_trace *trace)
{
    fputs("\n]}\n", trace->file.out);
    trace->events = 0;
}

dl_status dl_chrome_trace_open(dl_chrome_trace *trace, const char *path, dl_error *err)
{
    dl_output file = {0};
    const dl_status status = dl_output_open(&file, path, err);
    if (status != DL_OK) return status;
    dl_chrome_trace_begin(trace, file.out);
    trace->file = file;
    return DL_OK;
}

/* Writes a name; tid < 0: of the process. */
static void write_name(dl_chrome_trace *trace, int pid, int tid, const char *name)
{
    FILE *out = begin_event(trace, "M", tid < 0 ? "process_name" : "thread_name");
    fprintf(out, ",\"pid\":%d", pid);
    if (tid >= 0) fprintf(out, ",\"tid\":%d", tid);
    fputs(",\"args\":{\"name\":", out);
    dl_json_string(out, name);
    fputs("}}", out);
}

void dl_chrome_trace_process(dl_chrome_trace *trace, int pid, const char *name)
{
    write_name(trace, pid, -1, name);
}

void dl_chrome_trace_thread(dl_chrome_trace *trace, int pid, int tid, const char *name)
{
    write_name(trace, pid, tid, name);
}

static void write_value(FILE *out, const dl_chrome_arg *arg)
{
    if (arg->text != NULL) {
        dl_json_string(out, arg->text);
    } else if (arg->numbers != NULL) {
        for (int i = 0; i < arg->number_count; i++)
            fprintf(out, "%c%" PRIu32, i == 0 ? '[' : ',', arg->numbers[i]);
        fputs(arg->number_count > 0 ? "]" : "[]", out);
    } else {
        dl_json_number(out, arg->number);
    }
}

static void write_args(FILE *out, const dl_chrome_arg *args, int arg_count)
{
    for (int i = 0; i < arg_count; i++) {
        fputs(i == 0 ? ",\"args\":{" : ",", out);
        dl_json_string(out, args[i].key);
        fputc(':', out);
        write_value(out, &args[i]);
    }
    if (arg_count > 0) fputc('}', out);
}

/* Writes the common part of slices and instants, up to their start. */
static FILE *begin_on_track(dl_chrome_trace *trace, const char *phase, int pid, int tid,
                            const char *category, const char *name, int64_t time_ns)
{
    FILE *out = begin_event(trace, phase, name);
    fputs(",\"cat\":", out);
    dl_json_string(out, category);
    fprintf(out, ",\"pid\":%d,\"tid\":%d", pid, tid);
    write_time(out, "ts", time_ns);
    return out;
}

void dl_chrome_trace_metadata(dl_chrome_trace *trace, int pid, const char *name,
                              const dl_chrome_arg *args, int arg_count)
{
    FILE *out = begin_event(trace, "M", name);
    fprintf(out, ",\"pid\":%d", pid);
    write_args(out, args, arg_count);
    end_event(out);
}

void dl_chrome_trace_slice(dl_chrome_trace *trace, int pid, int tid, const char *category,
                           const char *name, int64_t start_ns, int64_t duration_ns,
                           const dl_chrome_arg *args, int arg_count)
{
    DL_ASSERT(duration_ns >= 0, "slice '%s' lasts %" PRId64 " ns", name, duration_ns);
    FILE *out = begin_on_track(trace, "X", pid, tid, category, name, start_ns);
    write_time(out, "dur", duration_ns);
    write_args(out, args, arg_count);
    end_event(out);
}

void dl_chrome_trace_instant(dl_chrome_trace *trace, int pid, int tid, const char *category,
                             const char *name, int64_t time_ns, const dl_chrome_arg *args,
                             int arg_count)
{
    FILE *out = begin_on_track(trace, "i", pid, tid, category, name, time_ns);
    fputs(",\"s\":\"t\"", out); /* scope: the thread */
    write_args(out, args, arg_count);
    end_event(out);
}

void dl_chrome_trace_flow(dl_chrome_trace *trace, int pid, int tid, uint64_t id, int is_start,
                          const char *name, int64_t time_ns)
{
    FILE *out = begin_event(trace, is_start ? "s" : "f", name);
    /* "bp":"e" binds the end to the enclosing slice instead of the next one. The id is text: a JSON
     * number would lose bits above 2^53. */
    fprintf(out, ",\"cat\":\"flow\",\"id\":\"0x%" PRIx64 "\"%s,\"pid\":%d,\"tid\":%d", id,
            is_start ? "" : ",\"bp\":\"e\"", pid, tid);
    write_time(out, "ts", time_ns);
    end_event(out);
}

void dl_chrome_trace_counter(dl_chrome_trace *trace, int pid, const char *name, int64_t time_ns,
                             double value)
{
    FILE *out = begin_event(trace, "C", name);
    fprintf(out, ",\"pid\":%d", pid);
    write_time(out, "ts", time_ns);
    fputs(",\"args\":{\"value\":", out);
    dl_json_number(out, value);
    fputc('}', out);
    end_event(out);
}

dl_status dl_chrome_trace_close(dl_chrome_trace *trace, dl_error *err)
{
    dl_chrome_trace_finish(trace);
    trace->events = 0;
    return dl_output_end(&trace->file, DL_OK, err);
}
