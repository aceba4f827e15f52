/* dlcal shapes: fits the kernels of a device to a trace of dlprof bench shapes. */

#include "calibrate/commands.h"
#include "calibrate/shapes.h"
#include "common/alloc.h"
#include "common/file.h"
#include "common/options.h"
#include "common/output.h"
#include "sim/scenario/machine_catalogue.h"

typedef struct settings {
    const char *machine, *output;
} settings;

/* Reads the text of the machine, a file or a name; *text stays NULL without a machine. */
static dl_status read_base(const char *machine, char **text, dl_error *err)
{
    size_t bytes = 0;
    if (machine == NULL) return DL_OK;
    if (!dl_machine_is_known(machine)) return dl_file_read(machine, text, &bytes, err);
    DL_AUTOFREE char *own = dl_machine_file(machine);
    return own != NULL ? dl_file_read(own, text, &bytes, err)
                       : dl_machine_make_text(machine, text, err);
}

static dl_status fit(const dl_text_list *paths, void *user, dl_error *err)
{
    const settings *set = user;
    const dl_file_role output = {"--output", set->output};
    const dl_file_role inputs[] = {{"the trace", paths->items[0]},
                                   {"the machine file", set->machine}};
    DL_SCOPED(dl_trace) trace = {0};
    DL_SCOPED(dl_shapes) shapes = {0};
    DL_AUTOFREE char *base = NULL, *text = NULL;
    dl_status status = dl_outputs_check(&output, 1, inputs, 2, err);
    if (status == DL_OK) status = read_base(set->machine, &base, err);
    if (status == DL_OK) status = dl_trace_read(&trace, paths->items[0], err);
    if (status == DL_OK) status = dl_shapes_fit(&shapes, &trace, err);
    if (status == DL_OK) dl_shapes_print(&shapes, stdout);
    if (status == DL_OK) {
        status = dl_shapes_machine(&shapes, base, set->machine != NULL ? set->machine : set->output,
                                   &text, err);
    }
    if (status == DL_OK) status = dl_output_text(set->output, text, err);
    status = dl_outputs_end(status, err);
    if (status == DL_OK) printf("\nmachine written to %s\n", set->output);
    return status;
}

int dl_calibrate_shapes(int argc, char **argv)
{
    settings set = {.output = "machine.ini"};
    const dl_option options[] = {
        DL_OPT_TEXT("machine", 0, &set.machine, "NAME",
                    "Machine to which the kernels are added: a file or a name (dlsim "
                    "--machines), of GPUs of one model (default: the cores as one device)."),
        DL_OPT_TEXT("output", 'o', &set.output, "FILE", "Machine file to write."),
    };
    const dl_command command = {
        .program = argv[0],
        .positional = "TRACE",
        .summary = "Fit the times of a transformer's kernels to a trace of dlprof bench shapes: "
                   "matrix products by three numbers for each pass, other kernels by two for each "
                   "kind; and the factor by which a layer in a loop takes longer. Print standard "
                   "errors, and the errors on the requested network's products, which the fit "
                   "does not use. Write a machine file with the [kernels] from which dlsim "
                   "estimates transformers.",
        .options = options,
        .option_count = DL_LENGTH(options),
        .positional_min = 1,
        .positional_max = 1};
    return dl_command_main(&command, argc, argv, fit, &set);
}
