#include "sim/report/live.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/alloc.h"
#include "common/file.h"
#include "common/ini.h"
#include "common/install.h"
#include "common/json.h"
#include "common/names.h"
#include "common/options.h"
#include "common/output.h"
#include "sim/report/html.h"
#include "sim/sync/mode.h"

#define FILES_BYTES_MAX ((size_t)4 << 20) /* largest total size of a study's files in the page */

/* The simulator, and the script that runs it. */
typedef struct core {
    char *text, *script;
    const char *made;          /* "VERSION COMMIT" */
    const char *glue, *binary; /* .lzma in base 85 (page/live.js) */
} core;

/* Whether the text has only the digits of page/live.js, none of which is special in HTML. */
static bool is_base85(const char *text)
{
    return text[0] != '\0' &&
           text[strspn(text, "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
                             "!#$%.()*+-;,=>?@^_:{|}~")] == '\0';
}

static void core_free(core *c)
{
    free(c->text);
    free(c->script);
    *c = (core){0};
}

/* Reads the two files; DL_ERR_UNSUPPORTED if one is missing or has the wrong format. */
static dl_status core_read(core *c, dl_error *err)
{
    static const char magic[] = "dlscale-core 3 ";
    DL_AUTOFREE char *path = dl_share_path("page/dlsim.core"),
                     *script = dl_share_path("page/live.js");
    size_t bytes = 0;
    *c = (core){0};
    dl_status status = DL_OK;
    if (dl_file_read(path, &c->text, &bytes, NULL) != DL_OK ||
        dl_file_read(script, &c->script, &bytes, NULL) != DL_OK) {
        status = dl_error_set_at(err, DL_ERR_UNSUPPORTED, c->text == NULL ? path : script, 0,
                                 "is not there: in the source's folder, ./check --page makes it");
    } else {
        char *rest = c->text;
        char *head = strsep(&rest, "\n"), *glue = strsep(&rest, "\n"),
             *binary = strsep(&rest, "\n");
        if (strncmp(head, magic, strlen(magic)) != 0 || glue == NULL || binary == NULL ||
            !is_base85(glue) || !is_base85(binary)) {
            status = dl_error_set_at(err, DL_ERR_UNSUPPORTED, path, 0,
                                     "is not a core of a page: ./check --page rebuilds it");
        } else {
            c->made = head + strlen(magic);
            c->glue = glue;
            c->binary = binary;
        }
    }
    if (status != DL_OK) core_free(c);
    return status;
}

/* --- data of a study -------------------------------------------------------------------------- */

typedef struct file_list {
    dl_json *to;
    char **paths; /* [count] */
    size_t count, bytes;
    char *shared; /* folder of the machine files that are built into the page's simulator too, where
                   * they are found by name */
    const char *scenario; /* its text, borrowed */
} file_list;

/* Adds the text of a readable file unless the list or the page's simulator has it already. */
static void add_file(file_list *files, const char *path)
{
    DL_AUTOFREE char *text = NULL;
    size_t bytes = 0;
    if (path == NULL) return;
    if (strncmp(path, files->shared, strlen(files->shared)) == 0 &&
        strstr(files->scenario, path) == NULL)
        return;
    for (size_t i = 0; i < files->count; i++)
        if (strcmp(files->paths[i], path) == 0) return;
    if (access(path, R_OK) != 0 || dl_file_read(path, &text, &bytes, NULL) != DL_OK) return;
    DL_APPEND(files->paths, files->count, "paths") = dl_strdup(path);
    files->bytes += bytes;
    dl_json_text_item(files->to, path, text);
}

/* Adds the config.json of a network's description (sim/workloads/architecture.h), if it has one. */
static void add_config(file_list *files, const char *model)
{
    if (model == NULL) return;
    DL_AUTOFREE char *path = dl_strndup(model, strcspn(model, ":"));
    if (dl_ends_with(path, ".json")) add_file(files, path);
}

/* Writes the texts of all files that the scenarios name; returns their total size in bytes. */
static size_t put_files(dl_json *to, const dl_study *study)
{
    file_list files = {
        .to = to, .shared = dl_share_path("scenarios/machines"), .scenario = study->text};
    dl_json_begin(to, "files", '{');
    for (size_t v = 0; v < study->variant_count; v++) {
        const dl_scenario *scenario = &study->variants[v].scenario;
        add_file(&files, scenario->costs_path);
        add_file(&files, scenario->scale_path);
        add_file(&files, scenario->trace_path);
        add_file(&files, scenario->measured_path);
        add_config(&files, scenario->model);
        if (scenario->gpu != NULL) add_file(&files, scenario->gpu->machine.path);
        for (size_t f = 0; f < scenario->gpu_costs_count; f++)
            add_file(&files, scenario->gpu_costs[f].path);
    }
    dl_json_end(to, '}');
    for (size_t i = 0; i < files.count; i++)
        free(files.paths[i]);
    free(files.paths);
    free(files.shared);
    return files.bytes;
}

/* Keys of [sync] that have a control. */
static const dl_sync_option shown_options[] = {DL_SYNC_INTERVAL, DL_SYNC_BOUND, DL_SYNC_K};

static void put_points(dl_json *to, const dl_sweep *sweep)
{
    DL_JSON_LIST (to, "points", i, sweep->row_count) {
        const dl_row *row = &sweep->rows[i];
        dl_json_begin(to, NULL, '{');
        dl_json_number_item(to, "workers", row->point.workers);
        dl_json_number_item(to, "batch", (double)row->point.batch);
        dl_json_text_item(to, "sync", dl_point_mode(&row->point));
        for (size_t o = 0; o < DL_LENGTH(shown_options); o++)
            if (dl_point_shows(&row->point, shown_options[o]))
                dl_json_number_item(to, dl_sync_options[shown_options[o]].name,
                                    row->point.option[shown_options[o]]);
        if (row->error == NULL) {
            dl_json_number_item(to, "throughput_per_s", row->mean.throughput_per_s);
            dl_json_number_item(to, "events", (double)row->mean.events);
        }
        dl_json_end(to, '}');
    }
}

static void put_mode(dl_json *to, const dl_mode *mode, const char *name)
{
    dl_json_begin(to, NULL, '{');
    dl_json_text_item(to, "name", name);
    for (size_t o = 0; o < DL_LENGTH(shown_options); o++)
        dl_json_bool_item(to, dl_sync_options[shown_options[o]].name,
                          dl_mode_takes(mode, shown_options[o]));
    dl_json_end(to, '}');
}

/* Writes the modes to choose from: all of dl_modes, on GPUs also common shorthands ("fsdp"), and
 * the shorthands of the study's points. `study` may be NULL. */
static void put_modes(dl_json *to, const dl_study *study, const dl_sweep *sweep)
{
    static const char *const usual[] = {"fsdp", "zero1", "zero2", "diloco"};
    const bool on_gpus = study == NULL || study->variants[0].scenario.gpu != NULL;
    dl_json_begin(to, "modes", '[');
    for (size_t m = 0; m < DL_MODES; m++) {
        put_mode(to, dl_modes[m], dl_modes[m]->name);
        for (size_t w = 0; w < DL_LENGTH(usual) && on_gpus; w++)
            if (strcmp(dl_mode_shorthand_find(usual[w])->mode, dl_modes[m]->name) == 0)
                put_mode(to, dl_modes[m], usual[w]);
    }
    const char *word = NULL;
    for (size_t i = 0; study != NULL && i < sweep->row_count; i++) {
        const dl_point *point = &sweep->rows[i].point;
        const bool is_new = point->word != NULL && point->word != word;
        if (is_new && !(on_gpus && dl_names_find(point->word, usual, DL_LENGTH(usual)) >= 0))
            put_mode(to, point->mode, point->word);
        word = point->word;
    }
    dl_json_end(to, ']');
}

/* Writes the script's data; returns the size of the study's files in bytes. `study` may be NULL. */
static size_t put_data(FILE *out, const core *c, const dl_study *study, const dl_sweep *sweep)
{
    dl_json to = {.out = out};
    size_t bytes = 0;
    dl_json_begin(&to, NULL, '{');
    dl_json_text_item(&to, "version", dl_version());
    dl_json_text_item(&to, "core", c->made);
    put_modes(&to, study, sweep);
    if (study != NULL) {
        const dl_scenario *first = &study->variants[0].scenario;
        dl_json_text_item(&to, "scenario", study->path);
        dl_json_text_item(&to, "text", study->text);
        dl_json_bool_item(&to, "batch_per_worker", first->batch_per_worker);
        dl_json_bool_item(&to, "generators", first->generators != NULL); /* they make the batch */
        dl_json_bool_item(&to, "placement", /* which gives the workers */
                          dl_ini_text_line(study->text, "machine", "placement") != NULL);
        dl_json_bool_item(&to, "gpus", first->gpu != NULL);
        DL_JSON_LIST (&to, "swept", k, study->key_count)
            dl_json_text_item(&to, NULL, study->keys[k].column);
        put_points(&to, sweep);
        bytes = put_files(&to, study);
    }
    dl_json_end(&to, '}');
    return bytes;
}

static void put_live(FILE *out, const core *c, const char *data)
{
    fputs("<section id=\"live\"></section>\n"
          "<noscript><p>The controls need JavaScript.</p></noscript>\n",
          out);
    dl_html_data(out, "live-data", data);
    fprintf(out,
            "<script type=\"text/plain\" id=\"live-glue\">%s</script>\n"
            "<script type=\"text/plain\" id=\"live-core\">%s</script>\n<script>\n%s</script>\n",
            c->glue, c->binary, c->script);
}

void dl_live_put(FILE *out, const dl_study *study, const dl_sweep *sweep)
{
    core c;
    dl_error why = {0};
    fputs("<h2>Try other settings</h2>\n", out);
    if (core_read(&c, &why) != DL_OK) {
        dl_html(out,
                "<p class=\"remarks\">This page has no controls, as the simulator that they run, "
                "%s, %s.</p>\n",
                why.file, why.text);
        return;
    }
    DL_AUTOFREE char *data = NULL;
    size_t length = 0;
    FILE *text = dl_text_stream(&data, &length);
    const size_t bytes = put_data(text, &c, study, sweep);
    fclose(text);
    if (bytes <= FILES_BYTES_MAX) {
        put_live(out, &c, data);
    } else {
        dl_html(out,
                "<p class=\"remarks\">This page has no controls: the files of the scenario have "
                "%zu bytes, more than %zu.</p>\n",
                bytes, FILES_BYTES_MAX);
    }
    core_free(&c);
}

dl_status dl_live_write(const char *path, dl_error *err)
{
    DL_SCOPED(core) c;
    dl_output output = {0};
    dl_status status = core_read(&c, err);
    if (status == DL_OK) status = dl_output_open(&output, path, err);
    if (status == DL_OK) {
        DL_AUTOFREE char *data = NULL;
        size_t length = 0;
        FILE *text = dl_text_stream(&data, &length);
        put_data(text, &c, NULL, NULL);
        fclose(text);
        dl_html_begin(output.out, "dlscale: how fast, and how stale, with more GPUs?");
        dl_html_figures_script(output.out);
        put_live(output.out, &c, data);
        dl_html(output.out, "<p class=\"sources\">By dlsim %s.</p>\n", dl_version());
        dl_html_end(output.out);
        status = dl_output_end(&output, DL_OK, err);
    }
    return status;
}
