/* Converts the JSON file of nccl-tests (option -J, from 2.17 on; src/util.cu of nccl-tests,
 * JSON_FILE_VERSION 1 and 2) to the table that nccl-tests prints, which nccl_tests.c reads:
 *
 *   {"version":2, "args":["./build/all_reduce_perf","-b","8"], "nccl_version":22703,
 *    "config":{"nthreads":1,"ngpus":8, ...,
 *              "devices":[{"rank":0,"hostname":"a","device_info":"NVIDIA H100", ...}]},
 *    "results":[{"size":8,"count":2,"type":"float","redop":"sum","root":"    -1",
 *                "out_of_place":{"time":25.1,"alg_bw":0.0,"bus_bw":0.0,"nwrong":0.0},
 *                "in_place":{"time":24.9, ...}, ...}], ...}
 *
 * `devices` lists the first GPU of each process only. With option -C, "cpu_time" replaces
 * "time". */
#include <ctype.h>
#include <string.h>

#include "calibrate/links/links_internal.h"
#include "common/alloc.h"
#include "trace/readers/json_events.h"

#define GPUS_MAX 4096 /* maximum number of threads per process, and of GPUs per thread */
#define RANKS_MAX 65536
#define WORD_BYTES 128

typedef struct nccl_json {
    FILE *out;
    int64_t threads, gpus; /* threads per process, GPUs per thread */
    int64_t rank;          /* next rank */
    bool has_program;
} nccl_json;

static bool is_key(dl_json_text key, const char *name)
{
    return key.bytes == strlen(name) && memcmp(key.at, name, key.bytes) == 0;
}

/* Copies the value without quotes and leading blanks, truncated to WORD_BYTES - 1 characters; ""
 * for null and nan. */
static void copy_word(char word[WORD_BYTES], dl_json_text value)
{
    DL_AUTOFREE char *text = dl_calloc(value.bytes + 1, 1, "a value");
    if (value.bytes > 0 && value.at[0] == '"') {
        dl_json_unescape(value, text);
    } else if (value.bytes > 0) {
        memcpy(text, value.at, value.bytes);
    }
    snprintf(word, WORD_BYTES, "%s", text + strspn(text, " "));
    if (strcmp(word, "nan") == 0 || strcmp(word, "null") == 0) word[0] = '\0';
}

/* --- a row ----------------------------------------------------------------------------------- */

enum { ROW_WORDS = 5, PLACES = 2, PLACE_WORDS = 4 };

typedef struct json_row {
    char words[ROW_WORDS][WORD_BYTES], places[PLACES][PLACE_WORDS][WORD_BYTES];
} json_row;

static void take_place(void *context, dl_json_text key, dl_json_text value)
{
    static const char *const names[PLACE_WORDS] = {"time", "alg_bw", "bus_bw", "nwrong"};
    char(*words)[WORD_BYTES] = context;
    for (int i = 0; i < PLACE_WORDS; i++)
        if (is_key(key, names[i])) copy_word(words[i], value);
    if (is_key(key, "cpu_time")) copy_word(words[0], value);
}

static void take_row(void *context, dl_json_text key, dl_json_text value)
{
    static const char *const names[ROW_WORDS] = {"size", "count", "type", "redop", "root"};
    json_row *row = context;
    for (int i = 0; i < ROW_WORDS; i++)
        if (is_key(key, names[i])) copy_word(row->words[i], value);
    if (is_key(key, "out_of_place")) dl_json_visit(value, take_place, row->places[0]);
    if (is_key(key, "in_place")) dl_json_visit(value, take_place, row->places[1]);
}

static void put_row(void *context, dl_json_text key DL_UNUSED, dl_json_text value)
{
    const nccl_json *json = context;
    json_row row = {0};
    dl_json_visit(value, take_row, &row);
    for (int i = 0; i < ROW_WORDS; i++)
        fprintf(json->out, " %s", row.words[i][0] != '\0' ? row.words[i] : "none");
    for (int p = 0; p < PLACES; p++)
        for (int i = 0; i < PLACE_WORDS; i++)
            fprintf(json->out, " %s", row.places[p][i][0] != '\0' ? row.places[p][i] : "N/A");
    fputc('\n', json->out);
}

/* --- command and ranks ----------------------------------------------------------------------- */

static void take_device(void *context, dl_json_text key, dl_json_text value)
{
    char(*words)[WORD_BYTES] = context;
    if (is_key(key, "hostname")) copy_word(words[0], value);
    if (is_key(key, "device_info")) copy_word(words[1], value);
}

static void put_device(void *context, dl_json_text key DL_UNUSED, dl_json_text value)
{
    nccl_json *json = context;
    char words[2][WORD_BYTES] = {""};
    dl_json_visit(value, take_device, words);
    for (int64_t i = 0; i < json->threads * json->gpus && json->rank < RANKS_MAX; i++)
        fprintf(json->out, "#  Rank %lld Group 0 Pid 0 on %s device 0 [-] %s\n",
                (long long)json->rank++, words[0], words[1]);
}

static void take_config(void *context, dl_json_text key, dl_json_text value)
{
    nccl_json *json = context;
    int64_t *count = is_key(key, "nthreads") ? &json->threads
                     : is_key(key, "ngpus")  ? &json->gpus
                                             : NULL;
    if (count != NULL && (!dl_json_int(value, count) || *count < 1 || *count > GPUS_MAX))
        *count = 1;
    if (!is_key(key, "devices")) return;
    fprintf(json->out, "# nThread %lld nGpus %lld\n", (long long)json->threads,
            (long long)json->gpus);
    dl_json_visit(value, put_device, json);
}

static void put_program(void *context, dl_json_text key DL_UNUSED, dl_json_text value)
{
    nccl_json *json = context;
    char word[WORD_BYTES];
    if (json->has_program) return;
    json->has_program = true;
    copy_word(word, value);
    fprintf(json->out, "# Collective test starting: %s\n", word);
}

static void take_member(void *context, dl_json_text key, dl_json_text value)
{
    nccl_json *json = context;
    if (is_key(key, "args")) dl_json_visit(value, put_program, json);
    if (is_key(key, "config")) dl_json_visit(value, take_config, json);
    if (!is_key(key, "results")) return;
    fputs("# size count type redop root time algbw busbw #wrong time algbw busbw #wrong\n",
          json->out);
    dl_json_visit(value, put_row, json);
}

char *dl_nccl_json_table(const char *text, size_t bytes)
{
    static const char mark[] = "\"nccl_version\"";
    size_t length = 0, first = 0;
    char *table = NULL;
    while (first < bytes && isspace((unsigned char)text[first]))
        first++;
    if (first == bytes || text[first] != '{' || memmem(text, bytes, mark, strlen(mark)) == NULL)
        return NULL;
    nccl_json json = {.out = dl_text_stream(&table, &length), .threads = 1, .gpus = 1};
    dl_json_visit((dl_json_text){text + first, bytes - first}, take_member, &json);
    fclose(json.out);
    return table;
}
