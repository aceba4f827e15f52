# For tests that start ranks with mpirun (sourced): permits root and more ranks than cores,
# suppresses reports of MPI's own leaks, and allows time to end on a loaded machine. TCP uses the
# loopback interface, as Open MPI 5 warns on hosts whose other interfaces do not reach one another.
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1
export OMPI_MCA_hwloc_base_binding_policy=none OMPI_MCA_btl_tcp_if_include=lo
export PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe # the same since Open MPI 5
export OMPI_MCA_odls_base_sigkill_timeout=2 ASAN_OPTIONS=detect_leaks=0

# names_killed RANK TEXT: mpirun's message TEXT names the killed rank. Open MPI 5 wraps its line.
names_killed() {
    [[ ${2//$'\n'/ } == *"process rank $1 with PID "*" on node $(hostname) exited on signal 9"* ]]
}

# each_rank NAME RANKS COMMAND...: runs the command on that many ranks; rank r's output and errors go
# to NAME.out.r and NAME.err.r, as mpirun may lose the last lines of ranks that it ends. They keep
# mpirun's pipe open: without it, Open MPI 5.0.7 may wait forever for ranks that have failed.
each_rank() {
    local name=$1 ranks=$2
    shift 2
    rm -f "$name".{out,err}.*
    echo "exec \"\$@\" 3>&1 >'$name'.out.\$OMPI_COMM_WORLD_RANK 2>'$name'.err.\$OMPI_COMM_WORLD_RANK" >"$name.sh"
    mpirun -n "$ranks" sh "$name.sh" "$@"
}

# Number of attempts until all ranks have reported a lost one: Open MPI 5 kills them 0.4 s after the
# first has ended, too soon for some on a loaded machine.
attempts=1
mpirun --version 2>/dev/null | grep -q '(Open MPI) [1-4]\.' || attempts=5
