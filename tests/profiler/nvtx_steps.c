/* A target for test_dlprof_run.sh: marks as many steps with NVTX as its argument says, then ends;
 * with a second argument it ends by a signal after the recorder's flush. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <nvtx3/nvToolsExt.h>

int main(int argc, char **argv)
{
    const int steps = argc > 1 ? atoi(argv[1]) : 0;
    for (int step = 0; step < steps; step++) {
        char text[32];
        snprintf(text, sizeof text, "step %d", step);
        nvtxRangePushA(text);
        nvtxRangePushA("forward");
        nvtxRangePop();
        nvtxRangePop();
    }
    if (argc > 2) {
        sleep(2);
        raise(SIGKILL);
    }
    return 0;
}
