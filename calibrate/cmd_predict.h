/* dlcal predict: takes a trace's collectives out, puts modelled ones in, and compares the step. */
#ifndef DL_CALIBRATE_CMD_PREDICT_H
#define DL_CALIBRATE_CMD_PREDICT_H

/* The sub-command; argv[0] is "dlcal predict". Returns the exit status. */
int dl_calibrate_predict(int argc, char **argv);

#endif
