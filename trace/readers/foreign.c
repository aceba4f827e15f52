/* Rejection of profilers' files that are not traces of activities. */
#include <string.h>

#include "common/alloc.h"
#include "common/names.h"
#include "trace/readers/readers_internal.h"

#define CHROME "record with torch.profiler and write prof.export_chrome_trace(FILE)"
#define EXPORT "export it: nsys export --type sqlite FILE"

typedef struct foreign_file {
    const char *ends;         /* suffix of the file's name; NULL: any */
    const char *first;        /* first bytes of the file, after blanks; NULL: any */
    const char *holds, *also; /* texts contained in the first bytes; NULL: any */
    const char *what, *instead;
} foreign_file;

static const foreign_file files[] = {
    {.first = "[[",
     .what = "a memory timeline (export_memory_timeline of PyTorch's profiler), bytes over time",
     .instead = CHROME},
    {.first = "{",
     .holds = "\"nodes\"",
     .also = "\"schema\"",
     .what = "an execution trace (PyTorch's ExecutionTraceObserver, Chakra): operators without the "
             "device's times",
     .instead = CHROME},
    {.first = "{",
     .holds = "\"pg_config\"",
     .also = "\"pg_status\"",
     .what = "a dump of NCCL's flight recorder (PyTorch): collectives only",
     .instead = CHROME},
    {.first = "{",
     .holds = "\"traceEvents\"",
     .also = "\"/device:",
     .what = "a trace of TensorFlow's or XLA's profiler (JAX)",
     .instead = "record the program with nsys profile, and export it: nsys export --type sqlite"},
    {.first = "<",
     .holds = "<html",
     .what = "a web page, as export_memory_timeline and TensorBoard write them",
     .instead = CHROME},
    {.first = "\x80",
     .what = "a pickled Python object, as a snapshot of PyTorch's memory is",
     .instead = CHROME},
    {.ends = ".nsys-rep", .what = "a report of Nsight Systems", .instead = EXPORT},
    {.ends = ".qdrep", .what = "a report of Nsight Systems", .instead = EXPORT},
    {.ends = ".ncu-rep",
     .what = "a report of Nsight Compute, of single kernels",
     .instead = "record the program with nsys profile, or with dlprof run"},
    {.ends = ".xplane.pb",
     .what = "a trace of TensorFlow's or XLA's profiler (JAX)",
     .instead = "record the program with nsys profile, and export it: nsys export --type sqlite"},
};

static bool matches(const foreign_file *file, const char *path, const char *dense,
                    const char *begin)
{
    if (file->ends != NULL && !dl_ends_with(path, file->ends)) return false;
    if (file->first != NULL && strncmp(dense, file->first, strlen(file->first)) != 0) return false;
    if (file->holds != NULL && strstr(begin, file->holds) == NULL) return false;
    return file->also == NULL || strstr(begin, file->also) != NULL;
}

dl_status dl_foreign_refuse(const char *path, const char *begin, size_t bytes, dl_error *err)
{
    DL_AUTOFREE char *text = dl_calloc(bytes + 1, 1, "begin of a file");
    char dense[4] = "";
    memcpy(text, begin, bytes);
    for (size_t i = 0, kept = 0; i < bytes && kept + 1 < sizeof dense; i++)
        if (strchr(" \t\r\n", text[i]) == NULL) dense[kept++] = text[i];
    dl_status status = DL_OK;
    for (size_t i = 0; i < DL_LENGTH(files) && status == DL_OK; i++) {
        if (!matches(&files[i], path, dense, text)) continue;
        status = dl_error_set_at(err, DL_ERR_FORMAT, path, 0, "it is %s; %s", files[i].what,
                                 files[i].instead);
    }
    return status;
}
