# For tests that start ranks with mpirun (sourced): permits root and more ranks than cores,
# suppresses reports of MPI's own leaks, and allows time to end on a loaded machine.
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1
export OMPI_MCA_hwloc_base_binding_policy=none
export PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe # the same since Open MPI 5
export OMPI_MCA_odls_base_sigkill_timeout=2 ASAN_OPTIONS=detect_leaks=0
