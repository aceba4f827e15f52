/* Records of traces in a cost file: [trace NUMBER] and [notes]. */
#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "common/units.h"
#include "sim/costs/costs_internal.h"

/* A name or note as one line that reads back: a ';' after a blank would start a comment, and a ','
 * separates the items of a list. */
static void write_text(FILE *out, const char *text, bool in_list)
{
    char last = '\0';
    for (const char *c = text; *c != '\0'; last = *c++) {
        const bool breaks = (unsigned char)*c < ' ' || (in_list && *c == ',');
        const bool comments = *c == ';' && (last == ' ' || last == '\0');
        fputc(breaks ? ' ' : comments ? ',' : *c, out);
    }
}

static dl_status parse_collective(const dl_ini *ini, const dl_ini_entry *entry,
                                  dl_traced_collective *c, dl_error *err)
{
    char **items = NULL;
    size_t count = 0;
    dl_error inner = {0};
    dl_status status = dl_ini_split(ini, entry, &items, &count, err);
    if (status != DL_OK) return status;
    if (count != 5) {
        status = dl_ini_error(ini, entry, DL_ERR_PARSE, err,
                              "expected a name, calls, bytes, ns and ranks of a step");
    } else if ((status = dl_parse_double(items[1], 0, 1e9, &c->calls, &inner)) ||
               (status = dl_parse_double(items[2], 0, 1e18, &c->bytes, &inner)) ||
               (status = dl_parse_double(items[3], 0, 3.6e12, &c->ns, &inner)) ||
               (status = dl_parse_int(items[4], 0, 1000000, &c->ranks, &inner))) {
        dl_ini_error(ini, entry, status, err, "%s", inner.text);
    } else {
        c->name = dl_strdup(items[0]);
    }
    dl_ini_free_list(items, count);
    return status;
}

static dl_status read_collective(dl_cost_trace *trace, const dl_ini *ini, const dl_ini_entry *entry,
                                 dl_error *err)
{
    const int64_t next = (int64_t)trace->collective_count + 1;
    int64_t number = 0;
    dl_traced_collective collective = {0};
    dl_status status = dl_costs_numbered_key(ini, entry, "collective_", next, next, &number, err);
    if (status == DL_OK) status = parse_collective(ini, entry, &collective, err);
    if (status != DL_OK) return status;
    DL_APPEND(trace->collectives, trace->collective_count, "traced collectives") = collective;
    return DL_OK;
}

/* The last trace, or a new one where the section has its number. */
static dl_status find_trace(dl_costs *costs, const dl_ini *ini, const dl_ini_entry *entry,
                            dl_cost_trace **trace, dl_error *err)
{
    int64_t number = 0;
    dl_error inner = {0};
    const int64_t count = (int64_t)costs->trace_count;
    if (dl_parse_int(entry->section + strlen("trace "), count > 0 ? count : 1, count + 1, &number,
                     &inner) != DL_OK) {
        return dl_ini_error(ini, entry, DL_ERR_NAME, err,
                            "the sections of traces are called [trace 1], [trace 2], ... in turn");
    }
    if (number > count) {
        dl_cost_trace *made = &DL_APPEND(costs->traces, costs->trace_count, "traces");
        *made = (dl_cost_trace){.rank = -1};
        const dl_status status =
            dl_keys_read(&dl_cost_keys, DL_COST_TRACE, ini, entry->section, made, err);
        if (status != DL_OK) return status;
    }
    *trace = &costs->traces[costs->trace_count - 1];
    return DL_OK;
}

dl_status dl_costs_read_trace(dl_costs *costs, const dl_ini *ini, const dl_ini_entry *entry,
                              dl_error *err)
{
    dl_cost_trace *trace = NULL;
    const dl_key *key = dl_keys_find(&dl_cost_keys, entry->section, entry->key);
    const dl_status status = find_trace(costs, ini, entry, &trace, err);
    if (status != DL_OK) return status;
    if (key->owner == DL_COST_SERIES) return read_collective(trace, ini, entry, err);
    return key->type == DL_KEY_OWN ? dl_costs_read_into(trace, ini, entry, err) : DL_OK;
}

dl_status dl_costs_read_note(dl_costs *costs, const dl_ini *ini, const dl_ini_entry *entry,
                             dl_error *err)
{
    const int64_t next = (int64_t)costs->note_count + 1;
    int64_t number = 0;
    const dl_status status = dl_costs_numbered_key(ini, entry, "note_", next, next, &number, err);
    if (status != DL_OK) return status;
    DL_APPEND(costs->notes, costs->note_count, "notes") = dl_strdup(entry->value);
    return DL_OK;
}

static void write_trace(FILE *out, const dl_cost_trace *trace, size_t number)
{
    fprintf(out, "\n[trace %zu]\n", number);
    if (trace->file != NULL) {
        fputs("file = ", out);
        write_text(out, trace->file, false);
        fputc('\n', out);
    }
    if (trace->ranks > 0) fprintf(out, "ranks = %lld\n", (long long)trace->ranks);
    if (trace->rank >= 0) fprintf(out, "rank = %lld\n", (long long)trace->rank);
    fprintf(out, "batch = %lld\n", (long long)trace->batch);
    if (trace->allreduces) fputs("allreduces = yes\n", out);
    dl_costs_write_line(out, "step_ns", &trace->step_ns);
    dl_costs_write_line(out, "recording_ns", &trace->recording_ns);
    for (size_t i = 0; i < trace->collective_count; i++) {
        const dl_traced_collective *c = &trace->collectives[i];
        fprintf(out, "collective_%zu = ", i + 1);
        write_text(out, c->name, true);
        fprintf(out, ", %.9g, %.12g, %.12g, %lld\n", c->calls, c->bytes, c->ns,
                (long long)c->ranks);
    }
}

void dl_costs_write_traces(FILE *out, const dl_costs *costs)
{
    for (size_t i = 0; i < costs->trace_count; i++)
        write_trace(out, &costs->traces[i], i + 1);
    for (size_t i = 0; i < costs->note_count; i++) {
        fprintf(out, "%snote_%zu = ", i == 0 ? "\n[notes]\n" : "", i + 1);
        write_text(out, costs->notes[i], false);
        fputc('\n', out);
    }
}

void dl_costs_free_traces(dl_costs *costs)
{
    for (size_t i = 0; i < costs->trace_count; i++) {
        dl_cost_trace *trace = &costs->traces[i];
        for (size_t c = 0; c < trace->collective_count; c++)
            free(trace->collectives[c].name);
        free(trace->collectives);
        free(trace->file);
    }
    for (size_t i = 0; i < costs->note_count; i++)
        free(costs->notes[i]);
    free(costs->traces);
    free(costs->notes);
}
