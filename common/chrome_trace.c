#include "common/chrome_trace.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "common/units.h"

/* Bytes of the valid UTF-8 character that starts at text, or 0. Overlong forms, surrogates and
 * codes over U+10FFFF are not valid (Unicode 15, table 3-7): they show in the second byte. */
static int utf8_bytes(const unsigned char *text)
{
    unsigned char lead = text[0];
    int bytes = lead < 0x80 ? 1 : lead < 0xc2 ? 0 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
    if (lead > 0xf4) return 0;
    for (int i = 1; i < bytes; i++) {
        if ((text[i] & 0xc0) != 0x80) return 0; /* also at the end of the string */
    }
    if ((lead == 0xe0 && text[1] < 0xa0) || (lead == 0xed && text[1] > 0x9f) ||
        (lead == 0xf0 && text[1] < 0x90) || (lead == 0xf4 && text[1] > 0x8f)) {
        return 0;
    }
    return bytes;
}

static void write_string(FILE *out, const char *text)
{
    fputc('"', out);
    const unsigned char *c = (const unsigned char *)text;
    while (*c != '\0') {
        int bytes = utf8_bytes(c);
        if (bytes == 0) {
            fputs("\xef\xbf\xbd", out); /* U+FFFD */
            bytes = 1;
        } else if (*c == '"' || *c == '\\') {
            fprintf(out, "\\%c", *c);
        } else if (*c < 0x20) {
            fprintf(out, "\\u%04x", *c);
        } else {
            fwrite(c, 1, (size_t)bytes, out);
        }
        c += bytes;
    }
    fputc('"', out);
}

/* JSON has no NaN and no infinity. */
static void write_number(FILE *out, double value)
{
    char text[DL_DOUBLE_TEXT_BYTES];
    fputs(isfinite(value) ? dl_format_double(text, value) : "null", out);
}

/* Microseconds with three decimals, from the integer, so that no digit is lost after 2^53 ns. */
static void write_time(FILE *out, const char *key, int64_t ns)
{
    uint64_t size = ns < 0 ? -(uint64_t)ns : (uint64_t)ns;
    fprintf(out, ",\"%s\":%s%" PRIu64 ".%03" PRIu64, key, ns < 0 ? "-" : "", size / 1000,
            size % 1000);
}

/* Starts an event up to its name; the caller goes on with ,"key":value and end_event. */
static FILE *begin_event(dl_chrome_trace *trace, const char *phase, const char *name)
{
    FILE *out = trace->out;
    fprintf(out, "%s\n{\"ph\":\"%s\",\"name\":", trace->events > 0 ? "," : "", phase);
    write_string(out, name);
    trace->events++;
    return out;
}

static void end_event(FILE *out)
{
    fputc('}', out);
}

dl_status dl_chrome_trace_open(dl_chrome_trace *trace, const char *path, dl_error *err)
{
    FILE *out = fopen(path, "w");
    if (out == NULL) {
        return dl_error_set_at(err, DL_ERR_IO, path, 0, "cannot create: %s", strerror(errno));
    }
    *trace = (dl_chrome_trace){.out = out, .path = dl_strdup(path)};
    fputs("{\"displayTimeUnit\":\"ns\",\"traceEvents\":[", out);
    return DL_OK;
}

void dl_chrome_trace_process(dl_chrome_trace *trace, int pid, const char *name)
{
    FILE *out = begin_event(trace, "M", "process_name");
    fprintf(out, ",\"pid\":%d,\"args\":{\"name\":", pid);
    write_string(out, name);
    fputc('}', out);
    end_event(out);
}

void dl_chrome_trace_thread(dl_chrome_trace *trace, int pid, int tid, const char *name)
{
    FILE *out = begin_event(trace, "M", "thread_name");
    fprintf(out, ",\"pid\":%d,\"tid\":%d,\"args\":{\"name\":", pid, tid);
    write_string(out, name);
    fputc('}', out);
    end_event(out);
}

void dl_chrome_trace_slice(dl_chrome_trace *trace, int pid, int tid, const char *category,
                           const char *name, int64_t start_ns, int64_t duration_ns,
                           const dl_chrome_arg *args, int arg_count)
{
    DL_ASSERT(duration_ns >= 0, "slice '%s' lasts %" PRId64 " ns", name, duration_ns);
    FILE *out = begin_event(trace, "X", name);
    fputs(",\"cat\":", out);
    write_string(out, category);
    fprintf(out, ",\"pid\":%d,\"tid\":%d", pid, tid);
    write_time(out, "ts", start_ns);
    write_time(out, "dur", duration_ns);
    if (arg_count > 0) {
        for (int i = 0; i < arg_count; i++) {
            fputs(i == 0 ? ",\"args\":{" : ",", out);
            write_string(out, args[i].key);
            fputc(':', out);
            if (args[i].text != NULL) {
                write_string(out, args[i].text);
            } else {
                write_number(out, args[i].number);
            }
        }
        fputc('}', out);
    }
    end_event(out);
}

void dl_chrome_trace_flow(dl_chrome_trace *trace, int pid, int tid, uint64_t id, int is_start,
                          const char *name, int64_t time_ns)
{
    FILE *out = begin_event(trace, is_start ? "s" : "f", name);
    /* "bp":"e" binds the end to the slice around it, not to the next one. The id is text: a JSON
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
    write_number(out, value);
    fputc('}', out);
    end_event(out);
}

dl_status dl_chrome_trace_close(dl_chrome_trace *trace, dl_error *err)
{
    fputs("\n]}\n", trace->out);
    int failed = ferror(trace->out);
    failed |= fclose(trace->out) != 0;
    dl_status status = DL_OK;
    if (failed) {
        status = dl_error_set_at(err, DL_ERR_IO, trace->path, 0,
                                 "cannot write all of the trace (is the disk full?)");
    }
    free(trace->path);
    *trace = (dl_chrome_trace){0};
    return status;
}
