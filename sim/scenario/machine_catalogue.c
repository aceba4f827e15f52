#include "sim/scenario/machine_catalogue.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/alloc.h"
#include "common/file.h"
#include "common/ini.h"
#include "common/install.h"
#include "common/names.h"
#include "common/output.h"
#include "common/rows.h"
#include "sim/scenario/machine_catalogue_internal.h"

char *dl_machine_usual(const char *gpu, int count)
{
    DL_SCOPED(dl_machine_tables) t = {0};
    char *name = NULL;
    if (dl_machine_tables_read(&t, NULL) == DL_OK) {
        const int row = dl_machine_row(&t.gpus, gpu);
        const char *board = row >= 0 ? dl_machine_cell(&t.gpus, (size_t)row, "board") : "";
        if (board[0] != '\0') name = dl_strdup(board);
    }
    return name != NULL ? name : dl_format("%dx%s", count, gpu);
}

char *dl_machine_own_name(const char *path)
{
    const char *base = dl_base_name(path);
    char *name = dl_strndup(base, strlen(base) - (dl_ends_with(base, ".ini") ? 4 : 0));
    DL_AUTOFREE char *file = dl_machine_file(name), *real = realpath(path, NULL);
    DL_AUTOFREE char *real_file = file != NULL ? realpath(file, NULL) : NULL;
    const bool own = real != NULL && real_file != NULL && strcmp(real, real_file) == 0;
    if (own) return name;
    free(name);
    return NULL;
}

bool dl_machine_is_known(const char *path)
{
    DL_SCOPED(dl_machine_tables) t = {0};
    dl_wanted_machine w;
    const char *name = dl_base_name(path);
    if (access(path, F_OK) == 0 || dl_ends_with(name, ".ini")) return false;
    DL_AUTOFREE char *file = dl_machine_file(name);
    if (file != NULL) return true;
    if (dl_machine_tables_read(&t, NULL) != DL_OK) return false;
    const dl_status status = dl_machine_understand(&t, name, &w, NULL);
    free(w.file);
    return status == DL_OK;
}

bool dl_machine_counts_nodes(const char *path)
{
    DL_SCOPED(dl_machine_tables) t = {0};
    dl_wanted_machine w;
    if (!dl_machine_is_known(path) || dl_machine_tables_read(&t, NULL) != DL_OK) return false;
    const dl_status status = dl_machine_understand(&t, dl_base_name(path), &w, NULL);
    free(w.file);
    return status == DL_OK && w.counted;
}

/* Returns the text of the machine file that dl_machine_open reads, and its name in messages; the
 * caller frees both. */
static dl_status read_machine_text(const char *path, char **name, char **text, size_t *bytes,
                                   dl_error *err)
{
    const char *last = dl_base_name(path);
    const bool is_file = access(path, F_OK) == 0 || dl_ends_with(last, ".ini");
    *text = NULL;
    *name = is_file ? dl_strdup(path) : dl_machine_file(last);
    if (*name != NULL) return dl_file_read(*name, text, bytes, err);
    *name = dl_strdup(last);
    const dl_status status = dl_machine_make_text(last, text, err);
    if (status == DL_OK) *bytes = strlen(*text);
    return status;
}

dl_status dl_machine_open(dl_machine *machine, const char *path, dl_error *err)
{
    DL_AUTOFREE char *name = NULL, *text = NULL;
    size_t bytes = 0;
    dl_status status = read_machine_text(path, &name, &text, &bytes, err);
    if (status == DL_OK) status = dl_machine_read_text(machine, name, text, bytes, err);
    return status;
}

dl_status dl_machine_save(const dl_machine *machine, const char *file, dl_error *err)
{
    DL_SCOPED(dl_machine) before = {0};
    char nodes[24];
    DL_AUTOFREE char *name = NULL, *text = NULL;
    size_t bytes = 0;
    dl_status status = read_machine_text(machine->path, &name, &text, &bytes, err);
    if (status == DL_OK) status = dl_machine_read_text(&before, name, text, bytes, err);
    if (status == DL_OK && before.nodes != machine->nodes) {
        snprintf(nodes, sizeof nodes, "%d", machine->nodes);
        dl_ini_text_set(&text, "machine", "nodes", nodes);
    }
    return status == DL_OK ? dl_output_text(file, text, err) : status;
}

/* --- the list -------------------------------------------------------------------------------- */

/* Returns "gtx1080ti+rtx2080ti", freed by the caller. */
static char *models_text(const dl_machine *m)
{
    char *text = NULL;
    for (int i = 0; i < m->model_count; i++)
        if (dl_machine_has_model(m, i)) dl_join(&text, "+", m->models[i].name);
    return text;
}

/* Adds a row for a machine. `titles` NULL: a cloud instance, whose title begins with its cloud. */
static void add_machine(dl_rows *list, dl_rows *titles, const char *name, const dl_machine *m,
                        const char *date)
{
    const dl_node_kind *n = dl_machine_node(m, 0);
    const int link = n->nvlink_count > 0 ? n->nvlinks[0].link : n->gpus[0].link;
    const char *links = n->nvswitch_link >= 0 ? "NVSwitch" : m->classes[link].name;
    if (links != NULL && strncmp(links, "bridge_", 7) == 0) links = "bridges";
    const dl_quantity *each = &n->gpu_price_usd_per_hour, *all = &n->price_usd_per_hour;
    DL_AUTOFREE char *gpus = models_text(m);
    DL_AUTOFREE char *cloud = dl_strndup(m->name, titles == NULL ? strcspn(m->name, " ") : 0);
    dl_rows_add(list,
                "|name=%-s |nodes=%d |GPUs=%d |GPU=%-s |links=%-s |USD/h=%.3g |priced=%-s "
                "|from=%-s",
                name, m->nodes, n->gpu_count, gpus, links != NULL ? links : "-",
                each->known  ? each->value * n->gpu_count
                : all->known ? all->value
                             : (double)NAN,
                date, cloud);
    if (titles != NULL) dl_rows_add(titles, "|name=%-s |machine=%-s", name, m->name);
}

static dl_status add_one(dl_rows *list, dl_rows *titles, const char *folder, const char *name,
                         const char *date, dl_error *err)
{
    DL_SCOPED(dl_machine) machine = {0};
    DL_AUTOFREE char *path =
        folder != NULL ? dl_format("%s/%s.ini", folder, name) : dl_strdup(name);
    dl_status status = dl_machine_open(&machine, path, err);
    if (status == DL_OK) add_machine(list, titles, name, &machine, date);
    return status;
}

/* Returns the number in a cell such as "67Tflop/s"; NaN if it is empty. */
static double cell_number(const dl_csv *table, size_t row, const char *column)
{
    const char *text = dl_machine_cell(table, row, column);
    return text[0] != '\0' ? strtod(text, NULL) : (double)NAN;
}

static void print_gpus(FILE *out, const dl_csv *gpus)
{
    dl_rows to = {.out = out};
    fprintf(out,
            "\nCOUNTxGPU, as 4xrtx3090, is a box of 1 to %d of these GPUs, COUNTxGPU+COUNTxGPU\n"
            "one with unlike ones; memory, its rate in GB/s, Tflop/s without sparsity:\n",
            DL_BOX_GPUS_MAX);
    dl_rows_begin(&to, NULL, NULL);
    for (size_t r = 0; r < gpus->rows; r++) {
        const char *fabric = dl_machine_cell(gpus, r, "fabric");
        const char *links = fabric[0] != '\0' ? fabric : dl_machine_cell(gpus, r, "bus");
        DL_AUTOFREE char *first = dl_strndup(links, strcspn(links, "+"));
        const bool die = strstr(dl_machine_cell(gpus, r, "title"), "one die") != NULL;
        dl_rows_add(&to,
                    "|GPU=%-s |memory=%s |GB/s=%g |fp32=%.4g |tf32=%.4g |fp16=%.4g |bf16=%.4g "
                    "|fp8=%.4g |links=%-s |=%-s",
                    dl_machine_cell(gpus, r, "name"), dl_machine_cell(gpus, r, "memory"),
                    cell_number(gpus, r, "memory_rate"), cell_number(gpus, r, "fp32"),
                    cell_number(gpus, r, "tf32"), cell_number(gpus, r, "fp16"),
                    cell_number(gpus, r, "bf16"), cell_number(gpus, r, "fp8"), first,
                    die ? "a die" : "");
    }
    dl_rows_end(&to, 0);
}

static const char syntax[] =
    "A machine is a machine file, a name of this list, or\n"
    "  8xh100, 2xt4+1xv100   a box of GPUs of the last list, also a mixed one\n"
    "  4xrtx3090+nvlink      with a bridge between each two GPUs\n"
    "  2xrtx3090@1gbe        boxes with a network port, as many as the workers need:\n"
    "                        gbe is Ethernet over TCP, ib InfiniBand, in Gb/s;\n"
    "                        also 100roce, 100efa, ndr (400ib), hdr (200ib)\n"
    "  4x8xh100@8x400ib      four boxes, with 8 ports each\n"
    "  1xrtx3090@1gbe+2x4xt4@10gbe\n"
    "                        unlike boxes, the last of which is repeated\n"
    "  4xg5.12xlarge, 2xdgx_h100, 4xdgx1_v100@100ib\n"
    "                        nodes of a name of this list, the last with other ports\n\n";

dl_status dl_machines_print(FILE *out, dl_error *err)
{
    DL_SCOPED(dl_machine_tables) t = {0};
    DL_AUTOFREE char **names = NULL;
    dl_status status = dl_machine_tables_read(&t, err);
    if (status != DL_OK) return status;
    DL_AUTOFREE char *folder = dl_share_path("scenarios/machines");
    const size_t count = dl_machine_files(&names);
    dl_rows list = {.out = out}, titles = {.out = out};
    dl_rows_begin(&list, NULL, NULL);
    dl_rows_begin(&titles, NULL, "of these, from files of their own:");
    for (size_t i = 0; i < count; i++) {
        if (status == DL_OK) status = add_one(&list, &titles, folder, names[i], "", err);
        free(names[i]);
    }
    for (size_t r = 0; r < t.instances.rows && status == DL_OK; r++) {
        status = add_one(&list, NULL, NULL, dl_machine_cell(&t.instances, r, "name"),
                         dl_machine_cell(&t.instances, r, "price_date"), err);
    }
    if (status == DL_OK) fputs(syntax, out);
    dl_rows_end(&list, 0);
    fputs("GPUs and USD/h are those of a node.\n", out);
    dl_rows_end(&titles, 0);
    if (status == DL_OK) print_gpus(out, &t.gpus);
    return status;
}
